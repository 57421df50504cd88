"""Routes of the views under /api, without a trailing slash. The waiting one is in `consumers`."""

from django.urls import include, path, re_path, register_converter
from django.urls.converters import StringConverter

from sessions_app.surfaces.base.views import UnknownRoute
from sessions_app.surfaces.rest.views import (
    agents,
    api_keys,
    approvals,
    artifacts,
    attachments,
    audit,
    auth,
    control,
    credentials,
    mcp,
    sessions,
    skills,
    tools,
)

app_name = "rest"


class SessionIdConverter(StringConverter):
    """A session id, raw or percent-encoded. It may contain slashes: the server has decoded %2F already."""

    regex = ".+"


register_converter(SessionIdConverter, "session")

_below_api = [
    path("auth/login", auth.Login.as_view(), name="auth-login"),
    path("auth/refresh", auth.Refresh.as_view(), name="auth-refresh"),
    path("auth/ticket", auth.Ticket.as_view(), name="auth-ticket"),
    path("auth/logout", auth.Logout.as_view(), name="auth-logout"),
    path("sessions", sessions.SessionList.as_view(), name="session-list"),
    path("sessions/<session:session_id>/history", sessions.SessionHistory.as_view(), name="session-history"),
    path("sessions/<session:session_id>/regenerate", sessions.SessionRegenerate.as_view(), name="session-regenerate"),
    path("sessions/<session:session_id>/edit", sessions.SessionEdit.as_view(), name="session-edit"),
    path("sessions/<session:session_id>/branches", sessions.SessionBranches.as_view(), name="session-branches"),
    path("sessions/<session:session_id>/bind", sessions.SessionBind.as_view(), name="session-bind"),
    path("sessions/<session:session_id>/policy", sessions.SessionPolicy.as_view(), name="session-policy"),
    path("sessions/<session:session_id>/cancel", sessions.SessionCancel.as_view(), name="session-cancel"),
    path("sessions/<session:session_id>/artifacts", artifacts.SessionArtifacts.as_view(), name="session-artifacts"),
    path("sessions/<session:session_id>", sessions.SessionDetail.as_view(), name="session-detail"),
    path("artifacts/<str:artifact_id>", artifacts.ArtifactDetail.as_view(), name="artifact-detail"),
    path("attachments", attachments.AttachmentList.as_view(), name="attachment-list"),
    path("attachments/<str:attachment_id>", attachments.AttachmentDetail.as_view(), name="attachment-detail"),
    path("runs/<str:run_id>", sessions.RunDetail.as_view(), name="run-detail"),
    path("runs/<str:run_id>/retry", sessions.RunRetry.as_view(), name="run-retry"),
    path("tools/executions/<str:execution_id>", tools.ExecutionDetail.as_view(), name="execution-detail"),
    path("tools/executions/<str:execution_id>/cancel", tools.ExecutionCancel.as_view(), name="execution-cancel"),
    path("tools/receipts/verify", tools.ReceiptVerify.as_view(), name="receipt-verify"),
    path("approvals", approvals.ApprovalList.as_view(), name="approval-list"),
    path("approvals/<str:approval_id>", approvals.ApprovalDetail.as_view(), name="approval-detail"),
    path("approvals/<str:approval_id>/decide", approvals.ApprovalDecide.as_view(), name="approval-decide"),
    path("agents", agents.AgentList.as_view(), name="agent-list"),
    path("agents/<str:agent_id>", agents.AgentDetail.as_view(), name="agent-detail"),
    path("api-keys", api_keys.ApiKeyList.as_view(), name="api-key-list"),
    path("api-keys/<uuid:key_id>", api_keys.ApiKeyDetail.as_view(), name="api-key-detail"),
    path("skills", skills.SkillList.as_view(), name="skill-list"),
    path("skills/<str:skill_id>", skills.SkillDetail.as_view(), name="skill-detail"),
    path("agents/<str:agent_id>/skills", skills.AgentSkillList.as_view(), name="agent-skill-list"),
    path("agents/<str:agent_id>/skills/<str:skill_id>", skills.AgentSkill.as_view(), name="agent-skill"),
    path("credentials", credentials.CredentialList.as_view(), name="credential-list"),
    path("credentials/<str:name>", credentials.CredentialDetail.as_view(), name="credential-detail"),
    path("agents/<str:agent_id>/grants/<uuid:grant_id>", agents.AgentGrant.as_view(), name="agent-grant"),
    path("mcp/servers", mcp.McpServerList.as_view(), name="mcp-server-list"),
    path("mcp/servers/<str:name>", mcp.McpServerDetail.as_view(), name="mcp-server-detail"),
    path("mcp/servers/<str:name>/refresh", mcp.McpServerRefresh.as_view(), name="mcp-server-refresh"),
    path("mcp/servers/<str:name>/approve", mcp.McpServerApprove.as_view(), name="mcp-server-approve"),
    path("control", control.ControlStatus.as_view(), name="control-status"),
    path("control/stop", control.ControlStop.as_view(), name="control-stop"),
    path("control/resume", control.ControlResume.as_view(), name="control-resume"),
    path("audit", audit.AuditList.as_view(), name="audit-list"),
    re_path("", UnknownRoute.as_view(), name="unknown"),
]

urlpatterns = [path("api/", include(_below_api))]
