"""The operations of this surface for the OpenAPI document. Their objects are the serializers of `responses`."""

from collections.abc import Mapping
from typing import Any

from sessions_app.surfaces.base.openapi.fields import answer_schema, components_of
from sessions_app.surfaces.base.openapi.operations import IDEMPOTENCY_KEY, Answer, Description, Operation, Parameter
from sessions_app.surfaces.base.openapi.schemas import (
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
from sessions_app.surfaces.rest import requests as taken
from sessions_app.surfaces.rest import responses as given
from tools_app.skills.manifest_schema import MANIFEST

_ABOUT = "Komand's own API: every answer is one envelope, {success, data, error, meta}."
_NOTHING = NULL
_ERROR = record(
    {
        "success": just(False),
        "data": NULL,
        "error": about(TEXT, "A message for people: what to do."),
        "meta": record({"code": about(TEXT, "A stable code for programs.")}, open_ended=True),
    }
)
_PAGE = record({"total": COUNT, "page": INTEGER, "pageSize": INTEGER}, optional=["total"])
Methods = Mapping[str, Operation]


def _envelope(data: Schema | type[ObjectSerializer], meta: Schema | None = None) -> Schema:
    """Return the schema of a successful answer."""
    meta = nullable(OBJECT) if meta is None else meta
    return record({"success": just(True), "data": answer_schema(data), "error": NULL, "meta": meta})


def _list_of(item: type[ObjectSerializer]) -> Schema:
    return list_of(answer_schema(item))


def _page_of(item: type[ObjectSerializer], query: Any = taken.PageQuery, **more: Any) -> Operation:
    """Return the operation of a list that is returned in pages."""
    summary = more.pop("summary")
    page = Answer("One page; `meta` counts the items.", _envelope(_list_of(item), ref("Page")))
    return Operation(summary, None, query=query, answers={200: page}, **more)


_AUTH: dict[str, Methods] = {
    "/api/auth/login": {"post": Operation("Log in", given.LoginOut, body=taken.LoginBody, access="open", errors=[401])},
    "/api/auth/refresh": {
        "post": Operation(
            "Renew a login",
            given.TokensOut,
            body=taken.RefreshBody,
            access="open",
            errors=[401],
            description="The refresh token becomes invalid. Using one twice ends the login.",
        )
    },
    "/api/auth/ticket": {"post": Operation("Get a stream ticket", given.TicketOut)},
    "/api/auth/logout": {"post": Operation("Log out", _NOTHING, body=taken.LogoutBody, access="open", errors=[401])},
    "/api/api-keys": {
        "get": _page_of(given.ApiKeyOut, summary="List API keys"),
        "post": Operation("Create an API key", given.NewApiKeyOut, body=taken.ApiKeyBody),
    },
    "/api/api-keys/{key_id}": {"delete": Operation("Revoke an API key", _NOTHING)},
}

_WAIT = Parameter("wait", "Seconds to wait; 0 returns at once.", {"type": "integer", "minimum": 0, "maximum": 30})
_PREFER = Parameter("Prefer", "`respond-async` returns at once.", TEXT, where="header")
_ACCEPTED = Answer("The message is stored; the run continues.", _envelope(given.AcceptedOut, record({"runId": UUID})))
_MESSAGES: dict[str, Methods] = {
    "/api/webchat/message": {
        "post": Operation(
            "Send a message and wait for its answer",
            given.AnsweredOut,
            body=taken.MessageBody,
            errors=[404, 409, 422, 502, 504],
            parameters=[IDEMPOTENCY_KEY, _WAIT, _PREFER],
            answers={202: _ACCEPTED},
            streams=True,
            description="Waits up to 30 seconds, then returns 504 with the id of the run, which continues. "
            "Closing the connection does not stop the run.",
        )
    },
    "/api/sessions": {"get": _page_of(given.SessionOut, summary="List your sessions")},
    "/api/sessions/{session_id}": {
        "get": Operation("Read a session", given.SessionOut),
        "delete": Operation("Delete a session", _NOTHING),
    },
    "/api/sessions/{session_id}/history": {
        "get": _page_of(given.TurnOut, taken.HistoryQuery, summary="Read the turns of a session")
    },
    "/api/sessions/{session_id}/bind": {
        "post": Operation("Bind a session to an agent", given.SessionOut, body=taken.BindBody)
    },
    "/api/sessions/{session_id}/policy": {
        "get": Operation("Read the restrictions of a session", given.SessionPolicyOut),
        "put": Operation("Restrict a session", given.SessionPolicyOut, body=taken.SessionPolicyBody),
    },
    "/api/sessions/{session_id}/cancel": {
        "post": Operation("Stop runs", record({"cancelled": {"type": "integer"}}), body=taken.CancelBody)
    },
    "/api/sessions/{session_id}/artifacts": {
        "get": _page_of(given.ArtifactOut, summary="List the files of a session"),
        "post": Operation(
            "Upload a file to a session",
            given.ArtifactOut,
            body={"type": "string", "format": "binary"},
            media_type="*/*",
            query=taken.UploadQuery,
        ),
    },
    "/api/artifacts/{artifact_id}": {
        "get": Operation("Download a file", answers={200: Answer("The content, as an attachment.", media_type="*/*")}),
        "delete": Operation("Delete a file", _NOTHING),
    },
    "/api/runs/{run_id}": {"get": Operation("Read a run", given.RunOut)},
    "/api/runs/{run_id}/retry": {"post": Operation("Retry a run", given.AcceptedOut, status=202, errors=[409])},
}

_TOOLS: dict[str, Methods] = {
    "/api/tools/executions/{execution_id}": {"get": Operation("Read a tool execution", given.ExecutionOut)},
    "/api/tools/executions/{execution_id}/cancel": {"post": Operation("Stop a tool execution", given.ExecutionOut)},
    "/api/tools/receipts/verify": {
        "post": Operation("Verify a receipt", given.ReceiptVerdictOut, body=taken.ReceiptBody)
    },
    "/api/approvals": {"get": _page_of(given.ApprovalOut, taken.ApprovalQuery, summary="List approvals")},
    "/api/approvals/{approval_id}": {"get": Operation("Read an approval", given.ApprovalOut)},
    "/api/approvals/{approval_id}/decide": {
        "post": Operation("Decide an approval", given.ApprovalOut, body=taken.DecideBody, errors=[409, 410])
    },
    "/api/credentials": {
        "get": _page_of(given.CredentialOut, summary="List your credentials"),
        "post": Operation("Store a credential", given.CredentialOut, body=taken.NewCredentialBody),
    },
    "/api/credentials/{name}": {
        "get": Operation("Read a credential without its value", given.CredentialOut),
        "put": Operation("Store a credential", given.CredentialOut, body=taken.CredentialBody),
        "delete": Operation("Delete a credential", _NOTHING),
    },
}

_AGENTS: dict[str, Methods] = {
    "/api/agents": {
        "get": _page_of(agents.AgentOut, summary="List agents"),
        "post": Operation("Create an agent", agents.AgentInFullOut, body=taken.AgentBody, errors=[404, 409]),
    },
    "/api/agents/{agent_id}": {
        "get": Operation("Read an agent", agents.AgentInFullOut),
        "put": Operation("Change an agent", agents.AgentInFullOut, body=taken.AgentBody, partial=True, errors=[409]),
        "delete": Operation("Retire an agent", _NOTHING, errors=[409]),
    },
    "/api/agents/{agent_id}/grants/{grant_id}": {"delete": Operation("Revoke a permission", _NOTHING)},
    "/api/agents/{agent_id}/skills": {"get": Operation("List an agent's skills", _list_of(agents.SkillInstallOut))},
    "/api/agents/{agent_id}/skills/{skill_id}": {
        "get": Operation("Read an agent's skill", agents.SkillInstallOut),
        "post": Operation("Install a skill for an agent", agents.SkillInstallOut, body=taken.InstallBody, errors=[409]),
        "put": Operation("Change the permissions of a skill", agents.SkillInstallOut, body=taken.GrantBody),
        "delete": Operation("Uninstall a skill", _NOTHING),
    },
    "/api/skills": {
        "get": _page_of(agents.SkillOut, taken.SkillQuery, summary="List skills"),
        "post": Operation("Publish a skill", agents.SkillOut, body=MANIFEST, errors=[409]),
    },
    "/api/skills/{skill_id}": {
        "get": Operation("Read a skill", agents.SkillOut, query=taken.VersionQuery),
        "put": Operation("Publish a version", agents.SkillOut, body=MANIFEST, errors=[409]),
        "delete": Operation("Remove a skill", _NOTHING, errors=[409]),
    },
}

_OPERATORS: dict[str, Methods] = {
    "/api/mcp/servers": {
        "get": _page_of(agents.McpServerOut, summary="List MCP servers", errors=[403]),
        "post": Operation("Add an MCP server", agents.McpServerOut, body=taken.McpServerBody, errors=[409]),
    },
    "/api/mcp/servers/{name}": {
        "get": Operation("Read an MCP server", agents.McpServerOut, errors=[403]),
        "put": Operation("Change an MCP server", agents.McpServerOut, body=taken.McpServerBody, partial=True),
        "delete": Operation("Remove an MCP server", _NOTHING),
    },
    "/api/mcp/servers/{name}/refresh": {
        "post": Operation("Refresh the tools of an MCP server", agents.McpServerRefreshedOut, streams=True)
    },
    "/api/mcp/servers/{name}/approve": {
        "post": Operation("Approve the tools of an MCP server", agents.McpServerApprovedOut, body=taken.ToolNamesBody)
    },
    "/api/control": {"get": Operation("Read the state of the emergency stop", agents.ControlOut)},
    "/api/control/stop": {"post": Operation("Stop agents", agents.ControlOut, body=taken.ControlBody, errors=[404])},
    "/api/control/resume": {
        "post": Operation("Resume agents", agents.ControlOut, body=taken.ControlBody, errors=[404])
    },
    "/api/audit": {
        "get": _page_of(given.AuditEntryOut, taken.AuditQuery, summary="Read the audit log", errors=[403, 404])
    },
}


def _schema() -> Methods:
    whole: Schema = {"type": "object", "properties": {"openapi": just("3.1.0")}}
    choice = Parameter("format", "The format; also chosen by Accept.", {"enum": ["json", "yaml"]})
    answers = {200: Answer("This document.", whole)}
    return {"get": Operation("Read this document", access="open", parameters=[choice], answers=answers)}


DESCRIPTION = Description(
    "Komand",
    _ABOUT,
    "Error",
    {"Error": _ERROR, "Page": _PAGE, **components_of(given, agents)},
    {"/api/schema": _schema(), **_AUTH, **_MESSAGES, **_TOOLS, **_AGENTS, **_OPERATORS},
    wrap=_envelope,
)
