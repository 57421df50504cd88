"""The operations of this surface for the OpenAPI document. docs/agent-messages.md describes messages and signals."""

from collections.abc import Mapping
from typing import Any

from sessions_app.surfaces.agent_messages.wire_schemas import COMPACT_MESSAGE, POSTED_MESSAGE
from sessions_app.surfaces.base.openapi.operations import (
    EVENTS,
    IDEMPOTENCY_KEY,
    Answer,
    Description,
    Operation,
    Parameter,
)
from sessions_app.surfaces.base.openapi.schemas import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    INTEGER,
    OBJECT,
    TEXT,
    TIME,
    Schema,
    list_of,
    nullable,
    one_of,
    record,
    ref,
)

_ABOUT = "Agent runs, their messages, signals and files: see docs/agent-messages.md."
Methods = Mapping[str, Operation]
_STATUSES = ("created", "running", "completed", "failed", "cancelled")

_RUN = record(
    {
        "id": TEXT,
        "interaction": TEXT,
        "interactive": BOOLEAN,
        "status": one_of(_STATUSES),
        "activity_state": one_of(["working", "idle"]),
        "workflow_id": TEXT,
        "first_workflow_run_id": TEXT,
        "started_at": TIME,
        "created_at": TIME,
        "updated_at": TIME,
    },
    open_ended=True,
)
_START: Schema = {
    "type": "object",
    "required": ["interaction"],
    "properties": {
        "interaction": TEXT,
        "data": OBJECT,
        "interactive": BOOLEAN,
        "title": TEXT,
        "tool_names": list_of(TEXT),
        "excluded_tools": list_of(TEXT),
        "tags": list_of(TEXT),
        "tool_approval_mode": one_of(["ask", "auto_review", "full_control"]),
        "visibility": one_of(["private", "project"]),
        "config": OBJECT,
    },
}
_STARTED = record({"run_id": TEXT, "workflow_id": TEXT})
_SIGNED = record({"url": TEXT, "path": TEXT})
COMPONENTS: dict[str, Schema] = {
    "AgentRunError": record(
        {"message": TEXT, "code": TEXT, "status": INTEGER, "details": OBJECT}, optional=["details"]
    ),
    "AgentRun": _RUN,
    "AgentRunStart": _START,
    "AgentMessage": COMPACT_MESSAGE,
    "AgentMessagePosted": POSTED_MESSAGE,
}
_MESSAGES = record({"messages": list_of(OBJECT)})


def _parameter(name: str, description: str, schema: Schema = TEXT) -> Parameter:
    return Parameter(name, description, schema)


_SINCE = _parameter(
    "since", "Only messages after this time, in milliseconds since 1970.", {"type": "number", "minimum": 0}
)
_PAGES = [
    _parameter("limit", "The maximal number of runs.", {"type": "integer", "minimum": 1, "maximum": 200}),
    _parameter("status", "One or several statuses, separated by commas."),
    _parameter("interaction", "Only runs of this agent."),
]
_FILTERS = [
    *_PAGES,
    _parameter("cursor", "`next_cursor` of the previous page."),
    _parameter("sort", "The field to sort by.", one_of(["started_at", "updated_at"])),
    _parameter("order", "The sort order.", one_of(["asc", "desc"])),
]
_STREAMED = {200: Answer("One message per event, in compact form.", TEXT, EVENTS)}
_STREAM: Methods = {
    "get": Operation(
        "Stream the messages of a run",
        answers=_STREAMED,
        access="query",
        streams=True,
        parameters=[_SINCE, _parameter("skipHistory", "Skip messages that exist already.", one_of(["true", "false"]))],
    )
}
_UPDATES: Methods = {
    "get": Operation(
        "List the messages of a run",
        _MESSAGES,
        parameters=[
            _SINCE,
            _parameter(
                "before",
                "Only messages before this time, in milliseconds since 1970.",
                {"type": "number", "minimum": 0},
            ),
            _parameter("limit", "Only the newest N messages.", {"type": "integer", "minimum": 1}),
        ],
    ),
    "post": Operation("Post a message", record({"success": BOOLEAN}), body=ref("AgentMessagePosted"), errors=[409]),
}
_SIGNAL: Methods = {
    "post": Operation("Signal a run", record({"status": TEXT, "message": TEXT}), body=OBJECT, errors=[409, 422])
}
_QUERY: Methods = {"get": Operation("Query a run", ANYTHING)}
_EVENTS: Methods = {
    "post": Operation(
        "Send telemetry",
        record({"ingested": COUNT, "status": TEXT}),
        body={"type": "object", "properties": {"events": list_of(ANYTHING)}},
    )
}
_DETAILS: Methods = {
    "get": Operation(
        "Read the details of a run",
        OBJECT,
        parameters=[_parameter("include_history", "Include the events.", one_of(["true", "false"]))],
    )
}
_SIGNED_URL: dict[str, Any] = {"access": "open", "errors": [403]}
_BYTES: dict[int, Answer] = {200: Answer("The content.", media_type="*/*")}
_BINARY: Schema = {"type": "string", "format": "binary"}
_STARTS: dict[str, Any] = {"parameters": [IDEMPOTENCY_KEY], "errors": [404, 409, 422, 501]}
_RUNS: dict[str, Methods] = {
    "/api/v1/agents": {
        "get": Operation(
            "List runs",
            parameters=_FILTERS,
            result=record({"items": list_of(ref("AgentRun")), "total_count": COUNT, "next_cursor": nullable(TEXT)}),
        ),
        "post": Operation("Start a run", ref("AgentRun"), body=ref("AgentRunStart"), **_STARTS),
    },
    "/api/v1/agents/search": {
        "get": Operation(
            "Search runs",
            record({"hits": list_of(OBJECT), "total": COUNT}),
            parameters=[*_PAGES, _parameter("query", "Text in the title or in a message.")],
        )
    },
    "/api/v1/agents/{run_id}": {
        "get": Operation("Read a run", ref("AgentRun")),
        "delete": Operation(
            "End a run",
            record({"message": TEXT, "reason": TEXT}, optional=["reason"]),
            parameters=[_parameter("reason", "The reason; shown to users.")],
        ),
    },
    "/api/v1/agents/{run_id}/restart": {"post": Operation("Restart an ended run", ref("AgentRun"), errors=[409])},
    "/api/v1/agents/{run_id}/fork": {"post": Operation("Fork a run", ref("AgentRun"), errors=[409])},
    "/api/v1/agents/{run_id}/status": {
        "post": Operation("Set the status of a run", ref("AgentRun"), body=OBJECT, errors=[409])
    },
    "/api/v1/agents/{run_id}/internals": {"get": Operation("Read the internal state of a run", OBJECT)},
    "/api/v1/agents/{run_id}/details": _DETAILS,
    "/api/v1/agents/{run_id}/details/stream": {
        "get": Operation(
            "Stream the details of a run",
            access="query",
            streams=True,
            answers={200: Answer("`history` events, `control` at the end.", TEXT, EVENTS)},
        )
    },
    "/api/v1/agents/{run_id}/children": {"get": Operation("List child runs", record({"runs": list_of(OBJECT)}))},
    "/api/v1/agents/{run_id}/children/{child_id}/details": {"get": Operation("Read a child run", OBJECT)},
    "/api/v1/agents/{run_id}/stream": _STREAM,
    "/api/v1/agents/{run_id}/updates": _UPDATES,
    "/api/v1/agents/{run_id}/signal/{signal}": _SIGNAL,
    "/api/v1/agents/{run_id}/query/{query}": _QUERY,
    "/api/v1/agents/{run_id}/events": _EVENTS,
    "/api/v1/execute/async": {
        "post": Operation("Start a run (older clients)", _STARTED, body=ref("AgentRunStart"), **_STARTS)
    },
}
_FILES: dict[str, Methods] = {
    "/api/v1/agents/{run_id}/artifacts": {
        "get": Operation(
            "List the files of a run",
            list_of(TEXT),
            parameters=[_parameter("visibility", "Which files.", one_of(["user", "internal", "all"]))],
        )
    },
    "/api/v1/agents/{run_id}/artifacts/{path}": {
        "get": Operation(
            "Read a file, or get a URL for it",
            answers=_BYTES,
            parameters=[
                _parameter("url", "Return a URL.", one_of(["1", "true"])),
                _parameter("filename", "The file name for the URL."),
                _parameter("disposition", "The content disposition for the URL.", one_of(["inline", "attachment"])),
            ],
        ),
        "put": Operation("Get a URL to upload a file", _SIGNED, errors=[400]),
    },
    "/api/v1/agents/{run_id}/artifact-content/{path}": {
        "get": Operation("Read a text file", record({"path": TEXT, "content": TEXT, "generation": TEXT}), errors=[400]),
        "put": Operation(
            "Change a text file",
            record({"path": TEXT, "generation": TEXT}),
            errors=[409],
            body={
                "type": "object",
                "required": ["content", "generation"],
                "properties": {"content": TEXT, "generation": TEXT},
            },
        ),
    },
    "/api/v1/artifact-blobs/{token}/{name}": {
        "get": Operation("Read a file by its URL", answers=_BYTES, **_SIGNED_URL),
        "put": Operation(
            "Upload a file by its URL",
            record({"path": TEXT, "size": COUNT}),
            body=_BINARY,
            media_type="*/*",
            **_SIGNED_URL,
        ),
    },
    "/api/v1/files/list": {
        "get": Operation(
            "List files by prefix",
            record({"files": list_of(TEXT)}),
            errors=[404],
            parameters=[_parameter("prefix", "agents/<run>/…")],
        )
    },
    "/api/v1/files/download-url": {"post": Operation("Get a URL to read a file", OBJECT, body=OBJECT, errors=[404])},
    "/api/v1/files/upload-url": {"post": Operation("Get a URL to upload a file", OBJECT, body=OBJECT, errors=[404])},
}
_WORKFLOW = "/api/v1/workflows/runs/{workflow_id}/{run_id}"
_FOUND = Operation(
    "List runs (older clients)",
    record({"runs": list_of(OBJECT), "has_more": BOOLEAN, "next_page_token": TEXT}, optional=["next_page_token"]),
    body=OBJECT,
)
_OLDER: dict[str, Methods] = {
    "/token/issue": {"post": Operation("Get a read-only token", record({"token": TEXT}), access="bearer")},
    "/api/v1/workflows/runs": {"post": _FOUND},
    "/api/v1/workflows/conversations": {"post": _FOUND},
    "/api/v1/workflows/execute/{name}": {
        "post": Operation("Start a run by the name of its agent", list_of(_STARTED), body=OBJECT, **_STARTS)
    },
    "/api/v1/workflows/runs/{run_id}/updates": _UPDATES,
    _WORKFLOW: _DETAILS,
    f"{_WORKFLOW}/updates": _UPDATES,
    f"{_WORKFLOW}/stream": _STREAM,
    f"{_WORKFLOW}/signal/{{signal}}": _SIGNAL,
    f"{_WORKFLOW}/query/{{query}}": _QUERY,
    f"{_WORKFLOW}/events": _EVENTS,
    f"{_WORKFLOW}/interaction": {"get": Operation("Read the agent of a run", OBJECT)},
    f"{_WORKFLOW}/actions/{{action}}": {"post": Operation("End a run", record({"message": TEXT}), body=OBJECT)},
}
DESCRIPTION = Description("Agent runs", _ABOUT, "AgentRunError", COMPONENTS, {**_RUNS, **_FILES, **_OLDER})
