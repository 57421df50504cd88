"""One request to the MCP server as an offer sees it: its caller, and what it may send while it works."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import mcp_types as types
from mcp.server.connection import allowed_log_levels
from mcp.server.context import ServerRequestContext
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from sessions_app.identity.principal import Principal

Context = ServerRequestContext[Any, Any]
PRINCIPAL, CLIENT_SESSION = "komand.principal", "komand.mcp_session"  # keys of the HTTP request's scope
TASKS = "io.modelcontextprotocol/tasks"
# A person who has not answered by then answers by the other tools.
_ANSWER_SECONDS = 600
_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)
_RESULTS: dict[str, tuple[str, type[Any]]] = {
    "elicitation/create": ("elicitation", types.ElicitResult),
    "sampling/createMessage": ("sampling", types.CreateMessageResult),
    "roots/list": ("roots", types.ListRootsResult),
}


@dataclass
class ClientSession:
    """State of a session of the older revision.

    level: least level of log messages.
    watches: functions that begin a watch of a resource, by URI.
    has_changed: set when the watches have changed.
    """

    level: types.LoggingLevel = "info"
    watches: dict[str, Callable[[], Coroutine[Any, Any, None]]] = field(default_factory=dict)
    has_changed: asyncio.Event = field(default_factory=asyncio.Event)


class InputRequired(Exception):
    """The client must send this request again with answers. Only the newer revision asks so."""

    def __init__(self, result: types.InputRequiredResult) -> None:
        super().__init__("input required")
        self.result = result


def principal_of(context: Context) -> Principal:
    """Return the caller of the HTTP request that brought this message."""
    principal: Principal = scope_of(context)[PRINCIPAL]
    return principal


def scope_of(context: Context) -> dict[str, Any]:
    if context.request is None:
        raise LookupError("this message came without an HTTP request")
    scope: dict[str, Any] = context.request.scope
    return scope


class Call:
    """A call of a tool or a prompt.

    principal: its caller.
    state: what `ask` got as `state` in the round before, if the client answers; else empty.
    """

    def __init__(self, context: Context, params: Any = None) -> None:
        self.principal = principal_of(context)
        self.state: str = getattr(params, "request_state", None) or ""
        self._answers: Mapping[str, Any] = getattr(params, "input_responses", None) or {}
        self._context = context
        self._is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        self._steps = 0

    @property
    def is_watched(self) -> bool:
        """Return whether the client receives anything before the result."""
        return bool(self._levels) or not {"progress_token", "progressToken"}.isdisjoint(self._context.meta or ())

    @property
    def _levels(self) -> frozenset[types.LoggingLevel]:
        if self._is_modern:
            return allowed_log_levels(self._context.protocol_version, self._context.meta)
        session: ClientSession | None = scope_of(self._context).get(CLIENT_SESSION)
        return frozenset(_LEVELS[_LEVELS.index(session.level) :] if session else ())

    def declares(self, capability: str) -> bool:
        """Return whether the client has declared a capability, or an extension, whose name contains a slash."""
        declared = self._context.session.client_capabilities
        if "/" in capability:
            return capability in (getattr(declared, "extensions", None) or {})
        return getattr(declared, capability, None) is not None

    @property
    def takes_tasks(self) -> bool:
        """Return whether the client takes a task instead of a result."""
        return self._is_modern and self.declares(TASKS)

    def can_ask(self, method: str = "elicitation/create") -> bool:
        """Return whether the client can be sent such a request."""
        can_send = self._is_modern or self._context.session.can_send_request
        return can_send and self.declares(_RESULTS[method][0])

    async def progress(self, done: float | None = None, total: float | None = None, message: str | None = None) -> None:
        """Report progress, if the client wants reports. done: greater with each report; None counts the reports."""
        self._steps += 1
        await self._context.session.report_progress(self._steps if done is None else done, total, message)

    async def log(self, level: types.LoggingLevel, text: str) -> None:
        """Send a log message, if the client wants those of the level."""
        if level in self._levels:
            params = types.LoggingMessageNotificationParams(level=level, data=text, logger="komand")
            notification = types.LoggingMessageNotification(params=params)
            await self._context.session.send_notification(notification, related_request_id=self._context.request_id)

    async def ask(self, requests: Mapping[str, types.InputRequest], state: str = "") -> dict[str, Any]:
        """Return the client's answers to requests, by their names; those it cannot be sent are left out.

        state: given to the call in which the answers come. Raises InputRequired until they are here.
        """
        wanted = {name: request for name, request in requests.items() if self.can_ask(request.method)}
        if not self._is_modern:
            return {name: await self._send(request) for name, request in wanted.items()}
        answers = {name: self._read(request, self._answers.get(name)) for name, request in wanted.items()}
        if missing := {name: wanted[name] for name, answer in answers.items() if answer is None}:
            raise InputRequired(types.InputRequiredResult(input_requests=missing, request_state=state or None))
        return answers

    async def _send(self, request: Any) -> Any:
        """Send a request in the stream of the answer, and return its result."""
        related = ServerMessageMetadata(related_request_id=self._context.request_id)
        result_type = _RESULTS[request.method][1]
        return await self._context.session.send_request(request, result_type, _ANSWER_SECONDS, related)

    @staticmethod
    def _read(request: types.InputRequest, given: Any) -> Any:
        """Return an answer as the result of its request; None if it is missing or of another form."""
        if given is None:
            return None
        try:
            data = given.model_dump(by_alias=True, exclude_none=True) if hasattr(given, "model_dump") else given
            return _RESULTS[request.method][1].model_validate(data)
        except ValidationError:
            return None


def form(message: str, properties: Mapping[str, Any], required: tuple[str, ...] = ()) -> types.ElicitRequest:
    """Return a request for a person to fill in a form."""
    schema = {"type": "object", "properties": dict(properties), "required": list(required)}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))
