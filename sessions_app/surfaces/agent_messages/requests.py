"""Request bodies of the protocol, checked, in our own terms. Pure.

Keys that the protocol does not have are refused. What would promise something that nobody here does is refused too,
in clear words, instead of being read over.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agents_app.types import RunOptions
from audit_app.kernel.errors import InvalidInput

LONGEST_TEXT = 200_000
_LONGEST_LINE = 200
_TEXT_KEYS = ("task", "user_prompt", "prompt", "message", "question", "query", "text", "input", "instruction")
_TOOL_NAME = re.compile(r"[\w.:*?-]{1,120}", re.ASCII)

_KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "flag": (bool,),
    "number": (int, float),
    "object": (dict,),
    "list": (list,),
}
# Of a request to start: what it may hold, and whether the run is shown with it later.
_SHOWN = {
    "data": "object",
    "config": "object",
    "tool_approval_mode": "text",
    "tool_names": "list",
    "initial_skills": "list",
    "excluded_tools": "list",
    "collection_id": "text",
    "disabled_mcp_collections": "list",
    "visibility": "text",
    "tags": "list",
    "categories": "list",
    "properties": "object",
    "source": "object",
    "source_type": "text",
    "type": "text",
    "topic": "text",
    "generate_topic": "flag",
    "generate_lessons": "flag",
}
_TAKEN = {
    "interaction": "text",
    "interactive": "flag",
    "title": "text",
    "search_scope": "text",
    "checkpoint_tokens": "number",
    "checkpoint": "object",
    "max_iterations": "number",
    "debug_mode": "flag",
    "started_by": "text",
    "user_channels": "list",
    "notify_endpoints": "list",
    "initial_tool_calls": "list",
    "schedule_id": "text",
    "content_type": "object",
}
_PROMISES = {
    "notify_endpoints": "Nobody is notified of an agent run's end; watch its stream, or ask for it.",
    "initial_tool_calls": "Tools are called by the agent alone, under its policy.",
    "schedule_id": "Schedules are not started from here.",
    "content_type": "There are no content types here.",
}
_MODES = ("ask", "auto_review", "full_control")
_VISIBILITIES = ("private", "project")


class UnknownKey(InvalidInput):
    """The body has a key that is not known here."""

    code = "unknown_key"


@dataclass(frozen=True)
class Start:
    """interaction: the agent's name as the client gave it; text: the first message, empty for none yet; shown: what the
    run repeats of the request."""

    interaction: str
    text: str
    is_interactive: bool
    title: str
    shown: Mapping[str, Any]


@dataclass(frozen=True)
class UserInput:
    """ack: the client's id of the message; request_id: what it answers; decision: on a request for approval."""

    text: str
    ack: str = ""
    request_id: str = ""
    decision: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


def read_start(body: Any) -> Start:
    """Of a request to start an agent run. Raises InvalidInput."""
    body = checked(body, {**_SHOWN, **_TAKEN})
    for name, why in _PROMISES.items():
        if body.get(name):
            raise InvalidInput(f"{name}: {why}", code="unsupported_option", param=name)
    if any(isinstance(channel, dict) and channel.get("type") == "email" for channel in body.get("user_channels", ())):
        raise InvalidInput("user_channels: e-mail is a channel of its own here.", code="unsupported_option")
    interaction = body.get("interaction", "").strip()
    if not interaction:
        raise InvalidInput("interaction names the agent.", code="interaction_required", param="interaction")
    _one_of(body, "tool_approval_mode", _MODES)
    _one_of(body, "visibility", _VISIBILITIES)
    text = text_of(body.get("data", {}))
    is_interactive = body.get("interactive", False)
    if not text and not is_interactive:
        raise InvalidInput("data says nothing to work on, such as a task.", code="text_required", param="data")
    options_of(body)
    shown = {name: body[name] for name in _SHOWN if name in body}
    return Start(interaction, text, is_interactive, body.get("title", "").strip()[:_LONGEST_LINE], shown)


def text_of(data: Mapping[str, Any]) -> str:
    """What the agent is asked to do: the field that says it, else the whole of the data."""
    for name in _TEXT_KEYS:
        said = data.get(name)
        if isinstance(said, str) and said.strip():
            rest = {key: value for key, value in data.items() if key != name and value not in (None, "", [], {})}
            return f"{said.strip()}\n\n{_as_json(rest)}" if rest else said.strip()
    texts = [value for value in data.values() if isinstance(value, str) and value.strip()]
    if len(data) == 1 and texts:
        return texts[0].strip()
    return _as_json(data) if data else ""


def denied_tools(shown: Mapping[str, Any], offered: Iterable[str]) -> list[str]:
    """What the run must not call, as patterns. offered: names of all tools that the agent has.

    `tool_names` with a sign takes from those that the agent has, or adds to what is left; without one it is the whole
    list. Nothing here gives an agent a tool that it has not.
    """
    names = [name for name in shown.get("tool_names", ()) if isinstance(name, str)]
    denied = {name for name in shown.get("excluded_tools", ()) if isinstance(name, str)}
    denied |= {name[1:] for name in names if name.startswith("-")}
    listed = {name for name in names if name[:1] not in ("+", "-")}
    if listed:
        denied |= set(offered) - listed - {name[1:] for name in names if name.startswith("+")}
    for server in shown.get("disabled_mcp_collections", ()):
        denied.add(f"mcp__{re.sub(r'[^A-Za-z0-9_-]', '_', str(server))}__*")
    return sorted(name for name in denied if _TOOL_NAME.fullmatch(name))


def read_user_input(body: Any) -> UserInput:
    """Of the signal `UserInput`. Raises InvalidInput."""
    body = as_object(body)
    text, ack = body.get("message"), body.get("client_message_id") or ""
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("message is a text.", code="text_required", param="message")
    if not isinstance(ack, str) or len(ack) > _LONGEST_LINE:
        raise InvalidInput(f"client_message_id has at most {_LONGEST_LINE} characters.", param="client_message_id")
    metadata = body.get("metadata", {})
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, dict):
        raise InvalidInput("metadata is an object.", param="metadata")
    metadata = clean(metadata)
    response, approval = metadata.get("request_input_response"), metadata.get("tool_approval_response")
    request_id = response.get("request_id") if isinstance(response, dict) else ""
    decision = approval.get("decision") if isinstance(approval, dict) else ""
    return UserInput(
        clean(text),
        clean(ack),
        request_id if isinstance(request_id, str) else "",
        decision if isinstance(decision, str) else "",
        metadata,
    )


def checked(body: Any, known: Mapping[str, str]) -> dict[str, Any]:
    """The body if it is an object of known keys with values of their kinds; those that are null are left out."""
    body = clean(as_object(body))
    for name, value in body.items():
        if name not in known:
            raise UnknownKey(f"{name!r} is not known here.", param=name)
        kinds = _KINDS[known[name]]
        if value is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            raise InvalidInput(f"{name} has to be a {known[name]}.", code="invalid_value", param=name)
    return {name: value for name, value in body.items() if value is not None}


def as_object(body: Any) -> dict[str, Any]:
    """An empty body says nothing, as an empty object does."""
    if body is None or body == "":
        return {}
    if not isinstance(body, dict):
        raise InvalidInput("The body is a JSON object.", code="invalid_body")
    return dict(body)


def clean(value: Any) -> Any:
    """A JSON value as every database takes it. Raises InvalidInput for half a character."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidInput("A text has half a character.", code="invalid_text") from None
        return value.replace("\0", "")
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item) for item in value]
    return value


def read_since(text: str) -> float:
    """A `since`, 0 for none. Raises InvalidInput."""
    try:
        since = float(text) if text else 0.0
    except ValueError:
        since = -1.0
    if not 0 <= since < 1e15:
        raise InvalidInput("since is a time in milliseconds since 1970.", code="invalid_since", param="since")
    return since


def options_of(request: Mapping[str, Any]) -> RunOptions:
    """What a request to start asks of the model, in every turn of the run. Raises InvalidInput."""
    wishes = (request.get("config") or {}).get("model_options")
    wishes = wishes if isinstance(wishes, dict) else {}
    temperature, most = wishes.get("temperature"), wishes.get("max_tokens")
    is_number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    if temperature is not None and not (is_number and 0 <= temperature <= 2):
        raise InvalidInput("config.model_options.temperature is a number from 0 to 2.", param="config")
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise InvalidInput("config.model_options.max_tokens is a whole number of at least 1.", param="config")
    return RunOptions(temperature=None if temperature is None else float(temperature), max_output_tokens=most)


def _one_of(body: Mapping[str, Any], name: str, allowed: tuple[str, ...]) -> None:
    if name in body and body[name] not in allowed:
        raise InvalidInput(f"{name} is one of {', '.join(allowed)}.", code="invalid_value", param=name)


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
