"""What each route of this surface takes and gives."""

from collections.abc import Mapping
from typing import Any

from sessions_app.surfaces.base.openapi.operations import IDEMPOTENCY_KEY, Answer, Description, Operation, Parameter
from sessions_app.surfaces.base.openapi.schemas import NULL, TEXT, UUID, Schema, just, list_of, record, ref
from sessions_app.surfaces.rest import requests as taken
from sessions_app.surfaces.rest.object_schemas import COMPONENTS, answer, answer_with
from sessions_app.surfaces.rest.policy_fields import SessionPolicyBody
from sessions_app.surfaces.rest.views.mcp import McpServerBody, ToolNamesBody
from tools_app.skills.manifest_schema import MANIFEST

_ABOUT = "Komand's own: every answer is one envelope, {success, data, error, meta}."
_NOTHING = NULL
Methods = Mapping[str, Operation]


def _page_of(name: str, query: Any = taken.PageQuery, **more: Any) -> Operation:
    """A list, a page at a time."""
    summary = more.pop("summary")
    whole = Answer("One page; `meta` counts.", answer_with(list_of(ref(name)), ref("Page")))
    return Operation(summary, None, query=query, answers={200: whole}, **more)


_AUTH: dict[str, Methods] = {
    "/api/auth/login": {"post": Operation("Log in", ref("Login"), body=taken.LoginBody, access="open", errors=[401])},
    "/api/auth/refresh": {
        "post": Operation(
            "Renew a login",
            ref("Tokens"),
            body=taken.RefreshBody,
            access="open",
            errors=[401],
            description="The refresh token is used up. Using one twice ends the whole login.",
        )
    },
    "/api/auth/ticket": {"post": Operation("Get a stream ticket", ref("Ticket"))},
    "/api/auth/logout": {"post": Operation("Log out", _NOTHING, body=taken.LogoutBody, access="open", errors=[401])},
    "/api/api-keys": {
        "get": _page_of("ApiKey", summary="List API keys"),
        "post": Operation("Make an API key", ref("NewApiKey"), body=taken.ApiKeyBody),
    },
    "/api/api-keys/{key_id}": {"delete": Operation("Revoke an API key", _NOTHING)},
}

_WAIT = Parameter(
    "wait", "Seconds to wait at most; 0 answers at once.", {"type": "integer", "minimum": 0, "maximum": 30}
)
_PREFER = Parameter("Prefer", "`respond-async` answers at once.", TEXT, where="header")
_ACCEPTED = Answer("Taken in; the run goes on.", answer_with(ref("Accepted"), record({"runId": UUID})))
_MESSAGES: dict[str, Methods] = {
    "/api/webchat/message": {
        "post": Operation(
            "Send a message and wait for its answer",
            ref("Answered"),
            body=taken.MessageBody,
            errors=[404, 409, 422, 502, 504],
            parameters=[IDEMPOTENCY_KEY, _WAIT, _PREFER],
            answers={202: _ACCEPTED},
            waits=True,
            description="Waits up to 30 seconds; then 504 with the run's id, and the work goes on. A client that "
            "leaves stops nothing.",
        )
    },
    "/api/sessions": {"get": _page_of("Session", summary="List your sessions")},
    "/api/sessions/{session_id}": {
        "get": Operation("Read a session", ref("Session")),
        "delete": Operation("Delete a session", _NOTHING),
    },
    "/api/sessions/{session_id}/history": {"get": _page_of("Turn", taken.HistoryQuery, summary="Read what was said")},
    "/api/sessions/{session_id}/bind": {
        "post": Operation("Bind a session to an agent", ref("Session"), body=taken.BindBody)
    },
    "/api/sessions/{session_id}/policy": {
        "get": Operation("Read what a session takes away", ref("SessionPolicy")),
        "put": Operation("Take from what a session's agent may do", ref("SessionPolicy"), body=SessionPolicyBody),
    },
    "/api/sessions/{session_id}/cancel": {
        "post": Operation("Stop runs", record({"cancelled": {"type": "integer"}}), body=taken.CancelBody)
    },
    "/api/sessions/{session_id}/artifacts": {
        "get": _page_of("Artifact", summary="List the files of a session"),
        "post": Operation(
            "Put a file into a session",
            ref("Artifact"),
            body={"type": "string", "format": "binary"},
            media_type="*/*",
            query=taken.UploadQuery,
        ),
    },
    "/api/artifacts/{artifact_id}": {
        "get": Operation("Download a file", answers={200: Answer("Its bytes, as an attachment.", media_type="*/*")}),
        "delete": Operation("Delete a file", _NOTHING),
    },
    "/api/runs/{run_id}": {"get": Operation("Read a run", ref("Run"))},
    "/api/runs/{run_id}/retry": {
        "post": Operation("Answer a message again", ref("Accepted"), status=202, errors=[409])
    },
}

_TOOLS: dict[str, Methods] = {
    "/api/tools/executions/{execution_id}": {"get": Operation("Read a tool execution", ref("Execution"))},
    "/api/tools/executions/{execution_id}/cancel": {"post": Operation("Stop a tool execution", ref("Execution"))},
    "/api/tools/receipts/verify": {
        "post": Operation("Verify a receipt", ref("ReceiptVerdict"), body=taken.ReceiptBody)
    },
    "/api/approvals": {"get": _page_of("Approval", taken.ApprovalQuery, summary="List requests for approval")},
    "/api/approvals/{approval_id}": {"get": Operation("Read a request for approval", ref("Approval"))},
    "/api/approvals/{approval_id}/decide": {
        "post": Operation("Decide a request", ref("Approval"), body=taken.DecideBody, errors=[409, 410])
    },
    "/api/credentials": {
        "get": _page_of("Credential", summary="List your credentials"),
        "post": Operation("Store a credential", ref("Credential"), body=taken.NewCredentialBody),
    },
    "/api/credentials/{name}": {
        "get": Operation("Read when a credential was set and used", ref("Credential")),
        "put": Operation("Store a credential", ref("Credential"), body=taken.CredentialBody),
        "delete": Operation("Delete a credential", _NOTHING),
    },
}

_AGENTS: dict[str, Methods] = {
    "/api/agents": {
        "get": _page_of("Agent", summary="List agents"),
        "post": Operation("Make an agent", ref("AgentInFull"), body=taken.AgentBody, errors=[404, 409]),
    },
    "/api/agents/{agent_id}": {
        "get": Operation("Read an agent", ref("AgentInFull")),
        "put": Operation("Change an agent", ref("AgentInFull"), body=taken.AgentBody, partial=True, errors=[409]),
        "delete": Operation("Retire an agent", _NOTHING, errors=[409]),
    },
    "/api/agents/{agent_id}/grants/{grant_id}": {"delete": Operation("Take a permission back", _NOTHING)},
    "/api/agents/{agent_id}/skills": {"get": Operation("List an agent's skills", list_of(ref("SkillInstall")))},
    "/api/agents/{agent_id}/skills/{skill_id}": {
        "get": Operation("Read an agent's skill", ref("SkillInstall")),
        "post": Operation("Give an agent a skill", ref("SkillInstall"), body=taken.InstallBody, errors=[409]),
        "put": Operation("Grant a skill more or less", ref("SkillInstall"), body=taken.GrantBody),
        "delete": Operation("Take a skill from an agent", _NOTHING),
    },
    "/api/skills": {
        "get": _page_of("Skill", taken.SkillQuery, summary="List skills"),
        "post": Operation("Publish a skill", ref("Skill"), body=MANIFEST, errors=[409]),
    },
    "/api/skills/{skill_id}": {
        "get": Operation("Read a skill", ref("Skill"), query=taken.VersionQuery),
        "put": Operation("Publish a version", ref("Skill"), body=MANIFEST, errors=[409]),
        "delete": Operation("Remove a skill", _NOTHING, errors=[409]),
    },
}

_OPERATORS: dict[str, Methods] = {
    "/api/mcp/servers": {
        "get": _page_of("McpServer", summary="List MCP servers", errors=[403]),
        "post": Operation("Add an MCP server", ref("McpServer"), body=McpServerBody, errors=[409]),
    },
    "/api/mcp/servers/{name}": {
        "get": Operation("Read an MCP server", ref("McpServer"), errors=[403]),
        "put": Operation("Change an MCP server", ref("McpServer"), body=McpServerBody, partial=True),
        "delete": Operation("Remove an MCP server", _NOTHING),
    },
    "/api/mcp/servers/{name}/refresh": {
        "post": Operation("Ask an MCP server for its tools", ref("McpServerRefreshed"), waits=True)
    },
    "/api/mcp/servers/{name}/approve": {
        "post": Operation("Accept an MCP server's tools", ref("McpServerApproved"), body=ToolNamesBody)
    },
    "/api/control": {"get": Operation("See whether agents are stopped", ref("Control"))},
    "/api/control/stop": {"post": Operation("Stop agents", ref("Control"), body=taken.ControlBody, errors=[404])},
    "/api/control/resume": {
        "post": Operation("Let agents go on", ref("Control"), body=taken.ControlBody, errors=[404])
    },
    "/api/audit": {"get": _page_of("AuditEntry", taken.AuditQuery, summary="Read the audit log", errors=[403, 404])},
}


def _schema() -> Methods:
    whole: Schema = {"type": "object", "properties": {"openapi": just("3.1.0")}}
    choice = Parameter("format", "The other way to write it.", {"enum": ["json", "yaml"]})
    answers = {200: Answer("This document.", whole)}
    return {"get": Operation("Read this document", access="open", parameters=[choice], answers=answers)}


DESCRIPTION = Description(
    "Komand",
    _ABOUT,
    "Error",
    COMPONENTS,
    {"/api/schema": _schema(), **_AUTH, **_MESSAGES, **_TOOLS, **_AGENTS, **_OPERATORS},
    wrap=answer,
)
