"""The methods over both bindings: one JSON-RPC endpoint for each agent, and the routes of HTTP+JSON.

A client that closes its request does not stop the task, unless a message says so: it reads it, or subscribes to it.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import quote

from django.urls import URLPattern, path
from rest_framework.exceptions import ParseError

from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError
from audit_app.kernel.json_text import as_json
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
from sessions_app.surfaces.base.openapi.operations import STOP_ON_DISCONNECT, Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import OBJECT, ref
from sessions_app.surfaces.base.sse import EventStreamConsumer

# A run's owner ends it within a second; a process that hangs must not keep the client waiting.
_CANCEL_SECONDS = 5
_OF_A_METHOD = (400, 404, 409, 410, 422)  # statuses of errors that JSON-RPC answers with 200
_SIMPLE: Mapping[str, Callable[[Caller, Mapping[str, Any]], dict[str, Any]]] = {
    "GetTask": queries.get_task,
    "ListTasks": queries.list_tasks,
    **push_configs.METHODS,
}


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
        await self.send_event(as_json(self.error_body(failure)), event="error")
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
        await self.send_values(map(self.shaped, updates))


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
            "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        }
        await self.send_whole(200, data, headers)


class Method(Endpoint):
    """Base of the routes of HTTP+JSON. A POST has its parameters in the body, a GET in the query.

    ids: parts of the address, by the names of the parameters that they are.
    """

    ids: ClassVar[Mapping[str, str]]

    async def run(self, method: str, body: bytes) -> None:
        """Answer the method with the parameters of this request."""
        caller = await self.find_caller()
        given = (parse_json(body) if body else {}) if self.scope["method"] == "POST" else self.request.GET.dict()
        if not isinstance(given, Mapping):
            raise UnsupportedOperation("The body must be a JSON object.")
        named = self.scope["url_route"]["kwargs"]
        await self.call(caller, method, {**given, **{name: named[key] for name, key in self.ids.items()}})


def _route(address: str, *ids: str, **methods: str) -> URLPattern:
    """Return the route of an address below that of the agent.

    ids: for each variable part of the address, the parameter of the method that it fills.
    methods: methods of A2A, by the verbs of HTTP.
    """

    def handler(method: str) -> Callable[[Method, bytes], Awaitable[None]]:
        return openapi.OPERATIONS[method](lambda view, body: view.run(method, body))

    named = dict(zip(ids, re.findall(r"<str:(\w+)>", address), strict=True))
    handlers = {verb: handler(method) for verb, method in methods.items()}
    fields = {"methods": tuple(map(str.upper, methods)), "ids": named, **handlers}
    consumer: Any = type("HttpMethod", (Method,), fields)
    route: URLPattern = path(f"a2a/<str:agent_id>/{address}", consumer.as_asgi())
    return route


_TASK, _CONFIGS = "tasks/<str:task_id>", "tasks/<str:task_id>/pushNotificationConfigs"
_PUSH = "TaskPushNotificationConfig"

routes = [
    path("a2a/<str:agent_id>", JsonRpc.as_asgi()),
    path("a2a/<str:agent_id>/.well-known/agent-card.json", Card.as_asgi()),
    path("a2a/<str:agent_id>/files/<str:artifact_id>", File.as_asgi()),
    _route("extendedAgentCard", get="GetExtendedAgentCard"),
    _route("message:send", post="SendMessage"),
    _route("message:stream", post="SendStreamingMessage"),
    _route("tasks", get="ListTasks"),
    _route(f"{_TASK}:cancel", "id", post="CancelTask"),
    _route(f"{_TASK}:subscribe", "id", post="SubscribeToTask", get="SubscribeToTask"),  # the specification has both
    _route(_TASK, "id", get="GetTask"),
    _route(_CONFIGS, "taskId", get=f"List{_PUSH}s", post=f"Create{_PUSH}"),
    _route(f"{_CONFIGS}/<str:config_id>", "taskId", "id", get=f"Get{_PUSH}", delete=f"Delete{_PUSH}"),
]
