"""The operations of this surface for the OpenAPI document. Their objects are the serializers of `objects`."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from sessions_app.surfaces.base.openapi.fields import answer_schema, components_of
from sessions_app.surfaces.base.openapi.operations import IDEMPOTENCY_KEY, Answer, Description, Operation, Parameter
from sessions_app.surfaces.base.openapi.schemas import (
    BINARY,
    BOOLEAN,
    COUNT,
    INTEGER,
    NULL,
    TEXT,
    UUID,
    Schema,
    about,
    just,
    nullable,
    record,
)
from sessions_app.surfaces.base.serializers import ObjectSerializer
from sessions_app.surfaces.rest import objects
from sessions_app.surfaces.rest.objects import (
    agents,
    api_keys,
    approvals,
    audit,
    control,
    credentials,
    executions,
    files,
    links,
    logins,
    mcp_servers,
    memories,
    messages,
    prompts,
    runs,
    sessions,
    skills,
    usage,
)
from sessions_app.surfaces.rest.openapi_answers import ERROR, PAGE
from sessions_app.surfaces.rest.openapi_answers import envelope as _envelope
from sessions_app.surfaces.rest.openapi_answers import items_of as _list_of
from sessions_app.surfaces.rest.openapi_answers import page_of as _page_of
from sessions_app.surfaces.rest.openapi_channels import CHANNEL_OPERATIONS
from sessions_app.surfaces.rest.openapi_networks import OPERATIONS
from tools_app.skills.manifest_schema import MANIFEST

_OBJECTS = [import_module(f"{objects.__name__}.{found.name}") for found in iter_modules(objects.__path__)]
_ABOUT = "Komand's own API: every answer is one envelope, {success, data, error, meta}."


def _seen(agent: type[ObjectSerializer]) -> Schema:
    """Return the schema of an agent, of which users who may only use it see a summary."""
    return {"anyOf": [answer_schema(agent), answer_schema(agents.AgentSummaryOut)]}


_PUBLIC: dict[str, Any] = {"access": "open", "errors": [401]}
_RENEWAL = "The refresh token becomes invalid. Using one twice ends the login."
_AUTH = {
    "POST /api/auth/login": Operation("Log in", logins.LoginOut, body=logins.LoginBody, **_PUBLIC),
    "POST /api/auth/refresh": Operation(
        "Renew a login", logins.TokensOut, body=logins.RefreshBody, description=_RENEWAL, **_PUBLIC
    ),
    "POST /api/auth/ticket": Operation("Get a stream ticket", logins.TicketOut),
    "POST /api/auth/logout": Operation("Log out", NULL, body=logins.LogoutBody, **_PUBLIC),
    "GET /api/api-keys": _page_of("List API keys", api_keys.ApiKeyOut),
    "POST /api/api-keys": Operation("Create an API key", api_keys.NewApiKeyOut, body=api_keys.ApiKeyBody),
    "DELETE /api/api-keys/{key_id}": Operation("Revoke an API key", NULL),
    "GET /api/account/links": _page_of("List your linked senders of channels", links.LinkOut),
    "POST /api/account/links": Operation("Get a code to link a sender of a channel", links.LinkCodeOut),
    "POST /api/account/links/confirm": Operation(
        "Link the sender who has sent your code", links.LinkOut, body=links.NumberBody, errors=[409]
    ),
    "DELETE /api/account/links/{link_id}": Operation("Unlink a sender", NULL),
}

_WAIT = Parameter(
    "wait",
    "Seconds to wait, at most KOMAND_LONGEST_WAIT_SECONDS; 0 returns at once.",
    {"type": "integer", "minimum": 0},
)
_PREFER = Parameter("Prefer", "`respond-async` returns at once.", TEXT, where="header")
_ACCEPTED = Answer(
    "The message is stored; the run continues.", _envelope(messages.AcceptedOut, record({"runId": UUID}))
)
_REPLACES: dict[str, Any] = {
    "status": 202,
    "errors": [404, 409, 422],
    "parameters": [IDEMPOTENCY_KEY],
    "description": "The new message begins a branch, which later messages continue. The earlier turns stay.",
}
_CURSOR = record({"nextCursor": nullable(about(TEXT, "Of the next page; null at the end."))})
_CANCELLED = record({"cancelled": INTEGER})
_CONTENT = {200: Answer("The content, as an attachment.", media_type="*/*")}
_MESSAGES = {
    "POST /api/webchat/message": Operation(
        "Send a message and wait for its answer",
        messages.AnsweredOut,
        body=messages.MessageBody,
        errors=[404, 409, 422, 502, 504],
        parameters=[IDEMPOTENCY_KEY, _WAIT, _PREFER],
        answers={202: _ACCEPTED},
        streams=True,
        description="Waits up to 30 seconds, then returns 504 with the id of the run, which continues. "
        "Closing the connection does not stop the run.",
    ),
    "GET /api/sessions": _page_of("List or search your sessions", sessions.FoundSessionOut, sessions.SessionQuery),
    "GET /api/sessions/{session_id}": Operation("Read a session", sessions.SessionOut),
    "DELETE /api/sessions/{session_id}": Operation("Delete a session", NULL),
    "GET /api/sessions/{session_id}/history": _page_of(
        "Read the turns of a session", messages.TurnOut, sessions.HistoryQuery
    ),
    "POST /api/sessions/{session_id}/regenerate": Operation(
        "Generate an answer again", messages.AcceptedOut, body=messages.RegenerateBody, **_REPLACES
    ),
    "POST /api/sessions/{session_id}/edit": Operation(
        "Edit a message", messages.AcceptedOut, body=messages.EditBody, **_REPLACES
    ),
    "GET /api/sessions/{session_id}/branches": _page_of("List the branches of a session", sessions.BranchOut),
    "POST /api/sessions/{session_id}/branches": _page_of(
        "Select the active branch", sessions.BranchOut, None, body=sessions.BranchBody, errors=[409]
    ),
    "POST /api/sessions/{session_id}/compact": Operation(
        "Summarise the earlier messages of a session", messages.AcceptedOut, status=202, errors=[409]
    ),
    "GET /api/sessions/{session_id}/context": Operation("Read the use of a session's context", sessions.ContextOut),
    "PUT /api/sessions/{session_id}/pins/{turn_id}": Operation("Pin a message", messages.TurnOut, errors=[409]),
    "DELETE /api/sessions/{session_id}/pins/{turn_id}": Operation("Unpin a message", messages.TurnOut),
    "POST /api/sessions/{session_id}/bind": Operation(
        "Bind a session to an agent", sessions.SessionOut, body=sessions.BindBody
    ),
    "GET /api/sessions/{session_id}/policy": Operation("Read the restrictions of a session", sessions.SessionPolicyOut),
    "PUT /api/sessions/{session_id}/policy": Operation(
        "Restrict a session", sessions.SessionPolicyOut, body=sessions.SessionPolicyBody
    ),
    "POST /api/sessions/{session_id}/cancel": Operation("Stop runs", _CANCELLED, body=sessions.CancelBody),
    "GET /api/sessions/{session_id}/artifacts": _page_of("List the files of a session", files.ArtifactOut),
    "POST /api/sessions/{session_id}/artifacts": Operation(
        "Upload a file to a session", files.ArtifactOut, body=BINARY, media_type="*/*", query=files.UploadQuery
    ),
    "GET /api/memories": Operation(
        "List or search what agents remember about you",
        None,
        query=memories.MemoryQuery,
        answers={200: Answer("One page of memories.", _envelope(_list_of(memories.MemoryOut), _CURSOR))},
    ),
    "DELETE /api/memories": Operation(
        "Delete what agents remember about you", record({"deleted": INTEGER}), query=memories.DeleteMemoriesQuery
    ),
    "GET /api/memories/{memory_id}": Operation("Read a memory", memories.MemoryOut),
    "PUT /api/memories/{memory_id}": Operation("Correct or pin a memory", memories.MemoryOut, body=memories.MemoryBody),
    "DELETE /api/memories/{memory_id}": Operation("Delete a memory", NULL),
    "POST /api/memories/{memory_id}/approve": Operation("Approve a memory from outside", memories.MemoryOut),
    "GET /api/search": Operation(
        "Search in the messages of your sessions",
        None,
        query=messages.SearchQuery,
        answers={200: Answer("One page of messages.", _envelope(_list_of(messages.FoundMessageOut), _CURSOR))},
    ),
    "GET /api/artifacts/{artifact_id}": Operation("Download a file", answers=_CONTENT),
    "DELETE /api/artifacts/{artifact_id}": Operation("Delete a file", NULL),
    "POST /api/attachments": Operation(
        "Upload a file for a message",
        files.AttachmentOut,
        body=BINARY,
        media_type="*/*",
        query=files.AttachmentQuery,
        description="Send its id in `attachments` of a message within a day.",
    ),
    "GET /api/attachments/{attachment_id}": Operation("Read a file that is not sent", files.AttachmentOut),
    "DELETE /api/attachments/{attachment_id}": Operation("Delete a file that is not sent", NULL),
    "GET /api/attachments/{file_id}/content": Operation("Download a file of a message", answers=_CONTENT),
    "GET /api/runs/{run_id}": Operation("Read a run", runs.RunOut),
    "GET /api/runs/{run_id}/workstreams": _page_of("List the workstreams of a run", runs.WorkstreamOut),
    "POST /api/runs/{run_id}/cancel": Operation("Stop a run or a workstream", _CANCELLED),
    "POST /api/runs/{run_id}/retry": Operation("Retry a run", messages.AcceptedOut, status=202, errors=[409]),
}

_TOOLS = {
    "GET /api/tools/executions/{execution_id}": Operation("Read a tool execution", executions.ExecutionOut),
    "POST /api/tools/executions/{execution_id}/cancel": Operation("Stop a tool execution", executions.ExecutionOut),
    "POST /api/tools/receipts/verify": Operation(
        "Verify a receipt", executions.ReceiptVerdictOut, body=executions.ReceiptBody
    ),
    "GET /api/approvals": _page_of("List approvals", approvals.ApprovalOut, approvals.ApprovalQuery),
    "GET /api/approvals/{approval_id}": Operation("Read an approval", approvals.ApprovalOut),
    "POST /api/approvals/{approval_id}/decide": Operation(
        "Decide an approval", approvals.ApprovalOut, body=approvals.DecideBody, errors=[409, 410]
    ),
    "GET /api/credentials": _page_of("List your credentials", credentials.CredentialOut),
    "POST /api/credentials": Operation(
        "Store a credential", credentials.CredentialOut, body=credentials.NewCredentialBody, errors=[404]
    ),
    "GET /api/credentials/{name}": Operation("Read a credential without its value", credentials.CredentialOut),
    "PUT /api/credentials/{name}": Operation(
        "Store a credential", credentials.CredentialOut, body=credentials.CredentialBody
    ),
    "DELETE /api/credentials/{name}": Operation("Delete a credential", NULL),
}

_PROMPT = "For those who may see the agent's configuration. Tokens are estimated by the model's family."

_AGENTS = {
    "GET /api/agents": _page_of("List agents that you may use or see", _seen(agents.AgentOut)),
    "POST /api/agents": Operation("Create an agent", agents.AgentInFullOut, body=agents.AgentBody, errors=[404, 409]),
    "GET /api/agents/{agent_id}": Operation("Read an agent", _seen(agents.AgentInFullOut)),
    "PUT /api/agents/{agent_id}": Operation(
        "Change an agent", agents.AgentInFullOut, body=agents.AgentBody, partial=True, errors=[409]
    ),
    "DELETE /api/agents/{agent_id}": Operation("Retire an agent", NULL, errors=[409]),
    "GET /api/agents/{agent_id}/prompt": Operation(
        "Read what the model sees of a first message", prompts.PromptOut, query=prompts.PromptQuery, description=_PROMPT
    ),
    "GET /api/runs/{run_id}/prompt": Operation(
        "Read what the model saw at a step", prompts.PromptOut, query=prompts.StepQuery, description=_PROMPT
    ),
    "DELETE /api/agents/{agent_id}/grants/{grant_id}": Operation("Revoke a permission", NULL),
    "GET /api/agents/{agent_id}/export": Operation(
        "Export an agent as YAML", answers={200: Answer("The file.", media_type="application/yaml")}, errors=[403]
    ),
    "POST /api/agents/import": Operation(
        "Import agents from YAML",
        None,
        body=BINARY,
        media_type="application/yaml",
        query=agents.ImportQuery,
        answers={200: Answer("The effect.", _envelope(_list_of(agents.ImportedAgentOut), record({"dryRun": BOOLEAN})))},
        errors=[403, 404, 409],
        description="A file with faults changes nothing; `meta.problems` of the error has the line of each.",
    ),
    "GET /api/agents/{agent_id}/versions": _page_of("List an agent's versions", agents.VersionOut, errors=[403]),
    "GET /api/agents/{agent_id}/versions/{number}": Operation(
        "Read a version of an agent", agents.VersionInFullOut, errors=[403]
    ),
    "GET /api/agents/{agent_id}/versions/{number}/diff": Operation(
        "Compare two versions of an agent", _list_of(agents.FieldChangeOut), query=agents.DiffQuery, errors=[403]
    ),
    "POST /api/agents/{agent_id}/versions/{number}/rollback": Operation("Roll an agent back", agents.AgentInFullOut),
    "GET /api/agents/{agent_id}/draft": Operation("Read the draft of an agent", agents.VersionInFullOut, errors=[403]),
    "PUT /api/agents/{agent_id}/draft": Operation(
        "Change the draft of an agent", agents.VersionInFullOut, body=agents.AgentBody, partial=True
    ),
    "DELETE /api/agents/{agent_id}/draft": Operation("Discard the draft of an agent", NULL),
    "POST /api/agents/{agent_id}/draft/publish": Operation("Publish the draft of an agent", agents.AgentInFullOut),
    "GET /api/agents/{agent_id}/skills": Operation("List an agent's skills", _list_of(skills.SkillInstallOut)),
    "GET /api/agents/{agent_id}/skills/{skill_id}": Operation("Read an agent's skill", skills.SkillInstallOut),
    "POST /api/agents/{agent_id}/skills/{skill_id}": Operation(
        "Install a skill for an agent", skills.SkillInstallOut, body=skills.InstallBody, errors=[409]
    ),
    "PUT /api/agents/{agent_id}/skills/{skill_id}": Operation(
        "Change the permissions of a skill", skills.SkillInstallOut, body=skills.GrantBody
    ),
    "DELETE /api/agents/{agent_id}/skills/{skill_id}": Operation("Uninstall a skill", NULL),
    "GET /api/skills": _page_of("List skills", skills.SkillOut, skills.SkillQuery),
    "POST /api/skills": Operation("Publish a skill", skills.SkillOut, body=MANIFEST, errors=[409]),
    "GET /api/skills/{skill_id}": Operation("Read a skill", skills.SkillOut, query=skills.VersionQuery),
    "PUT /api/skills/{skill_id}": Operation("Publish a version", skills.SkillOut, body=MANIFEST, errors=[409]),
    "DELETE /api/skills/{skill_id}": Operation("Remove a skill", NULL, errors=[409]),
}

_USAGE_META = {"total": COUNT, "page": INTEGER, "pageSize": INTEGER, "from": TEXT, "to": TEXT, "currency": TEXT}
_USAGE = {
    "GET /api/usage": Operation(
        "Read usage and costs",
        None,
        query=usage.UsageQuery,
        errors=[403, 404],
        description="Your own usage; that of all users with the right agents_app.view_dailyusage.",
        answers={
            200: Answer(
                "One page of sums, or all of them as CSV. `meta.totals` is the sum of all.",
                _envelope(
                    _list_of(usage.UsageSumOut), record({**_USAGE_META, "totals": answer_schema(usage.UsageTotalsOut)})
                ),
                also_as=["text/csv"],
            )
        },
    ),
    "GET /api/usage/caps": _page_of("List cost caps and their use", usage.CostCapOut),
    "PUT /api/usage/caps/{user_id}": Operation(
        "Set the cost caps of a user", _list_of(usage.CostCapOut), body=usage.CostCapsBody
    ),
    "DELETE /api/usage/caps/{user_id}": Operation("Remove the cost caps of a user", _list_of(usage.CostCapOut)),
    "GET /api/model-prices": _page_of("List prices of models", usage.ModelPriceOut, errors=[403]),
    "PUT /api/model-prices/{provider}/{model}": Operation(
        "Set the price of a model", usage.ModelPriceOut, body=usage.PriceBody
    ),
    "DELETE /api/model-prices/{provider}/{model}": Operation("Delete the price of a model", NULL),
}

_OPERATORS = {
    "GET /api/mcp/servers": _page_of("List MCP servers", mcp_servers.McpServerOut, errors=[403]),
    "POST /api/mcp/servers": Operation(
        "Add an MCP server", mcp_servers.McpServerOut, body=mcp_servers.McpServerBody, errors=[409]
    ),
    "GET /api/mcp/servers/{name}": Operation("Read an MCP server", mcp_servers.McpServerOut, errors=[403]),
    "PUT /api/mcp/servers/{name}": Operation(
        "Change an MCP server", mcp_servers.McpServerOut, body=mcp_servers.McpServerBody, partial=True
    ),
    "DELETE /api/mcp/servers/{name}": Operation("Remove an MCP server", NULL),
    "POST /api/mcp/servers/{name}/refresh": Operation(
        "Refresh the tools of an MCP server", mcp_servers.McpServerRefreshedOut, streams=True
    ),
    "POST /api/mcp/servers/{name}/approve": Operation(
        "Approve the tools of an MCP server", mcp_servers.McpServerApprovedOut, body=mcp_servers.ToolNamesBody
    ),
    "GET /api/control": Operation("Read the state of the emergency stop", control.ControlOut),
    "POST /api/control/stop": Operation("Stop agents", control.ControlOut, body=control.ControlBody, errors=[404]),
    "POST /api/control/resume": Operation("Resume agents", control.ControlOut, body=control.ControlBody, errors=[404]),
    "GET /api/audit": _page_of("Read the audit log", audit.AuditEntryOut, audit.AuditQuery, errors=[403, 404]),
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
    {"Error": ERROR, "Page": PAGE, **components_of(*_OBJECTS)},
    {**_SCHEMA, **_AUTH, **_MESSAGES, **_TOOLS, **OPERATIONS, **_AGENTS, **_USAGE, **_OPERATORS, **CHANNEL_OPERATIONS},
    wrap=_envelope,
)
