"""The parameters of the methods, checked. Those of both bindings are alike; queries have texts instead of numbers.

Fields that the protocol does not have are ignored, as it asks for.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime

from agents_app.types import LoadedPart
from audit_app.kernel.errors import InvalidInput
from sessions_app.surfaces.a2a.errors import (
    ContentTypeNotSupported,
    InvalidRequest,
    MethodNotFound,
    VersionNotSupported,
)
from sessions_app.surfaces.a2a.responses import TASK_STATES
from sessions_app.surfaces.base.function_tools import invalid_param
from tools_app.network.ssrf_guard import MAX_URL_CHARACTERS, RefusedTargetError, check_url

VERSION = "1.0"
METHODS = ("SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask")
PUSH_METHODS = tuple(
    f"{verb}TaskPushNotificationConfig{plural}"
    for verb, plural in (("Create", ""), ("Get", ""), ("List", "s"), ("Delete", ""))
)
CARD_METHOD = "GetExtendedAgentCard"
LONGEST_TEXT = 200_000
LONGEST_ID = 200
MOST_PARTS = 100
MOST_TASKS, USUAL_TASKS = 100, 50
_CONTENT = ("text", "raw", "url", "data")
_LONGEST_SECRET = 4_000
_SCHEME, _HEADER = (
    re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,50}"),
    re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?"),
)
_NUMBER = re.compile(r"-?[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True)
class PushRequest:
    """A push notification configuration. name: its id; empty: that of the task."""

    name: str
    url: str
    token: str
    scheme: str
    credentials: str


@dataclass(frozen=True)
class SendRequest:
    """A message of the client, and how it wants the answer.

    texts: of its text parts, and the JSON of its data parts, in order.
    data: the values of its data parts.
    history_length: as `history_of`.
    """

    message_id: str
    context_id: str
    task_id: str
    texts: tuple[str, ...]
    data: tuple[Any, ...]
    files: tuple[LoadedPart, ...]
    returns_immediately: bool
    history_length: int | None
    push: PushRequest | None = None

    @property
    def text(self) -> str:
        return "\n\n".join(self.texts)


@dataclass(frozen=True)
class ListRequest:
    """The filters and the page of a list of tasks. Empty and None: not given."""

    context_id: str
    state: str
    changed_since: datetime | None
    page_token: str
    page_size: int
    history_length: int
    with_artifacts: bool


def check_version(request: HttpRequest) -> None:
    """Raise VersionNotSupported for a request that names another version, or none, which means 0.3."""
    given = request.headers.get("A2A-Version", "") or request.GET.get("A2A-Version", "")
    if given.strip().split(".")[:2] != VERSION.split("."):
        named = f"{given[:20]!r}" if given else "'0.3', which a request without A2A-Version means,"
        raise VersionNotSupported(f"The version {named} is not supported: send `A2A-Version: {VERSION}`.")


def read_call(body: Any) -> tuple[str, Mapping[str, Any]]:
    """Return method and parameters of a JSON-RPC request. Raises InvalidRequest, MethodNotFound, InvalidInput."""
    if not isinstance(body, Mapping) or body.get("jsonrpc") != "2.0" or not isinstance(body.get("method"), str):
        raise InvalidRequest
    if not is_call_id(body.get("id")):
        raise InvalidRequest("The id of a request must be a string, an integer or null.")
    method, params = body["method"], {} if body.get("params") is None else body["params"]
    if method not in (*METHODS, *PUSH_METHODS, CARD_METHOD):
        raise MethodNotFound(f"There is no method {method[:80]!r}.")
    if not isinstance(params, Mapping):
        raise invalid_param("params must be an object.", "params")
    return method, params


def is_call_id(value: Any) -> bool:
    """Return whether JSON-RPC allows this as the id of a request."""
    return value is None or (isinstance(value, str | int) and not isinstance(value, bool))


def read_send(params: Mapping[str, Any]) -> SendRequest:
    """Return the request of SendMessage. Raises InvalidInput."""
    message, configuration = _object(params, "message"), _object(params, "configuration", required=False)
    if message.get("role") != "ROLE_USER":
        raise invalid_param("message.role must be ROLE_USER.", "message.role")
    push = _object(configuration, "taskPushNotificationConfig", required=False)
    parts = message.get("parts")
    if not isinstance(parts, list) or not 0 < len(parts) <= MOST_PARTS:
        raise invalid_param(f"message.parts must be a list of 1 to {MOST_PARTS} parts.", "message.parts")
    read = [_part(part, f"message.parts[{n}]") for n, part in enumerate(parts)]
    data = tuple(value for kind, value in read if kind == "data")
    return SendRequest(
        message_id=_text(message, "messageId", "message", required=True),
        context_id=_text(message, "contextId", "message"),
        task_id=_text(message, "taskId", "message"),
        texts=tuple(
            value if kind == "text" else json.dumps(value, ensure_ascii=False)
            for kind, value in read
            if kind in ("text", "data")
        ),
        data=data,
        files=tuple(value for kind, value in read if kind == "raw"),
        returns_immediately=_flag(configuration, "returnImmediately", "configuration"),
        history_length=history_of(configuration, "configuration"),
        push=read_push(push, "configuration.taskPushNotificationConfig.") if push else None,
    )


def read_list(params: Mapping[str, Any]) -> ListRequest:
    """Return the request of ListTasks. Raises InvalidInput."""
    state = _text(params, "status")
    if state and state not in TASK_STATES:
        raise invalid_param(f"status must be one of {', '.join(TASK_STATES)}.", "status")
    since = _text(params, "statusTimestampAfter")
    return ListRequest(
        context_id=_text(params, "contextId"),
        state="" if state == TASK_STATES[0] else state,
        changed_since=_moment(since, "statusTimestampAfter") if since else None,
        page_token=_text(params, "pageToken"),
        page_size=_number(params, "pageSize", 1, MOST_TASKS) or USUAL_TASKS,
        history_length=history_of(params) or 0,
        with_artifacts=_flag(params, "includeArtifacts"),
    )


def read_task_id(params: Mapping[str, Any]) -> str:
    """Return the id of the task that a request names. Raises InvalidInput."""
    return _text(params, "id", required=True)


def read_push(params: Mapping[str, Any], path: str = "") -> PushRequest:
    """Return a push notification configuration. path: before the names of its fields, in errors. Raises InvalidInput.

    The URL is checked by what it says; what it resolves to is checked whenever something is sent.
    """
    given = _object(params, "authentication", required=False)
    request = PushRequest(
        _text(params, "id"),
        _text(params, "url", required=True, longest=MAX_URL_CHARACTERS),
        _text(params, "token", longest=_LONGEST_SECRET),
        _text(given, "scheme", "authentication"),
        _text(given, "credentials", "authentication", longest=_LONGEST_SECRET),
    )
    _check_address(request.url, f"{path}url")
    _check_headers(given, request, path)
    return request


def _check_address(url: str, path: str) -> None:
    reachable = frozenset(map(str.lower, settings.KOMAND_CALLBACK_ALLOW_PRIVATE))
    try:
        check_url(url, allowed_private=reachable)
    except RefusedTargetError as error:
        raise invalid_param(f"{path}: {error}", path) from None


def _check_headers(given: Mapping[str, Any], request: PushRequest, path: str) -> None:
    if given and not _SCHEME.fullmatch(request.scheme):
        problem = "must name a scheme of HTTP authentication, such as Bearer."
        raise invalid_param(f"{path}authentication.scheme {problem}", f"{path}authentication.scheme")
    for name, value in (("token", request.token), ("authentication.credentials", request.credentials)):
        if value and not _HEADER.fullmatch(value):
            raise invalid_param(f"{path}{name} must be printable ASCII.", f"{path}{name}")


def read_push_ids(params: Mapping[str, Any]) -> tuple[str, str]:
    """Return the ids of the task and of the configuration that a request names. Raises InvalidInput."""
    return _text(params, "taskId", required=True), _text(params, "id")


def history_of(params: Mapping[str, Any], where: str = "") -> int | None:
    """Return the number of messages of the history that a client wants at most; None: all."""
    return _number(params, "historyLength", 0, None, where)


def _part(part: Any, where: str) -> tuple[str, Any]:
    """Return the kind and the content of a part."""
    kinds = [kind for kind in _CONTENT if kind in part] if isinstance(part, Mapping) else []
    if len(kinds) != 1:
        raise invalid_param(f"{where} must have one of {', '.join(_CONTENT)}.", where)
    kind = kinds[0]
    if kind == "url":
        raise ContentTypeNotSupported("This server fetches no addresses: send the file as `raw`.", param=f"{where}.url")
    if kind == "data":
        return kind, part["data"]
    if not isinstance(part[kind], str):
        raise invalid_param(f"{where}.{kind} must be a string.", f"{where}.{kind}")
    if kind == "text":
        return kind, part["text"]
    name, data = _text(part, "filename", where), _bytes(part["raw"], f"{where}.raw")
    return kind, LoadedPart("file", "", name, len(data), "", "", data=data)


def _bytes(text: str, where: str) -> bytes:
    """Return the bytes of a base64 text: of either alphabet, with or without padding, as ProtoJSON reads it."""
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise invalid_param(f"{where} must be base64.", where) from None


def _object(params: Mapping[str, Any], name: str, *, required: bool = True) -> Mapping[str, Any]:
    value = params.get(name)
    if value is None and not required:
        return {}
    if not isinstance(value, Mapping):
        raise invalid_param(f"{name} must be an object.", name)
    return value


def _text(
    params: Mapping[str, Any], name: str, where: str = "", *, required: bool = False, longest: int = LONGEST_ID
) -> str:
    value, path = params.get(name) or "", f"{where}.{name}" if where else name
    if not isinstance(value, str) or len(value) > longest or (required and not value):
        raise invalid_param(f"{path} must be a string of {int(required)} to {longest} characters.", path)
    return value


def _number(params: Mapping[str, Any], name: str, least: int, most: int | None, where: str = "") -> int | None:
    value, path = params.get(name), f"{where}.{name}" if where else name
    if value is None:
        return None
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number or value < least or (most is not None and value > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise invalid_param(f"{path} must be an integer {limits}.", path)
    return int(value)


def _flag(params: Mapping[str, Any], name: str, where: str = "") -> bool:
    value, path = params.get(name), f"{where}.{name}" if where else name
    if value not in (None, True, False, "true", "false"):
        raise invalid_param(f"{path} must be true or false.", path)
    return value in (True, "true")


def _moment(text: str, path: str) -> datetime:
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise invalid_param(f"{path} must be a time such as 2026-03-01T09:30:00Z.", path)
    return moment


def answer_of(request: SendRequest) -> str:
    """Return the text that answers a question: the texts, or `answer` of a data part. Raises InvalidInput.

    A form of several questions is answered by a line each; `answer` may be a list of them.
    """
    values = [value.get("answer") if isinstance(value, Mapping) else value for value in request.data]
    if not values:
        return request.text
    given = [line for value in values for line in (value if isinstance(value, list) else [value])]
    lines = [" ".join(line.split()) for line in given if isinstance(line, str) and line.strip()]
    if len(lines) < len(given):
        raise InvalidInput("The data must have `answer`: a text, or a list of texts.", code="invalid_answer")
    return "\n".join(lines)
