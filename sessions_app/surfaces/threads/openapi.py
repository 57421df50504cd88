"""The operations of this surface for the OpenAPI document. docs/threads.md describes the events of its stream."""

from typing import Any

from sessions_app.surfaces.base.openapi.fields import components_of
from sessions_app.surfaces.base.openapi.operations import EVENTS, IDEMPOTENCY_KEY, Answer, Description, Operation
from sessions_app.surfaces.base.openapi.schemas import (
    BOOLEAN,
    COUNT,
    INTEGER,
    OBJECT,
    TEXT,
    Schema,
    list_of,
    nullable,
    record,
    ref,
)
from sessions_app.surfaces.threads import requests as req
from sessions_app.surfaces.threads import responses
from sessions_app.surfaces.threads.message_schemas import DETAILS

_ABOUT = "Threads, messages, their stream, feedback, keys: see docs/threads.md."


def _page(name: str) -> Schema:
    return record({"items": list_of(ref(name)), "total": COUNT, "limit": INTEGER, "offset": COUNT})


COMPONENTS: dict[str, Schema] = {
    "ThreadError": record({"detail": TEXT, "code": TEXT, "request_id": nullable(TEXT)}),
    "ThreadMessageDetails": DETAILS,
    **components_of(responses),
    **{f"{name}Page": _page(name) for name in ("Thread", "ThreadMessage", "ThreadFeedback", "ThreadAuditEvent")},
}


def _operation(summary: str, result: Schema | None, **more: Any) -> Operation:
    """Return an operation. This protocol answers invalid bodies and queries with 422."""
    errors = list(more.pop("errors", ()))
    if "body" in more or "query" in more:
        errors.append(422)
    more.setdefault("access", "thread")
    return Operation(summary, result, errors=errors, **more)


def _page_of(name: str, summary: str, query: Any, **more: Any) -> Operation:
    return _operation(summary, ref(f"{name}Page"), query=query, **more)


def _stores(name: str, summary: str, body: Any, **more: Any) -> Operation:
    """Return an operation that answers 201 with a new object, or 200 with the one that exists already."""
    answers = {200: Answer("It exists already.", ref(name))}
    return _operation(summary, ref(name), status=201, body=body, answers=answers, **more)


_NO_CONTENT: dict[str, Any] = {"status": 204}
_STREAMED = {200: Answer("The events of docs/threads.md.", TEXT, EVENTS)}
_EXPORTED = {200: Answer("All entries.", TEXT, "text/csv")}
_TAKEN: dict[str, Any] = {"status": 202, "errors": [409], "parameters": [IDEMPOTENCY_KEY]}
_GET_JOBS = _operation("Read the state of a thread's run", ref("ThreadJob"))
_DELETE_JOBS = _operation("Stop a thread's run", record({"workflow_id": TEXT, "message": TEXT}))
_WAITS: dict[str, Any] = {"streams": True, "errors": [404, 409, 502, 504], "parameters": [IDEMPOTENCY_KEY]}
OPERATIONS = {
    "GET /v1/threads": _page_of("Thread", "List your threads", req.ThreadQuery),
    "POST /v1/threads": _operation(
        "Create a thread", ref("Thread"), status=201, body=req.ThreadBody, errors=[404, 409]
    ),
    "GET /v1/threads/{thread_id}": _operation("Read a thread", ref("Thread")),
    "PATCH /v1/threads/{thread_id}": _operation("Change a thread", ref("Thread"), body=req.ThreadChanges, errors=[409]),
    "DELETE /v1/threads/{thread_id}": _operation("Delete a thread", None, **_NO_CONTENT),
    "POST /v1/threads/{thread_id}/user_message": _operation(
        "Send a message", ref("ThreadMessageTaken"), body=req.UserMessageBody, **_TAKEN
    ),
    "GET /v1/threads/{thread_id}/stream": _operation(
        "Stream the answer", None, query=req.StreamQuery, streams=True, answers=_STREAMED
    ),
    "GET /v1/threads/{thread_id}/messages": _page_of("ThreadMessage", "List messages", req.MessageQuery),
    "POST /v1/threads/{thread_id}/messages": _stores("ThreadMessage", "Store a message", req.MessageBody, errors=[409]),
    "GET /v1/threads/{thread_id}/messages/{message_id}": _operation(
        "Read a message", ref("ThreadMessage"), query=req.OneMessageQuery
    ),
    "GET /v1/system-jobs/{workflow_id}": _GET_JOBS,
    "DELETE /v1/system-jobs/{workflow_id}": _DELETE_JOBS,
    "GET /v1/workflows/{workflow_id}": _GET_JOBS,
    "DELETE /v1/workflows/{workflow_id}": _DELETE_JOBS,
    "POST /v1/diagnostics/threads/{thread_id}": _operation(
        "Read the timing of each turn", record({"final": BOOLEAN, "traces": list_of(OBJECT)})
    ),
    "POST /v1/agent/ask": _operation(
        "Send one message to an agent", record({"text": TEXT}), body=req.AskBody, **_WAITS
    ),
    "POST /v1/agent/extract": _operation(
        "Get an answer that matches a schema", record({"structured": OBJECT}), body=req.ExtractBody, **_WAITS
    ),
    "GET /v1/feedback": _page_of("ThreadFeedback", "List feedback", req.FeedbackQuery),
    "POST /v1/feedback": _stores("ThreadFeedback", "Give feedback", req.FeedbackBody, errors=[404]),
    "DELETE /v1/feedback/{feedback_id}": _operation("Delete feedback", None, **_NO_CONTENT),
    "GET /v1/api-keys": _operation("List API keys", list_of(ref("ThreadApiKey")), errors=[403]),
    "POST /v1/api-keys": _operation("Create an API key", ref("ThreadNewApiKey"), status=201, body=req.ApiKeyBody),
    "GET /v1/api-keys/{key_id}": _operation("Read an API key", ref("ThreadApiKey"), errors=[403]),
    "DELETE /v1/api-keys/{key_id}": _operation("Revoke an API key", None, **_NO_CONTENT),
    "POST /v1/auth/pw/signin": _operation(
        "Sign in", ref("ThreadUser"), body=req.SignInBody, access="open", errors=[401, 403]
    ),
    "POST /v1/auth/signout": _operation("Sign out", None, access="open", **_NO_CONTENT),
    "POST /v1/auth/uat": _operation("Renew the cookie", ref("ThreadUser")),
    "GET /v1/users/me": _operation("Read your user", ref("ThreadUser")),
    "GET /v1/audit-events": _page_of("ThreadAuditEvent", "Read the audit log", req.AuditQuery, errors=[403]),
    "GET /v1/audit-events/export": _operation(
        "Export the audit log as CSV", None, query=req.AuditQuery, errors=[403], answers=_EXPORTED
    ),
    "GET /healthz": _operation("Check the health", record({"status": TEXT, "database_ts": TEXT}), access="open"),
}
DESCRIPTION = Description("Threads", _ABOUT, "ThreadError", COMPONENTS, OPERATIONS)
