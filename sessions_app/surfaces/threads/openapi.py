"""The operations of this surface for the OpenAPI document. docs/threads.md describes the events of its stream."""

from collections.abc import Mapping
from typing import Any

from sessions_app.surfaces.base.openapi.operations import EVENTS, IDEMPOTENCY_KEY, Answer, Description, Operation
from sessions_app.surfaces.base.openapi.schemas import (
    BOOLEAN,
    COUNT,
    INTEGER,
    NULL,
    OBJECT,
    TEXT,
    TIME,
    UUID,
    Schema,
    list_of,
    nullable,
    one_of,
    record,
    ref,
)
from sessions_app.surfaces.threads import requests
from sessions_app.surfaces.threads.message_schemas import DETAILS

_ABOUT = "Threads, messages, their stream, feedback, keys: see docs/threads.md."
_MAYBE_TEXT, _MAYBE_TIME, _MAYBE_ID = nullable(TEXT), nullable(TIME), nullable(UUID)
Operations = Mapping[str, Operation]

_PERSON = record({"user_id": UUID, "first_name": _MAYBE_TEXT, "last_name": _MAYBE_TEXT})
_THREAD = record(
    {
        "id": UUID,
        "path_part_id": UUID,
        "title": TEXT,
        "parent_thread_id": _MAYBE_ID,
        "materialized_path": TEXT,
        "tenant_id": UUID,
        "owner": ref("ThreadPerson"),
        "created_at": TIME,
        "updated_at": TIME,
        "agent_id": TEXT,
        "is_busy": BOOLEAN,
    }
)
_CONTENT = record(
    {"text": TEXT, "is_error": BOOLEAN, "citations": list_of(OBJECT), "references": list_of(OBJECT)}, open_ended=True
)
_MESSAGE = record(
    {
        "id": UUID,
        "path_part_id": UUID,
        "sequence": COUNT,
        "role": one_of(requests.ROLES),
        "content": _CONTENT,
        "details": nullable(OBJECT),
        "parent_path_id": UUID,
        "materialized_path": TEXT,
        "tenant_id": UUID,
        "author_tenant_user_id": _MAYBE_ID,
        "created_at": TIME,
        "updated_at": TIME,
    }
)
_JOB = record(
    {
        "workflow_id": TEXT,
        "temporal_status": TEXT,
        "workflow_type": TEXT,
        "task_queue": TEXT,
        "start_time": TIME,
        "close_time": _MAYBE_TIME,
        "run_id": UUID,
        "status": TEXT,
        "waiting_on": _MAYBE_TEXT,
    }
)
_FEEDBACK = record(
    {
        "id": UUID,
        "target_type": one_of(requests.TARGETS),
        "target_id": UUID,
        "user_id": UUID,
        "rating": TEXT,
        "reason": _MAYBE_TEXT,
        "comment": _MAYBE_TEXT,
        "extra_metadata": nullable(OBJECT),
        "created_at": TIME,
        "updated_at": TIME,
    }
)
_KEY = {
    "id": UUID,
    "name": TEXT,
    "key_suffix": TEXT,
    "created_at": TIME,
    "expires_at": _MAYBE_TIME,
    "last_used_at": _MAYBE_TIME,
}
_USER = record(
    {
        "id": UUID,
        "email": _MAYBE_TEXT,
        "phone_number": NULL,
        "first_name": _MAYBE_TEXT,
        "last_name": _MAYBE_TEXT,
        "idp_type": TEXT,
        "current_tenant_id": UUID,
        "current_tenant_role": TEXT,
        "default_tenant_id": UUID,
        "language_preference": TEXT,
        "join_method": TEXT,
        "onboarding_completed_at": _MAYBE_TIME,
    }
)
_AUDIT_EVENT = record(
    {
        "id": TEXT,
        "subject_path_part_id": UUID,
        "kind": TEXT,
        "ts": TIME,
        "actor_user_id": _MAYBE_ID,
        "payload": OBJECT,
        "actor": nullable(ref("ThreadPerson")),
        "subject_name": _MAYBE_TEXT,
        "subject_object_id": _MAYBE_ID,
        "subject_part_type": _MAYBE_TEXT,
    }
)


def _page(name: str) -> Schema:
    return record({"items": list_of(ref(name)), "total": COUNT, "limit": INTEGER, "offset": COUNT})


COMPONENTS: dict[str, Schema] = {
    "ThreadError": record({"detail": TEXT, "code": TEXT, "request_id": _MAYBE_TEXT}),
    "ThreadPerson": _PERSON,
    "Thread": _THREAD,
    "ThreadPage": _page("Thread"),
    "ThreadMessage": _MESSAGE,
    "ThreadMessagePage": _page("ThreadMessage"),
    "ThreadMessageDetails": DETAILS,
    "ThreadMessageTaken": record({"workflow_id": TEXT, "user_message_id": UUID, "message_id": UUID}),
    "ThreadJob": _JOB,
    "ThreadFeedback": _FEEDBACK,
    "ThreadFeedbackPage": _page("ThreadFeedback"),
    "ThreadApiKey": record(_KEY),
    "ThreadNewApiKey": record({**_KEY, "key": TEXT}),
    "ThreadUser": _USER,
    "ThreadAuditEvent": _AUDIT_EVENT,
    "ThreadAuditEventPage": _page("ThreadAuditEvent"),
}


def _operation(summary: str, result: Schema | None, **more: Any) -> Operation:
    """Return an operation. This protocol answers invalid bodies and queries with 422."""
    errors = list(more.pop("errors", ()))
    if "body" in more or "query" in more:
        errors.append(422)
    more.setdefault("access", "thread")
    return Operation(summary, result, errors=errors, **more)


_NO_CONTENT: dict[str, Any] = {"status": 204}
_EXISTS = "It exists already."
_GET_JOBS = _operation("Read the state of a thread's run", ref("ThreadJob"))
_DELETE_JOBS = _operation("Stop a thread's run", record({"workflow_id": TEXT, "message": TEXT}))
_WAITS: dict[str, Any] = {"streams": True, "errors": [404, 409, 502, 504], "parameters": [IDEMPOTENCY_KEY]}
OPERATIONS: Operations = {
    "GET /v1/threads": _operation("List your threads", ref("ThreadPage"), query=requests.ThreadQuery),
    "POST /v1/threads": _operation(
        "Create a thread", ref("Thread"), status=201, body=requests.ThreadBody, errors=[404, 409]
    ),
    "GET /v1/threads/{thread_id}": _operation("Read a thread", ref("Thread")),
    "PATCH /v1/threads/{thread_id}": _operation(
        "Change a thread", ref("Thread"), body=requests.ThreadChanges, errors=[409]
    ),
    "DELETE /v1/threads/{thread_id}": _operation("Delete a thread", None, **_NO_CONTENT),
    "POST /v1/threads/{thread_id}/user_message": _operation(
        "Send a message",
        ref("ThreadMessageTaken"),
        status=202,
        body=requests.UserMessageBody,
        errors=[409],
        parameters=[IDEMPOTENCY_KEY],
    ),
    "GET /v1/threads/{thread_id}/stream": _operation(
        "Stream the answer",
        None,
        query=requests.StreamQuery,
        streams=True,
        answers={200: Answer("The events of docs/threads.md.", TEXT, EVENTS)},
    ),
    "GET /v1/threads/{thread_id}/messages": _operation(
        "List messages", ref("ThreadMessagePage"), query=requests.MessageQuery
    ),
    "POST /v1/threads/{thread_id}/messages": _operation(
        "Store a message",
        ref("ThreadMessage"),
        status=201,
        body=requests.MessageBody,
        errors=[409],
        answers={200: Answer(_EXISTS, ref("ThreadMessage"))},
    ),
    "GET /v1/threads/{thread_id}/messages/{message_id}": _operation(
        "Read a message", ref("ThreadMessage"), query=requests.OneMessageQuery
    ),
    "GET /v1/system-jobs/{workflow_id}": _GET_JOBS,
    "DELETE /v1/system-jobs/{workflow_id}": _DELETE_JOBS,
    "GET /v1/workflows/{workflow_id}": _GET_JOBS,
    "DELETE /v1/workflows/{workflow_id}": _DELETE_JOBS,
    "POST /v1/diagnostics/threads/{thread_id}": _operation(
        "Read the timing of each turn", record({"final": BOOLEAN, "traces": list_of(OBJECT)})
    ),
    "POST /v1/agent/ask": _operation(
        "Send one message to an agent", record({"text": TEXT}), body=requests.AskBody, **_WAITS
    ),
    "POST /v1/agent/extract": _operation(
        "Get an answer that matches a schema", record({"structured": OBJECT}), body=requests.ExtractBody, **_WAITS
    ),
    "GET /v1/feedback": _operation("List feedback", ref("ThreadFeedbackPage"), query=requests.FeedbackQuery),
    "POST /v1/feedback": _operation(
        "Give feedback",
        ref("ThreadFeedback"),
        status=201,
        body=requests.FeedbackBody,
        errors=[404],
        answers={200: Answer(_EXISTS, ref("ThreadFeedback"))},
    ),
    "DELETE /v1/feedback/{feedback_id}": _operation("Delete feedback", None, **_NO_CONTENT),
    "GET /v1/api-keys": _operation("List API keys", list_of(ref("ThreadApiKey")), errors=[403]),
    "POST /v1/api-keys": _operation("Create an API key", ref("ThreadNewApiKey"), status=201, body=requests.ApiKeyBody),
    "GET /v1/api-keys/{key_id}": _operation("Read an API key", ref("ThreadApiKey"), errors=[403]),
    "DELETE /v1/api-keys/{key_id}": _operation("Revoke an API key", None, **_NO_CONTENT),
    "POST /v1/auth/pw/signin": _operation(
        "Sign in", ref("ThreadUser"), body=requests.SignInBody, access="open", errors=[401, 403]
    ),
    "POST /v1/auth/signout": _operation("Sign out", None, access="open", **_NO_CONTENT),
    "POST /v1/auth/uat": _operation("Renew the cookie", ref("ThreadUser")),
    "GET /v1/users/me": _operation("Read your user", ref("ThreadUser")),
    "GET /v1/audit-events": _operation(
        "Read the audit log", ref("ThreadAuditEventPage"), query=requests.AuditQuery, errors=[403]
    ),
    "GET /v1/audit-events/export": _operation(
        "Export the audit log as CSV",
        None,
        query=requests.AuditQuery,
        errors=[403],
        answers={200: Answer("All entries.", TEXT, "text/csv")},
    ),
    "GET /healthz": _operation("Check the health", record({"status": TEXT, "database_ts": TEXT}), access="open"),
}
DESCRIPTION = Description("Threads", _ABOUT, "ThreadError", COMPONENTS, OPERATIONS)
