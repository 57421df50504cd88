"""The methods over both bindings: one JSON-RPC endpoint for each agent, and the routes of HTTP+JSON.

A client that closes its request does not stop the task, unless a message says so: it reads it, or subscribes to it.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import quote

from django.urls import path
from rest_framework.exceptions import ParseError

from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError
from sessions_app.identity.request_admission import admit_bearer
from sessions_app.live_view.viewer import wait_until_ended
from sessions_app.surfaces.a2a import commands, openapi, push_configs, queries, responses
from sessions_app.surfaces.a2a.commands import FollowedTask
from sessions_app.surfaces.a2a.errors import UnsupportedOperation, rpc_error
from sessions_app.surfaces.a2a.projection import TaskUpdates
from sessions_app.surfaces.a2a.queries import Caller
from sessions_app.surfaces.a2a.requests import SendRequest, check_version, is_call_id, read_call
from sessions_app.surfaces.a2a.responses import TaskView
from sessions_app.surfaces.base.addresses import origin_for
from sessions_app.surfaces.base.bodies import clean, parse_json
from sessions_app.surfaces.base.http_errors import HttpError, http_error_of
from sessions_app.surfaces.base.intake_limit import store_message
from sessions_app.surfaces.base.openapi.operations import EVENTS, STOP_ON_DISCONNECT, Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import OBJECT, TEXT, ref
from sessions_app.surfaces.base.sse import EventStreamConsumer, event_text

# A run's owner ends it within a second; a process that hangs must not keep the client waiting.
_CANCEL_SECONDS = 5
_OF_A_METHOD = (400, 404, 409, 410, 422)  # statuses of errors that JSON-RPC answers with 200
_SIMPLE: Mapping[str, Callable[[Caller, Mapping[str, Any]], dict[str, Any]]] = {
    "GetTask": queries.get_task,
    "ListTasks": queries.list_tasks,
    **push_configs.METHODS,
}
_STREAM = Answer("A stream of StreamResponse; docs/a2a.md says what is in it.", TEXT, EVENTS)


class Endpoint(EventStreamConsumer):
    """The methods. Subclasses take the parameters from their binding, and shape the results for it."""

    is_endless = True  # a task may wait for a person
    admit = staticmethod(admit_bearer)  # also with a read-only key: methods that change something refuse it
    media_types = ("application/json", "application/a2a+json", "")

    def shaped(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return a result, or an event of a stream, as the binding has it."""
        return result

    async def break_off(self, failure: HttpError) -> None:
        """Send the error as the last event."""
        await self.send_event(_as_json(self.error_body(failure)), event="error")
        await super().break_off(failure)

    async def find_caller(self) -> Caller:
        """Return the caller, with the agent of the address. Raises NotFound (unknown_agent)."""
        agent_id, origin = self.scope["url_route"]["kwargs"]["agent_id"], origin_for(self.request)
        return await in_db(queries.find_caller, self.principal, agent_id, origin)

    async def call(self, caller: Caller, method: str, params: Mapping[str, Any]) -> None:
        """Answer a call. Raises AppError."""
        check_version(self.request)
        params = clean(dict(params))
        if method in _SIMPLE:
            await self._send_result(await in_db(_SIMPLE[method], caller, params))
        elif method in ("SendMessage", "SendStreamingMessage"):
            finishes = self.stops_on_disconnect
            request, followed = await store_message(self._send, caller, params, finish_on_cancel=finishes)
            if method == "SendStreamingMessage":
                await self._stream(caller, followed, lambda view: bool(view.ask and view.ask.may_answer))
            else:
                task = await self._settled(caller, followed, waits=not request.returns_immediately)
                await self._send_result({"task": task})
        elif method == "SubscribeToTask":
            await self._stream(caller, await in_db(commands.follow, caller, params), lambda view: False)
        elif method == "CancelTask":
            followed = await in_db(commands.cancel, caller, params)
            await wait_until_ended(followed.session.pk, followed.run_id, _CANCEL_SECONDS)
            await self._send_result(responses.task(await self._load(caller, followed)))
        else:
            raise UnsupportedOperation("There is no extended card: the card is the one of the caller already.")

    def _send(self, caller: Caller, params: Mapping[str, Any]) -> tuple[SendRequest, FollowedTask]:
        request, followed = commands.send(caller, params)
        self.run_id = followed.run_id
        return request, followed

    async def _send_result(self, result: dict[str, Any]) -> None:
        await self.send_json(200, self.shaped(result))

    async def _load(self, caller: Caller, followed: FollowedTask) -> TaskView:
        return await in_db(queries.load_task, caller, followed.run_id, followed.session, followed.history_length)

    async def _settled(self, caller: Caller, followed: FollowedTask, *, waits: bool) -> dict[str, Any]:
        """Return the task; waits: once it has ended or asks a person."""
        view = await self._load(caller, followed)
        if waits and not view.is_settled:
            updates = TaskUpdates(followed.run_id, view.context_id)
            updates.begin(responses.task(view))
            async for frame in self.watch(followed.session.pk, await in_db(followed.read_cursor), marks_now=True):
                if not frame or any(map(updates.may_change, frame)):
                    view = await self._load(caller, followed)
                    if view.is_settled:
                        break
                    updates.begin(responses.task(view))
        return responses.task(view)

    async def _stream(self, caller: Caller, followed: FollowedTask, ends_at: Callable[[TaskView], bool]) -> None:
        """Send the task and its updates, until it ends or `ends_at`."""
        view = await self._load(caller, followed)
        updates, has_caught_up = TaskUpdates(followed.run_id, view.context_id), False
        cursor = await in_db(followed.read_cursor)
        await self.open_stream()
        await self._send_updates(updates.begin(responses.task(view)))
        if not (view.run.status.is_terminal or ends_at(view)):
            async for frame in self.watch(followed.session.pk, cursor, marks_now=True):
                sent, may_change = [], not frame
                for event in frame:
                    sent += updates.see(event)
                    may_change = may_change or updates.may_change(event)
                if not frame and not has_caught_up:
                    sent, has_caught_up = updates.whole_text(), True
                if not has_caught_up:
                    continue
                if may_change:
                    view = await self._load(caller, followed)
                    sent += updates.refresh(responses.task(view))
                is_last = view.run.status.is_terminal or ends_at(view)
                self.stops_on_disconnect = self.stops_on_disconnect and not is_last  # it may close then
                await self._send_updates(sent)
                if is_last:
                    break
        await self.close_stream()

    async def _send_updates(self, updates: list[dict[str, Any]]) -> None:
        if updates:
            await self.send_text("".join(event_text(_as_json(self.shaped(update))) for update in updates))


class JsonRpc(Endpoint):
    """POST /a2a/<agent>: all methods. Errors of methods are answered with 200, as JSON-RPC has it."""

    methods = ("POST",)
    _call_id: Any = None

    @Operation(
        "Call a method of A2A",
        ref("A2ARpcAnswer"),
        body=openapi.RPC_REQUEST,
        parameters=[STOP_ON_DISCONNECT],
        errors=[404],
        streams=True,
        description="JSON-RPC 2.0. SendStreamingMessage and SubscribeToTask are answered with a stream of results.",
    )
    async def respond(self, body: bytes) -> None:
        """Answer the call of this body."""
        caller = await self.find_caller()
        try:
            request = parse_json(body)
            if isinstance(request, dict) and is_call_id(request.get("id")):
                self._call_id = request.get("id")
            await self.call(caller, *read_call(request))
        except (AppError, ParseError) as error:
            failure = http_error_of(error)
            if self._status or failure.status not in _OF_A_METHOD:
                raise
            await self.send_json(200, self.error_body(failure))

    def shaped(self, result: dict[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": self._call_id, "result": result}

    def error_body(self, error: HttpError) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": self._call_id, "error": rpc_error(error)}


class Card(Endpoint):
    """GET /a2a/<agent>/.well-known/agent-card.json."""

    @Operation("Read the card of an agent", OBJECT, description="For callers who may use the agent.")
    async def respond(self, body: bytes) -> None:
        await self.send_json(200, queries.card(await self.find_caller()))


class File(Endpoint):
    """GET /a2a/<agent>/files/<id>: a file that is too long for its task."""

    @Operation("Download a file of a task", answers={200: Answer("The content, as an attachment.", media_type="*/*")})
    async def respond(self, body: bytes) -> None:
        caller = await self.find_caller()
        view, data = await in_db(queries.read_file, caller, self.scope["url_route"]["kwargs"]["artifact_id"])
        name = quote(view.path.rpartition("/")[2], safe="")
        headers = {
            "Content-Type": view.media_type or "application/octet-stream",
            "Content-Length": str(len(data)),
            "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        }
        await self.send({"type": "http.response.start", "status": 200, "headers": list(headers.items())})
        await self.send({"type": "http.response.body", "body": data})


class Method(Endpoint):
    """Base of the routes of HTTP+JSON. A POST has its parameters in the body, a GET in the query.

    ids: parts of the address, by the names of the parameters that they are.
    """

    ids: ClassVar[Mapping[str, str]] = {}

    async def run(self, method: str, body: bytes = b"") -> None:
        """Answer the method with the parameters of this request."""
        caller = await self.find_caller()
        given = (parse_json(body) if body else {}) if self.scope["method"] == "POST" else self.request.GET.dict()
        if not isinstance(given, Mapping):
            raise UnsupportedOperation("The body must be a JSON object.")
        named = self.scope["url_route"]["kwargs"]
        await self.call(caller, method, {**given, **{name: named[key] for name, key in self.ids.items()}})


class SendMessage(Method):
    """POST /a2a/<agent>/message:send."""

    methods = ("POST",)

    @Operation("Send a message", ref("A2ASent"), streams=True, errors=[404], **openapi.SENDING)
    async def respond(self, body: bytes) -> None:
        await self.run("SendMessage", body)


class SendStreamingMessage(Method):
    """POST /a2a/<agent>/message:stream."""

    methods = ("POST",)

    @Operation("Send a message and stream its task", streams=True, answers={200: _STREAM}, **openapi.SENDING)
    async def respond(self, body: bytes) -> None:
        await self.run("SendStreamingMessage", body)


class Tasks(Method):
    """GET /a2a/<agent>/tasks."""

    @Operation("List tasks", ref("A2ATasks"), parameters=openapi.LIST_PARAMETERS)
    async def respond(self, body: bytes) -> None:
        await self.run("ListTasks")


class TaskDetail(Method):
    """GET /a2a/<agent>/tasks/<id>."""

    ids: ClassVar[Mapping[str, str]] = {"id": "task_id"}

    @Operation("Read a task", ref("A2ATask"), parameters=openapi.GET_PARAMETERS)
    async def respond(self, body: bytes) -> None:
        await self.run("GetTask")


class CancelTask(Method):
    """POST /a2a/<agent>/tasks/<id>:cancel."""

    methods = ("POST",)
    ids: ClassVar[Mapping[str, str]] = {"id": "task_id"}

    @Operation("Cancel a task", ref("A2ATask"), body=OBJECT, parameters=openapi.PARAMETERS)
    async def respond(self, body: bytes) -> None:
        await self.run("CancelTask", body)


class SubscribeToTask(Method):
    """POST or GET /a2a/<agent>/tasks/<id>:subscribe: the specification has both."""

    methods = ("POST", "GET")
    ids: ClassVar[Mapping[str, str]] = {"id": "task_id"}

    @Operation("Subscribe to a task", streams=True, parameters=openapi.PARAMETERS, answers={200: _STREAM})
    async def respond(self, body: bytes) -> None:
        await self.run("SubscribeToTask")


class PushConfigs(Method):
    """GET or POST /a2a/<agent>/tasks/<id>/pushNotificationConfigs."""

    methods = ("GET", "POST")
    ids: ClassVar[Mapping[str, str]] = {"taskId": "task_id"}

    @Operation("List push notification configurations", ref("A2APushConfigs"), parameters=openapi.PARAMETERS)
    async def get(self, body: bytes) -> None:
        await self.run("ListTaskPushNotificationConfigs")

    @Operation(
        "Have a task's states posted to an address",
        ref("A2APushConfig"),
        body=openapi.PUSH_REQUEST,
        parameters=openapi.PARAMETERS,
    )
    async def post(self, body: bytes) -> None:
        await self.run("CreateTaskPushNotificationConfig", body)


class PushConfig(Method):
    """GET or DELETE /a2a/<agent>/tasks/<id>/pushNotificationConfigs/<id>."""

    methods = ("GET", "DELETE")
    ids: ClassVar[Mapping[str, str]] = {"taskId": "task_id", "id": "config_id"}

    @Operation("Read a push notification configuration", ref("A2APushConfig"), parameters=openapi.PARAMETERS)
    async def get(self, body: bytes) -> None:
        await self.run("GetTaskPushNotificationConfig")

    @Operation("Delete a push notification configuration", OBJECT, parameters=openapi.PARAMETERS)
    async def delete(self, body: bytes) -> None:
        await self.run("DeleteTaskPushNotificationConfig")


class ExtendedCard(Method):
    """GET /a2a/<agent>/extendedAgentCard: not supported."""

    @Operation("Read the extended card: not supported", OBJECT, errors=[400])
    async def respond(self, body: bytes) -> None:
        await self.run("GetExtendedAgentCard")


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


routes = [
    path("a2a/<str:agent_id>", JsonRpc.as_asgi()),
    path("a2a/<str:agent_id>/.well-known/agent-card.json", Card.as_asgi()),
    path("a2a/<str:agent_id>/extendedAgentCard", ExtendedCard.as_asgi()),
    path("a2a/<str:agent_id>/files/<str:artifact_id>", File.as_asgi()),
    path("a2a/<str:agent_id>/message:send", SendMessage.as_asgi()),
    path("a2a/<str:agent_id>/message:stream", SendStreamingMessage.as_asgi()),
    path("a2a/<str:agent_id>/tasks", Tasks.as_asgi()),
    path("a2a/<str:agent_id>/tasks/<str:task_id>:cancel", CancelTask.as_asgi()),
    path("a2a/<str:agent_id>/tasks/<str:task_id>:subscribe", SubscribeToTask.as_asgi()),
    path("a2a/<str:agent_id>/tasks/<str:task_id>", TaskDetail.as_asgi()),
    path("a2a/<str:agent_id>/tasks/<str:task_id>/pushNotificationConfigs", PushConfigs.as_asgi()),
    path("a2a/<str:agent_id>/tasks/<str:task_id>/pushNotificationConfigs/<str:config_id>", PushConfig.as_asgi()),
]
