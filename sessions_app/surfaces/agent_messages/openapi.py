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
Operations = Mapping[str, Operation]
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
_STREAM = Operation(
    "Stream the messages of a run",
    answers=_STREAMED,
    access="query",
    streams=True,
    parameters=[_SINCE, _parameter("skipHistory", "Skip messages that exist already.", one_of(["true", "false"]))],
)
_GET_UPDATES = Operation(
    "List the messages of a run",
    _MESSAGES,
    parameters=[
        _SINCE,
        _parameter(
            "before", "Only messages before this time, in milliseconds since 1970.", {"type": "number", "minimum": 0}
        ),
        _parameter("limit", "Only the newest N messages.", {"type": "integer", "minimum": 1}),
    ],
)
_POST_UPDATES = Operation("Post a message", record({"success": BOOLEAN}), body=ref("AgentMessagePosted"), errors=[409])
_SIGNAL = Operation("Signal a run", record({"status": TEXT, "message": TEXT}), body=OBJECT, errors=[409, 422])
_QUERY = Operation("Query a run", ANYTHING)
_EVENTS = Operation(
    "Send telemetry",
    record({"ingested": COUNT, "status": TEXT}),
    body={"type": "object", "properties": {"events": list_of(ANYTHING)}},
)
_DETAILS = Operation(
    "Read the details of a run",
    OBJECT,
    parameters=[_parameter("include_history", "Include the events.", one_of(["true", "false"]))],
)
_SIGNED_URL: dict[str, Any] = {"access": "open", "errors": [403]}
_BYTES: dict[int, Answer] = {200: Answer("The content.", media_type="*/*")}
_BINARY: Schema = {"type": "string", "format": "binary"}
_STARTS: dict[str, Any] = {"parameters": [IDEMPOTENCY_KEY], "errors": [404, 409, 422, 501]}
_RUNS: Operations = {
    "GET /api/v1/agents": Operation(
        "List runs",
        parameters=_FILTERS,
        result=record({"items": list_of(ref("AgentRun")), "total_count": COUNT, "next_cursor": nullable(TEXT)}),
    ),
    "POST /api/v1/agents": Operation("Start a run", ref("AgentRun"), body=ref("AgentRunStart"), **_STARTS),
    "GET /api/v1/agents/search": Operation(
        "Search runs",
        record({"hits": list_of(OBJECT), "total": COUNT}),
        parameters=[*_PAGES, _parameter("query", "Text in the title or in a message.")],
    ),
    "GET /api/v1/agents/{run_id}": Operation("Read a run", ref("AgentRun")),
    "DELETE /api/v1/agents/{run_id}": Operation(
        "End a run",
        record({"message": TEXT, "reason": TEXT}, optional=["reason"]),
        parameters=[_parameter("reason", "The reason; shown to users.")],
    ),
    "POST /api/v1/agents/{run_id}/restart": Operation("Restart an ended run", ref("AgentRun"), errors=[409]),
    "POST /api/v1/agents/{run_id}/fork": Operation("Fork a run", ref("AgentRun"), errors=[409]),
    "POST /api/v1/agents/{run_id}/status": Operation(
        "Set the status of a run", ref("AgentRun"), body=OBJECT, errors=[409]
    ),
    "GET /api/v1/agents/{run_id}/internals": Operation("Read the internal state of a run", OBJECT),
    "GET /api/v1/agents/{run_id}/details": _DETAILS,
    "GET /api/v1/agents/{run_id}/details/stream": Operation(
        "Stream the details of a run",
        access="query",
        streams=True,
        answers={200: Answer("`history` events, `control` at the end.", TEXT, EVENTS)},
    ),
    "GET /api/v1/agents/{run_id}/children": Operation("List child runs", record({"runs": list_of(OBJECT)})),
    "GET /api/v1/agents/{run_id}/children/{child_id}/details": Operation("Read a child run", OBJECT),
    "GET /api/v1/agents/{run_id}/stream": _STREAM,
    "GET /api/v1/agents/{run_id}/updates": _GET_UPDATES,
    "POST /api/v1/agents/{run_id}/updates": _POST_UPDATES,
    "POST /api/v1/agents/{run_id}/signal/{signal}": _SIGNAL,
    "GET /api/v1/agents/{run_id}/query/{query}": _QUERY,
    "POST /api/v1/agents/{run_id}/events": _EVENTS,
    "POST /api/v1/execute/async": Operation(
        "Start a run (older clients)", _STARTED, body=ref("AgentRunStart"), **_STARTS
    ),
}
_FILES: Operations = {
    "GET /api/v1/agents/{run_id}/artifacts": Operation(
        "List the files of a run",
        list_of(TEXT),
        parameters=[_parameter("visibility", "Which files.", one_of(["user", "internal", "all"]))],
    ),
    "GET /api/v1/agents/{run_id}/artifacts/{path}": Operation(
        "Read a file, or get a URL for it",
        answers=_BYTES,
        parameters=[
            _parameter("url", "Return a URL.", one_of(["1", "true"])),
            _parameter("filename", "The file name for the URL."),
            _parameter("disposition", "The content disposition for the URL.", one_of(["inline", "attachment"])),
        ],
    ),
    "PUT /api/v1/agents/{run_id}/artifacts/{path}": Operation("Get a URL to upload a file", _SIGNED, errors=[400]),
    "GET /api/v1/agents/{run_id}/artifact-content/{path}": Operation(
        "Read a text file", record({"path": TEXT, "content": TEXT, "generation": TEXT}), errors=[400]
    ),
    "PUT /api/v1/agents/{run_id}/artifact-content/{path}": Operation(
        "Change a text file",
        record({"path": TEXT, "generation": TEXT}),
        errors=[409],
        body={
            "type": "object",
            "required": ["content", "generation"],
            "properties": {"content": TEXT, "generation": TEXT},
        },
    ),
    "GET /api/v1/artifact-blobs/{token}/{name}": Operation("Read a file by its URL", answers=_BYTES, **_SIGNED_URL),
    "PUT /api/v1/artifact-blobs/{token}/{name}": Operation(
        "Upload a file by its URL", record({"path": TEXT, "size": COUNT}), body=_BINARY, media_type="*/*", **_SIGNED_URL
    ),
    "GET /api/v1/files/list": Operation(
        "List files by prefix",
        record({"files": list_of(TEXT)}),
        errors=[404],
        parameters=[_parameter("prefix", "agents/<run>/…")],
    ),
    "POST /api/v1/files/download-url": Operation("Get a URL to read a file", OBJECT, body=OBJECT, errors=[404]),
    "POST /api/v1/files/upload-url": Operation("Get a URL to upload a file", OBJECT, body=OBJECT, errors=[404]),
}
_WORKFLOW = "/api/v1/workflows/runs/{workflow_id}/{run_id}"
_FOUND = Operation(
    "List runs (older clients)",
    record({"runs": list_of(OBJECT), "has_more": BOOLEAN, "next_page_token": TEXT}, optional=["next_page_token"]),
    body=OBJECT,
)
_OLDER: Operations = {
    "POST /token/issue": Operation("Get a read-only token", record({"token": TEXT}), access="bearer"),
    "POST /api/v1/workflows/runs": _FOUND,
    "POST /api/v1/workflows/conversations": _FOUND,
    "POST /api/v1/workflows/execute/{name}": Operation(
        "Start a run by the name of its agent", list_of(_STARTED), body=OBJECT, **_STARTS
    ),
    "GET /api/v1/workflows/runs/{run_id}/updates": _GET_UPDATES,
    "POST /api/v1/workflows/runs/{run_id}/updates": _POST_UPDATES,
    f"GET {_WORKFLOW}": _DETAILS,
    f"GET {_WORKFLOW}/updates": _GET_UPDATES,
    f"POST {_WORKFLOW}/updates": _POST_UPDATES,
    f"GET {_WORKFLOW}/stream": _STREAM,
    f"POST {_WORKFLOW}/signal/{{signal}}": _SIGNAL,
    f"GET {_WORKFLOW}/query/{{query}}": _QUERY,
    f"POST {_WORKFLOW}/events": _EVENTS,
    f"GET {_WORKFLOW}/interaction": Operation("Read the agent of a run", OBJECT),
    f"POST {_WORKFLOW}/actions/{{action}}": Operation("End a run", record({"message": TEXT}), body=OBJECT),
}
DESCRIPTION = Description("Agent runs", _ABOUT, "AgentRunError", COMPONENTS, {**_RUNS, **_FILES, **_OLDER})
