"""This surface in the OpenAPI document. The objects are those of a2a.proto, of which it names the usual fields."""

from collections.abc import Mapping
from typing import Any

from sessions_app.surfaces.a2a.requests import LONGEST_ID, METHODS, MOST_PARTS, MOST_TASKS
from sessions_app.surfaces.a2a.responses import TASK_STATES
from sessions_app.surfaces.base.openapi.operations import (
    EVENTS,
    STOP_ON_DISCONNECT,
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
    just,
    list_of,
    one_of,
    record,
    ref,
)

_ABOUT = "Agents for other agents, by A2A 1.0, as JSON-RPC and as HTTP+JSON. See docs/a2a.md."
_ID: Schema = {"type": "string", "maxLength": LONGEST_ID}
_PART = record(
    {"text": TEXT, "raw": TEXT, "url": TEXT, "data": ANYTHING, "filename": TEXT, "mediaType": TEXT},
    optional=["text", "raw", "url", "data", "filename", "mediaType"],
    open_ended=True,
)
_MESSAGE = record(
    {
        "messageId": {**_ID, "minLength": 1},
        "contextId": _ID,
        "taskId": _ID,
        "role": one_of(["ROLE_USER", "ROLE_AGENT"]),
        "parts": {"type": "array", "items": _PART, "minItems": 1, "maxItems": MOST_PARTS},
    },
    optional=["contextId", "taskId"],
    open_ended=True,
)
_STATUS = record({"state": one_of(TASK_STATES), "message": ref("A2AMessage"), "timestamp": TIME}, optional=["message"])
_ARTIFACT = record({"artifactId": TEXT, "name": TEXT, "parts": list_of(_PART)})
_TASK = record(
    {
        "id": TEXT,
        "contextId": TEXT,
        "status": _STATUS,
        "artifacts": list_of(_ARTIFACT),
        "history": list_of(ref("A2AMessage")),
    },
    optional=["artifacts", "history"],
)
_DETAILS = list_of(record({"@type": TEXT}, open_ended=True))
_ERROR = record({"code": INTEGER, "status": TEXT, "message": TEXT, "details": _DETAILS})
_CALL_ID: Schema = {"type": ["string", "integer", "null"]}
_RPC_ERROR = record({"code": INTEGER, "message": TEXT, "data": _DETAILS})
_AUTHENTICATION = record({"scheme": TEXT, "credentials": TEXT}, optional=["credentials"], open_ended=True)
_PUSH_REQUEST: Schema = record(
    {"id": _ID, "taskId": _ID, "url": TEXT, "token": TEXT, "authentication": _AUTHENTICATION},
    optional=["id", "taskId", "token", "authentication"],
    open_ended=True,
)
_SEND_REQUEST: Schema = record(
    {
        "message": ref("A2AMessage"),
        "configuration": record(
            {
                "historyLength": COUNT,
                "returnImmediately": BOOLEAN,
                "acceptedOutputModes": list_of(TEXT),
                "taskPushNotificationConfig": _PUSH_REQUEST,
            },
            optional=["historyLength", "returnImmediately", "acceptedOutputModes", "taskPushNotificationConfig"],
            open_ended=True,
        ),
    },
    optional=["configuration"],
    open_ended=True,
)
RPC_REQUEST: Schema = record(
    {"jsonrpc": just("2.0"), "id": _CALL_ID, "method": one_of(METHODS), "params": OBJECT},
    optional=["id", "params"],
    open_ended=True,
)
_VERSION = Parameter("A2A-Version", "`1.0`. Without it, 0.3 is meant, which is not supported.", TEXT, where="header")
_COMMON = (_VERSION, Parameter("A2A-Version", "Instead of the header.", TEXT))
_HISTORY = Parameter("historyLength", "Maximum number of messages of the history.", COUNT)
_GET = (*_COMMON, _HISTORY)
_LIST = (
    *_GET,
    Parameter("contextId", "Only tasks of this context.", _ID),
    Parameter("status", "Only tasks in this state.", one_of(TASK_STATES)),
    Parameter("pageSize", "Maximum number of tasks.", {"type": "integer", "minimum": 1, "maximum": MOST_TASKS}),
    Parameter("pageToken", "`nextPageToken` of the page before.", TEXT),
    Parameter("statusTimestampAfter", "Only tasks whose status is of this time or later.", TIME),
    Parameter("includeArtifacts", "Return the artifacts, too.", BOOLEAN),
)
_SENDING: dict[str, Any] = {"streams": True, "body": _SEND_REQUEST, "parameters": (*_COMMON, STOP_ON_DISCONNECT)}
_STREAM = {200: Answer("A stream of StreamResponse; docs/a2a.md says what is in it.", TEXT, EVENTS)}
_CONFIG, _CONFIGS = ref("A2APushConfig"), ref("A2APushConfigs")
# The methods, as HTTP+JSON has them.
OPERATIONS: Mapping[str, Operation] = {
    "SendMessage": Operation("Send a message", ref("A2ASent"), errors=[404], **_SENDING),
    "SendStreamingMessage": Operation("Send a message and stream its task", answers=_STREAM, **_SENDING),
    "GetTask": Operation("Read a task", ref("A2ATask"), parameters=_GET),
    "ListTasks": Operation("List tasks", ref("A2ATasks"), parameters=_LIST),
    "CancelTask": Operation("Cancel a task", ref("A2ATask"), body=OBJECT, parameters=_COMMON),
    "SubscribeToTask": Operation("Subscribe to a task", streams=True, parameters=_COMMON, answers=_STREAM),
    "CreateTaskPushNotificationConfig": Operation(
        "Have a task's states posted to an address", _CONFIG, body=_PUSH_REQUEST, parameters=_COMMON
    ),
    "GetTaskPushNotificationConfig": Operation("Read a push notification configuration", _CONFIG, parameters=_COMMON),
    "ListTaskPushNotificationConfigs": Operation("List push notification configurations", _CONFIGS, parameters=_COMMON),
    "DeleteTaskPushNotificationConfig": Operation(
        "Delete a push notification configuration", OBJECT, parameters=_COMMON
    ),
    "GetExtendedAgentCard": Operation("Read the extended card: not supported", OBJECT, errors=[400]),
}
COMPONENTS: dict[str, Schema] = {
    "A2AError": {
        "description": "Of HTTP+JSON; the second, of JSON-RPC, at the address of the agent.",
        "anyOf": [record({"error": _ERROR}), record({"jsonrpc": just("2.0"), "id": _CALL_ID, "error": _RPC_ERROR})],
    },
    "A2AMessage": _MESSAGE,
    "A2ATask": _TASK,
    "A2ASent": record({"task": ref("A2ATask")}),
    "A2ATasks": record(
        {"tasks": list_of(ref("A2ATask")), "nextPageToken": TEXT, "pageSize": COUNT, "totalSize": COUNT}
    ),
    "A2APushConfig": record(
        {"id": TEXT, "taskId": TEXT, "url": TEXT, "authentication": record({"scheme": TEXT})},
        optional=["authentication"],
    ),
    "A2APushConfigs": record({"configs": list_of(ref("A2APushConfig")), "nextPageToken": TEXT}),
    "A2ARpcAnswer": record(
        {"jsonrpc": just("2.0"), "id": _CALL_ID, "result": OBJECT, "error": _RPC_ERROR}, optional=["result", "error"]
    ),
}
DESCRIPTION = Description("A2A", _ABOUT, "A2AError", COMPONENTS, access="bearer")
