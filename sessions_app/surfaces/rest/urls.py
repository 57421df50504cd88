"""Routes of the views under /api, without a trailing slash. The waiting one is in `consumers`."""

from django.urls import include, path, re_path, register_converter
from django.urls.converters import StringConverter

from sessions_app.surfaces.base.views import UnknownRoute
from sessions_app.surfaces.rest.views import (
    agent_files,
    agent_versions,
    agents,
    api_keys,
    approvals,
    audit,
    channels,
    control,
    credentials,
    executions,
    files,
    links,
    logins,
    mcp_servers,
    memories,
    messages,
    networks,
    prompts,
    runs,
    schedules,
    sessions,
    shared_memory,
    shares,
    skills,
    templates,
    usage,
    workstreams,
)

app_name = "rest"


class SessionIdConverter(StringConverter):
    """A session id, raw or percent-encoded. It may contain slashes: the server has decoded %2F already.

    As short as possible: what follows it may contain slashes, too.
    """

    regex = ".+?"


register_converter(SessionIdConverter, "session")

_below_api = [
    path("auth/login", logins.Login.as_view(), name="auth-login"),
    path("auth/refresh", logins.Refresh.as_view(), name="auth-refresh"),
    path("auth/ticket", logins.Ticket.as_view(), name="auth-ticket"),
    path("auth/logout", logins.Logout.as_view(), name="auth-logout"),
    path("sessions", sessions.SessionList.as_view(), name="session-list"),
    # The first: a key may end like the address of another resource, such as notes/history.
    path(
        "sessions/<session:session_id>/shared-memory/<path:key>",
        shared_memory.SessionValue.as_view(),
        name="session-shared-value",
    ),
    path(
        "sessions/<session:session_id>/shared-memory",
        shared_memory.SessionValueList.as_view(),
        name="session-shared-memory",
    ),
    path("sessions/<session:session_id>/history", sessions.SessionHistory.as_view(), name="session-history"),
    path("sessions/<session:session_id>/export", shares.SessionExport.as_view(), name="session-export"),
    path("sessions/<session:session_id>/shares", shares.SessionShares.as_view(), name="session-shares"),
    path("sessions/<session:session_id>/fork", shares.SessionFork.as_view(), name="session-fork"),
    path("shares", shares.ShareList.as_view(), name="share-list"),
    path("shares/<str:share_id>", shares.ShareDetail.as_view(), name="share-detail"),
    path("sessions/<session:session_id>/messages", messages.SessionMessages.as_view(), name="session-messages"),
    path("sessions/<session:session_id>/regenerate", messages.SessionRegenerate.as_view(), name="session-regenerate"),
    path("sessions/<session:session_id>/edit", messages.SessionEdit.as_view(), name="session-edit"),
    path("sessions/<session:session_id>/branches", sessions.SessionBranches.as_view(), name="session-branches"),
    path("sessions/<session:session_id>/compact", sessions.SessionCompact.as_view(), name="session-compact"),
    path("sessions/<session:session_id>/context", sessions.SessionContext.as_view(), name="session-context"),
    path("sessions/<session:session_id>/pins/<str:turn_id>", sessions.SessionPin.as_view(), name="session-pin"),
    path("sessions/<session:session_id>/bind", sessions.SessionBind.as_view(), name="session-bind"),
    path("sessions/<session:session_id>/policy", sessions.SessionPolicy.as_view(), name="session-policy"),
    path("sessions/<session:session_id>/cancel", sessions.SessionCancel.as_view(), name="session-cancel"),
    path(
        "sessions/<session:session_id>/workstreams",
        workstreams.SessionWorkstreams.as_view(),
        name="session-workstreams",
    ),
    path("sessions/<session:session_id>/artifacts", files.SessionArtifacts.as_view(), name="session-artifacts"),
    path("sessions/<session:session_id>", sessions.SessionDetail.as_view(), name="session-detail"),
    path("account/links", links.LinkList.as_view(), name="link-list"),
    path("account/links/confirm", links.LinkConfirm.as_view(), name="link-confirm"),
    path("account/links/<uuid:link_id>", links.LinkDetail.as_view(), name="link-detail"),
    path("memories", memories.MemoryList.as_view(), name="memory-list"),
    path("memories/<uuid:memory_id>", memories.MemoryDetail.as_view(), name="memory-detail"),
    path("memories/<uuid:memory_id>/approve", memories.MemoryApprove.as_view(), name="memory-approve"),
    path("search", messages.Search.as_view(), name="search"),
    path("artifacts/<str:artifact_id>", files.ArtifactDetail.as_view(), name="artifact-detail"),
    path("attachments", files.AttachmentList.as_view(), name="attachment-list"),
    path("attachments/<str:attachment_id>", files.AttachmentDetail.as_view(), name="attachment-detail"),
    path("attachments/<str:file_id>/content", files.AttachmentContent.as_view(), name="attachment-content"),
    path("runs/messages", workstreams.RunsMessage.as_view(), name="runs-message"),  # before the id of a run
    path("runs/<str:run_id>/messages", workstreams.RunMessage.as_view(), name="run-message"),
    path("runs/<str:run_id>/steer", workstreams.RunSteer.as_view(), name="run-steer"),
    path("runs/<str:run_id>", runs.RunDetail.as_view(), name="run-detail"),
    path("runs/<str:run_id>/shared-memory", shared_memory.RunValueList.as_view(), name="run-shared-memory"),
    path("runs/<str:run_id>/shared-memory/<path:key>", shared_memory.RunValue.as_view(), name="run-shared-value"),
    path("runs/<str:run_id>/retry", runs.RunRetry.as_view(), name="run-retry"),
    path("runs/<str:run_id>/cancel", runs.RunCancel.as_view(), name="run-cancel"),
    path("runs/<str:run_id>/workstreams", runs.RunWorkstreams.as_view(), name="run-workstreams"),
    path("tools/executions/<str:execution_id>", executions.ExecutionDetail.as_view(), name="execution-detail"),
    path("tools/executions/<str:execution_id>/cancel", executions.ExecutionCancel.as_view(), name="execution-cancel"),
    path("tools/receipts/verify", executions.ReceiptVerify.as_view(), name="receipt-verify"),
    path("approvals", approvals.ApprovalList.as_view(), name="approval-list"),
    path("approvals/<str:approval_id>", approvals.ApprovalDetail.as_view(), name="approval-detail"),
    path("approvals/<str:approval_id>/decide", approvals.ApprovalDecide.as_view(), name="approval-decide"),
    path("agents", agents.AgentList.as_view(), name="agent-list"),
    path("agents/import", agent_files.AgentImport.as_view(), name="agent-import"),
    path("agents/<str:agent_id>/export", agent_files.AgentExport.as_view(), name="agent-export"),
    path("agents/<str:agent_id>", agents.AgentDetail.as_view(), name="agent-detail"),
    path("agents/<str:agent_id>/prompt", prompts.AgentPrompt.as_view(), name="agent-prompt"),
    path("runs/<str:run_id>/prompt", prompts.RunPrompt.as_view(), name="run-prompt"),
    path("agents/<str:agent_id>/versions", agent_versions.VersionList.as_view(), name="agent-version-list"),
    path("agents/<str:agent_id>/versions/<int:number>", agent_versions.VersionDetail.as_view(), name="agent-version"),
    path(
        "agents/<str:agent_id>/versions/<int:number>/diff",
        agent_versions.VersionDiff.as_view(),
        name="agent-version-diff",
    ),
    path(
        "agents/<str:agent_id>/versions/<int:number>/rollback",
        agent_versions.VersionRollback.as_view(),
        name="agent-version-rollback",
    ),
    path("agents/<str:agent_id>/draft", agent_versions.AgentDraft.as_view(), name="agent-draft"),
    path("agents/<str:agent_id>/draft/publish", agent_versions.DraftPublish.as_view(), name="agent-draft-publish"),
    path("api-keys", api_keys.ApiKeyList.as_view(), name="api-key-list"),
    path("api-keys/<uuid:key_id>", api_keys.ApiKeyDetail.as_view(), name="api-key-detail"),
    path("skills", skills.SkillList.as_view(), name="skill-list"),
    path("skills/<str:skill_id>", skills.SkillDetail.as_view(), name="skill-detail"),
    path("agents/<str:agent_id>/skills", skills.AgentSkillList.as_view(), name="agent-skill-list"),
    path("agents/<str:agent_id>/skills/<str:skill_id>", skills.AgentSkill.as_view(), name="agent-skill"),
    path("credentials", credentials.CredentialList.as_view(), name="credential-list"),
    path("credentials/<str:name>", credentials.CredentialDetail.as_view(), name="credential-detail"),
    path("agents/<str:agent_id>/grants/<uuid:grant_id>", agents.AgentGrant.as_view(), name="agent-grant"),
    path("mcp/servers", mcp_servers.McpServerList.as_view(), name="mcp-server-list"),
    path("mcp/servers/<str:name>", mcp_servers.McpServerDetail.as_view(), name="mcp-server-detail"),
    path("mcp/servers/<str:name>/refresh", mcp_servers.McpServerRefresh.as_view(), name="mcp-server-refresh"),
    path(
        "mcp/servers/<str:name>/authorization",
        mcp_servers.McpServerAuthorization.as_view(),
        name="mcp-server-authorization",
    ),
    path("mcp/servers/<str:name>/approve", mcp_servers.McpServerApprove.as_view(), name="mcp-server-approve"),
    path("cron", schedules.ScheduleList.as_view(), name="schedule-list"),
    path("cron/<str:agent_id>/<str:task_id>", schedules.ScheduleDetail.as_view(), name="schedule-detail"),
    path("cron/<str:agent_id>/<str:task_id>/run", schedules.ScheduleRun.as_view(), name="schedule-run"),
    path("templates", templates.TemplateList.as_view(), name="template-list"),
    path("templates/<str:name>", templates.TemplateDetail.as_view(), name="template-detail"),
    path("templates/<str:name>/preview", templates.TemplatePreview.as_view(), name="template-preview"),
    path("templates/<str:name>/versions", templates.TemplateVersionList.as_view(), name="template-version-list"),
    path(
        "templates/<str:name>/versions/<int:number>", templates.TemplateVersionDetail.as_view(), name="template-version"
    ),
    path(
        "templates/<str:name>/versions/<int:number>/rollback",
        templates.TemplateRollback.as_view(),
        name="template-rollback",
    ),
    path("networks", networks.NetworkList.as_view(), name="network-list"),
    path("networks/check", networks.NetworkCheck.as_view(), name="network-check"),
    path("networks/runs/<str:run_id>", networks.NetworkRunDetail.as_view(), name="network-run-detail"),
    path("networks/<str:name>/run", networks.NetworkRun.as_view(), name="network-run"),
    path("networks/<str:name>", networks.NetworkDetail.as_view(), name="network-detail"),
    path("channels", channels.ChannelList.as_view(), name="channel-list"),
    path("channels/<uuid:channel_id>", channels.ChannelDetail.as_view(), name="channel-detail"),
    path("channels/<uuid:channel_id>/routes", channels.RouteList.as_view(), name="route-list"),
    path("channels/<uuid:channel_id>/routes/<uuid:route_id>", channels.RouteDetail.as_view(), name="route-detail"),
    path("channels/<uuid:channel_id>/deliveries", channels.DeliveryList.as_view(), name="delivery-list"),
    path(
        "channels/<uuid:channel_id>/deliveries/<int:delivery_id>/send-again",
        channels.DeliverySendAgain.as_view(),
        name="delivery-send-again",
    ),
    path("control", control.ControlStatus.as_view(), name="control-status"),
    path("control/stop", control.ControlStop.as_view(), name="control-stop"),
    path("control/resume", control.ControlResume.as_view(), name="control-resume"),
    path("usage", usage.UsageReport.as_view(), name="usage"),
    path("usage/caps", usage.CapList.as_view(), name="cap-list"),
    path("usage/caps/<int:user_id>", usage.UserCaps.as_view(), name="user-caps"),
    path("model-prices", usage.PriceList.as_view(), name="price-list"),
    path("model-prices/<str:provider>/<path:model>", usage.PriceDetail.as_view(), name="price-detail"),
    path("audit", audit.AuditList.as_view(), name="audit-list"),
    re_path("", UnknownRoute.as_view(), name="unknown"),
]

urlpatterns = [path("api/", include(_below_api))]
