"""The operations of this surface for the OpenAPI document. docs/agent-messages.md describes messages and signals."""

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
    BINARY,
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
_TEXTS = list_of(TEXT)
_STARTED = record({"run_id": TEXT, "workflow_id": TEXT})
_SIGNED = record({"url": TEXT, "path": TEXT})
_MESSAGES = record({"messages": list_of(OBJECT)})
_RUN, _START = ref("AgentRun"), ref("AgentRunStart")
COMPONENTS: dict[str, Schema] = {
    "AgentRunError": record(
        {"message": TEXT, "code": TEXT, "status": INTEGER, "details": OBJECT}, optional=["details"]
    ),
    "AgentRun": record(
        {
            **dict.fromkeys(("id", "interaction", "workflow_id", "first_workflow_run_id"), TEXT),
            "interactive": BOOLEAN,
            "status": one_of(["created", "running", "completed", "failed", "cancelled"]),
            "activity_state": one_of(["working", "idle"]),
            **dict.fromkeys(("started_at", "created_at", "updated_at"), TIME),
        },
        open_ended=True,
    ),
    "AgentRunStart": {
        "type": "object",
        "required": ["interaction"],
        "properties": {
            **dict.fromkeys(("interaction", "title"), TEXT),
            **dict.fromkeys(("data", "config"), OBJECT),
            **dict.fromkeys(("tool_names", "excluded_tools", "tags"), _TEXTS),
            "interactive": BOOLEAN,
            "tool_approval_mode": one_of(["ask", "auto_review", "full_control"]),
            "visibility": one_of(["private", "project"]),
        },
    },
    "AgentMessage": COMPACT_MESSAGE,
    "AgentMessagePosted": POSTED_MESSAGE,
}


def _query(name: str, description: str, *values: str) -> Parameter:
    """Return a query parameter: a text, or one of the values."""
    return Parameter(name, description, one_of(values) if values else TEXT)


def _count(most: dict[str, int], description: str) -> Parameter:
    return Parameter("limit", description, {"type": "integer", "minimum": 1, **most})


def _time(name: str, relation: str) -> Parameter:
    about = f"Only messages {relation} this time, in milliseconds since 1970."
    return Parameter(name, about, {"type": "number", "minimum": 0})


_BOOLEANS = ("true", "false")
_SINCE, _BEFORE = _time("since", "after"), _time("before", "before")
_PAGES = [
    _count({"maximum": 200}, "The maximal number of runs."),
    _query("status", "One or several statuses, separated by commas."),
    _query("interaction", "Only runs of this agent."),
]
_FILTERS = [
    *_PAGES,
    _query("cursor", "`next_cursor` of the previous page."),
    _query("sort", "The field to sort by.", "started_at", "updated_at"),
    _query("order", "The sort order.", "asc", "desc"),
]
_LIVE: dict[str, Any] = {"access": "query", "streams": True}
_STREAM = Operation(
    "Stream the messages of a run",
    answers={200: Answer("One message per event, in compact form.", TEXT, EVENTS)},
    parameters=[_SINCE, _query("skipHistory", "Skip messages that exist already.", *_BOOLEANS)],
    **_LIVE,
)
_UPDATES_QUERY = [_SINCE, _BEFORE, _count({}, "Only the newest N messages.")]
_GET_UPDATES = Operation("List the messages of a run", _MESSAGES, parameters=_UPDATES_QUERY)
_POST_UPDATES = Operation("Post a message", record({"success": BOOLEAN}), body=ref("AgentMessagePosted"), errors=[409])
_SIGNAL = Operation("Signal a run", record({"status": TEXT, "message": TEXT}), body=OBJECT, errors=[409, 422])
_QUERY = Operation("Query a run", ANYTHING)
_TELEMETRY = {"type": "object", "properties": {"events": list_of(ANYTHING)}}
_EVENTS = Operation("Send telemetry", record({"ingested": COUNT, "status": TEXT}), body=_TELEMETRY)
_DETAILS = Operation(
    "Read the details of a run", OBJECT, parameters=[_query("include_history", "Include the events.", *_BOOLEANS)]
)
_DETAILS_STREAM = {200: Answer("`history` events, `control` at the end.", TEXT, EVENTS)}
_RUN_PAGE = record({"items": list_of(_RUN), "total_count": COUNT, "next_cursor": nullable(TEXT)})
_ENDED = record({"message": TEXT, "reason": TEXT}, optional=["reason"])
_HITS = record({"hits": list_of(OBJECT), "total": COUNT})
_STARTS: dict[str, Any] = {"parameters": [IDEMPOTENCY_KEY], "errors": [404, 409, 422, 501]}
_CHANGES: dict[str, Any] = {"result": _RUN, "errors": [409]}
_RUNS = {
    "GET /api/v1/agents": Operation("List runs", _RUN_PAGE, parameters=_FILTERS),
    "POST /api/v1/agents": Operation("Start a run", _RUN, body=_START, **_STARTS),
    "GET /api/v1/agents/search": Operation(
        "Search runs", _HITS, parameters=[*_PAGES, _query("query", "Text in the title or in a message.")]
    ),
    "GET /api/v1/agents/{run_id}": Operation("Read a run", _RUN),
    "DELETE /api/v1/agents/{run_id}": Operation(
        "End a run", _ENDED, parameters=[_query("reason", "The reason; shown to users.")]
    ),
    "POST /api/v1/agents/{run_id}/restart": Operation("Restart an ended run", **_CHANGES),
    "POST /api/v1/agents/{run_id}/fork": Operation("Fork a run", **_CHANGES),
    "POST /api/v1/agents/{run_id}/status": Operation("Set the status of a run", body=OBJECT, **_CHANGES),
    "GET /api/v1/agents/{run_id}/internals": Operation("Read the internal state of a run", OBJECT),
    "GET /api/v1/agents/{run_id}/details": _DETAILS,
    "GET /api/v1/agents/{run_id}/details/stream": Operation(
        "Stream the details of a run", answers=_DETAILS_STREAM, **_LIVE
    ),
    "GET /api/v1/agents/{run_id}/children": Operation("List child runs", record({"runs": list_of(OBJECT)})),
    "GET /api/v1/agents/{run_id}/children/{child_id}/details": Operation("Read a child run", OBJECT),
    "GET /api/v1/agents/{run_id}/stream": _STREAM,
    "GET /api/v1/agents/{run_id}/updates": _GET_UPDATES,
    "POST /api/v1/agents/{run_id}/updates": _POST_UPDATES,
    "POST /api/v1/agents/{run_id}/signal/{signal}": _SIGNAL,
    "GET /api/v1/agents/{run_id}/query/{query}": _QUERY,
    "POST /api/v1/agents/{run_id}/events": _EVENTS,
    "POST /api/v1/execute/async": Operation("Start a run (older clients)", _STARTED, body=_START, **_STARTS),
}
_BYTES: dict[int, Answer] = {200: Answer("The content.", media_type="*/*")}
_VISIBILITY = _query("visibility", "Which files.", "user", "internal", "all")
_FILE_QUERY = [
    _query("url", "Return a URL.", "1", "true"),
    _query("filename", "The file name for the URL."),
    _query("disposition", "The content disposition for the URL.", "inline", "attachment"),
]
_FILE_TEXT = dict.fromkeys(("content", "generation"), TEXT)
_NEW_TEXT = {"type": "object", "required": list(_FILE_TEXT), "properties": _FILE_TEXT}
_UPLOAD: dict[str, Any] = {"body": BINARY, "media_type": "*/*"}
_SIGNED_URL: dict[str, Any] = {"access": "open", "errors": [403]}
_MAKES_URL: dict[str, Any] = {"result": OBJECT, "body": OBJECT, "errors": [404]}
_FILES = {
    "GET /api/v1/agents/{run_id}/artifacts": Operation("List the files of a run", _TEXTS, parameters=[_VISIBILITY]),
    "GET /api/v1/agents/{run_id}/artifacts/{path}": Operation(
        "Read a file, or get a URL for it", answers=_BYTES, parameters=_FILE_QUERY
    ),
    "PUT /api/v1/agents/{run_id}/artifacts/{path}": Operation("Get a URL to upload a file", _SIGNED, errors=[400]),
    "GET /api/v1/agents/{run_id}/artifact-content/{path}": Operation(
        "Read a text file", record({"path": TEXT, **_FILE_TEXT}), errors=[400]
    ),
    "PUT /api/v1/agents/{run_id}/artifact-content/{path}": Operation(
        "Change a text file", record({"path": TEXT, "generation": TEXT}), errors=[409], body=_NEW_TEXT
    ),
    "GET /api/v1/artifact-blobs/{token}/{name}": Operation("Read a file by its URL", answers=_BYTES, **_SIGNED_URL),
    "PUT /api/v1/artifact-blobs/{token}/{name}": Operation(
        "Upload a file by its URL", record({"path": TEXT, "size": COUNT}), **_UPLOAD, **_SIGNED_URL
    ),
    "GET /api/v1/files/list": Operation(
        "List files by prefix", record({"files": _TEXTS}), errors=[404], parameters=[_query("prefix", "agents/<run>/…")]
    ),
    "POST /api/v1/files/download-url": Operation("Get a URL to read a file", **_MAKES_URL),
    "POST /api/v1/files/upload-url": Operation("Get a URL to upload a file", **_MAKES_URL),
}
_WORKFLOW = "/api/v1/workflows/runs/{workflow_id}/{run_id}"
_FOUND_PAGE = {"runs": list_of(OBJECT), "has_more": BOOLEAN, "next_page_token": TEXT}
_FOUND = Operation("List runs (older clients)", record(_FOUND_PAGE, optional=["next_page_token"]), body=OBJECT)
_OLDER = {
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
DESCRIPTION = Description("Agent runs", _ABOUT, "AgentRunError", COMPONENTS, operations={**_RUNS, **_FILES, **_OLDER})
