"""The operations of this surface for the OpenAPI document. Their objects are the serializers of `responses`."""

from typing import Any

from sessions_app.surfaces.base.openapi.fields import answer_schema, components_of
from sessions_app.surfaces.base.openapi.operations import IDEMPOTENCY_KEY, Answer, Description, Operation, Parameter
from sessions_app.surfaces.base.openapi.schemas import (
    BINARY,
    COUNT,
    INTEGER,
    NULL,
    OBJECT,
    TEXT,
    UUID,
    Schema,
    about,
    just,
    list_of,
    nullable,
    record,
    ref,
)
from sessions_app.surfaces.base.serializers import ObjectSerializer
from sessions_app.surfaces.rest import agent_responses as agents
from sessions_app.surfaces.rest import requests as req
from sessions_app.surfaces.rest import responses as res
from tools_app.skills.manifest_schema import MANIFEST

_ABOUT = "Komand's own API: every answer is one envelope, {success, data, error, meta}."
_ERROR = record(
    {
        "success": just(False),
        "data": NULL,
        "error": about(TEXT, "A message for people: what to do."),
        "meta": record({"code": about(TEXT, "A stable code for programs.")}, open_ended=True),
    }
)
_PAGE = record({"total": COUNT, "page": INTEGER, "pageSize": INTEGER}, optional=["total"])


def _envelope(data: Schema | type[ObjectSerializer], meta: Schema | None = None) -> Schema:
    meta = nullable(OBJECT) if meta is None else meta
    return record({"success": just(True), "data": answer_schema(data), "error": NULL, "meta": meta})


def _list_of(item: type[ObjectSerializer] | Schema) -> Schema:
    return list_of(answer_schema(item))


def _page_of(summary: str, item: type[ObjectSerializer] | Schema, query: Any = req.PageQuery, **more: Any) -> Operation:
    page = Answer("One page; `meta` counts the items.", _envelope(_list_of(item), ref("Page")))
    return Operation(summary, None, query=query, answers={200: page}, **more)


def _seen(agent: type[ObjectSerializer]) -> Schema:
    """Return the schema of an agent, of which users who may only use it see a summary."""
    return {"anyOf": [answer_schema(agent), answer_schema(agents.AgentSummaryOut)]}


_PUBLIC: dict[str, Any] = {"access": "open", "errors": [401]}
_RENEWAL = "The refresh token becomes invalid. Using one twice ends the login."
_AUTH = {
    "POST /api/auth/login": Operation("Log in", res.LoginOut, body=req.LoginBody, **_PUBLIC),
    "POST /api/auth/refresh": Operation(
        "Renew a login", res.TokensOut, body=req.RefreshBody, description=_RENEWAL, **_PUBLIC
    ),
    "POST /api/auth/ticket": Operation("Get a stream ticket", res.TicketOut),
    "POST /api/auth/logout": Operation("Log out", NULL, body=req.LogoutBody, **_PUBLIC),
    "GET /api/api-keys": _page_of("List API keys", res.ApiKeyOut),
    "POST /api/api-keys": Operation("Create an API key", res.NewApiKeyOut, body=req.ApiKeyBody),
    "DELETE /api/api-keys/{key_id}": Operation("Revoke an API key", NULL),
}

_WAIT = Parameter(
    "wait",
    "Seconds to wait, at most KOMAND_LONGEST_WAIT_SECONDS; 0 returns at once.",
    {"type": "integer", "minimum": 0},
)
_PREFER = Parameter("Prefer", "`respond-async` returns at once.", TEXT, where="header")
_ACCEPTED = Answer("The message is stored; the run continues.", _envelope(res.AcceptedOut, record({"runId": UUID})))
_REPLACES: dict[str, Any] = {
    "status": 202,
    "errors": [404, 409, 422],
    "parameters": [IDEMPOTENCY_KEY],
    "description": "The new message begins a branch, which later messages continue. The earlier turns stay.",
}
_CANCELLED = record({"cancelled": INTEGER})
_CONTENT = {200: Answer("The content, as an attachment.", media_type="*/*")}
_MESSAGES = {
    "POST /api/webchat/message": Operation(
        "Send a message and wait for its answer",
        res.AnsweredOut,
        body=req.MessageBody,
        errors=[404, 409, 422, 502, 504],
        parameters=[IDEMPOTENCY_KEY, _WAIT, _PREFER],
        answers={202: _ACCEPTED},
        streams=True,
        description="Waits up to 30 seconds, then returns 504 with the id of the run, which continues. "
        "Closing the connection does not stop the run.",
    ),
    "GET /api/sessions": _page_of("List or search your sessions", res.FoundSessionOut, req.SessionQuery),
    "GET /api/sessions/{session_id}": Operation("Read a session", res.SessionOut),
    "DELETE /api/sessions/{session_id}": Operation("Delete a session", NULL),
    "GET /api/sessions/{session_id}/history": _page_of("Read the turns of a session", res.TurnOut, req.HistoryQuery),
    "POST /api/sessions/{session_id}/regenerate": Operation(
        "Generate an answer again", res.AcceptedOut, body=req.RegenerateBody, **_REPLACES
    ),
    "POST /api/sessions/{session_id}/edit": Operation(
        "Edit a message", res.AcceptedOut, body=req.EditBody, **_REPLACES
    ),
    "GET /api/sessions/{session_id}/branches": _page_of("List the branches of a session", res.BranchOut),
    "POST /api/sessions/{session_id}/branches": _page_of(
        "Select the active branch", res.BranchOut, None, body=req.BranchBody, errors=[409]
    ),
    "POST /api/sessions/{session_id}/bind": Operation("Bind a session to an agent", res.SessionOut, body=req.BindBody),
    "GET /api/sessions/{session_id}/policy": Operation("Read the restrictions of a session", res.SessionPolicyOut),
    "PUT /api/sessions/{session_id}/policy": Operation(
        "Restrict a session", res.SessionPolicyOut, body=req.SessionPolicyBody
    ),
    "POST /api/sessions/{session_id}/cancel": Operation("Stop runs", _CANCELLED, body=req.CancelBody),
    "GET /api/sessions/{session_id}/artifacts": _page_of("List the files of a session", res.ArtifactOut),
    "POST /api/sessions/{session_id}/artifacts": Operation(
        "Upload a file to a session", res.ArtifactOut, body=BINARY, media_type="*/*", query=req.UploadQuery
    ),
    "GET /api/artifacts/{artifact_id}": Operation("Download a file", answers=_CONTENT),
    "DELETE /api/artifacts/{artifact_id}": Operation("Delete a file", NULL),
    "POST /api/attachments": Operation(
        "Upload a file for a message",
        res.AttachmentOut,
        body=BINARY,
        media_type="*/*",
        query=req.AttachmentQuery,
        description="Send its id in `attachments` of a message within a day.",
    ),
    "GET /api/attachments/{attachment_id}": Operation("Read a file that is not sent", res.AttachmentOut),
    "DELETE /api/attachments/{attachment_id}": Operation("Delete a file that is not sent", NULL),
    "GET /api/runs/{run_id}": Operation("Read a run", res.RunOut),
    "POST /api/runs/{run_id}/retry": Operation("Retry a run", res.AcceptedOut, status=202, errors=[409]),
}

_TOOLS = {
    "GET /api/tools/executions/{execution_id}": Operation("Read a tool execution", res.ExecutionOut),
    "POST /api/tools/executions/{execution_id}/cancel": Operation("Stop a tool execution", res.ExecutionOut),
    "POST /api/tools/receipts/verify": Operation("Verify a receipt", res.ReceiptVerdictOut, body=req.ReceiptBody),
    "GET /api/approvals": _page_of("List approvals", res.ApprovalOut, req.ApprovalQuery),
    "GET /api/approvals/{approval_id}": Operation("Read an approval", res.ApprovalOut),
    "POST /api/approvals/{approval_id}/decide": Operation(
        "Decide an approval", res.ApprovalOut, body=req.DecideBody, errors=[409, 410]
    ),
    "GET /api/credentials": _page_of("List your credentials", res.CredentialOut),
    "POST /api/credentials": Operation(
        "Store a credential", res.CredentialOut, body=req.NewCredentialBody, errors=[404]
    ),
    "GET /api/credentials/{name}": Operation("Read a credential without its value", res.CredentialOut),
    "PUT /api/credentials/{name}": Operation("Store a credential", res.CredentialOut, body=req.CredentialBody),
    "DELETE /api/credentials/{name}": Operation("Delete a credential", NULL),
}

_AGENTS = {
    "GET /api/agents": _page_of("List agents that you may use or see", _seen(agents.AgentOut)),
    "POST /api/agents": Operation("Create an agent", agents.AgentInFullOut, body=req.AgentBody, errors=[404, 409]),
    "GET /api/agents/{agent_id}": Operation("Read an agent", _seen(agents.AgentInFullOut)),
    "PUT /api/agents/{agent_id}": Operation(
        "Change an agent", agents.AgentInFullOut, body=req.AgentBody, partial=True, errors=[409]
    ),
    "DELETE /api/agents/{agent_id}": Operation("Retire an agent", NULL, errors=[409]),
    "DELETE /api/agents/{agent_id}/grants/{grant_id}": Operation("Revoke a permission", NULL),
    "GET /api/agents/{agent_id}/skills": Operation("List an agent's skills", _list_of(agents.SkillInstallOut)),
    "GET /api/agents/{agent_id}/skills/{skill_id}": Operation("Read an agent's skill", agents.SkillInstallOut),
    "POST /api/agents/{agent_id}/skills/{skill_id}": Operation(
        "Install a skill for an agent", agents.SkillInstallOut, body=req.InstallBody, errors=[409]
    ),
    "PUT /api/agents/{agent_id}/skills/{skill_id}": Operation(
        "Change the permissions of a skill", agents.SkillInstallOut, body=req.GrantBody
    ),
    "DELETE /api/agents/{agent_id}/skills/{skill_id}": Operation("Uninstall a skill", NULL),
    "GET /api/skills": _page_of("List skills", agents.SkillOut, req.SkillQuery),
    "POST /api/skills": Operation("Publish a skill", agents.SkillOut, body=MANIFEST, errors=[409]),
    "GET /api/skills/{skill_id}": Operation("Read a skill", agents.SkillOut, query=req.VersionQuery),
    "PUT /api/skills/{skill_id}": Operation("Publish a version", agents.SkillOut, body=MANIFEST, errors=[409]),
    "DELETE /api/skills/{skill_id}": Operation("Remove a skill", NULL, errors=[409]),
}

_OPERATORS = {
    "GET /api/mcp/servers": _page_of("List MCP servers", agents.McpServerOut, errors=[403]),
    "POST /api/mcp/servers": Operation("Add an MCP server", agents.McpServerOut, body=req.McpServerBody, errors=[409]),
    "GET /api/mcp/servers/{name}": Operation("Read an MCP server", agents.McpServerOut, errors=[403]),
    "PUT /api/mcp/servers/{name}": Operation(
        "Change an MCP server", agents.McpServerOut, body=req.McpServerBody, partial=True
    ),
    "DELETE /api/mcp/servers/{name}": Operation("Remove an MCP server", NULL),
    "POST /api/mcp/servers/{name}/refresh": Operation(
        "Refresh the tools of an MCP server", agents.McpServerRefreshedOut, streams=True
    ),
    "POST /api/mcp/servers/{name}/approve": Operation(
        "Approve the tools of an MCP server", agents.McpServerApprovedOut, body=req.ToolNamesBody
    ),
    "GET /api/control": Operation("Read the state of the emergency stop", agents.ControlOut),
    "POST /api/control/stop": Operation("Stop agents", agents.ControlOut, body=req.ControlBody, errors=[404]),
    "POST /api/control/resume": Operation("Resume agents", agents.ControlOut, body=req.ControlBody, errors=[404]),
    "GET /api/audit": _page_of("Read the audit log", res.AuditEntryOut, req.AuditQuery, errors=[403, 404]),
}


_DOCUMENT = Answer("This document.", {"type": "object", "properties": {"openapi": just("3.1.0")}})
_FORMAT = Parameter("format", "The format; also chosen by Accept.", {"enum": ["json", "yaml"]})
_SCHEMA = {
    "GET /api/schema": Operation("Read this document", access="open", parameters=[_FORMAT], answers={200: _DOCUMENT})
}
DESCRIPTION = Description(
    "Komand",
    _ABOUT,
    "Error",
    {"Error": _ERROR, "Page": _PAGE, **components_of(res, agents)},
    {**_SCHEMA, **_AUTH, **_MESSAGES, **_TOOLS, **_AGENTS, **_OPERATORS},
    wrap=_envelope,
)
