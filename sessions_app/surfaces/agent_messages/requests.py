"""Request bodies of the protocol: validation, and their fields in the terms of this server. Pure.

Unknown keys are refused, and so are options that this server does not implement.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agents_app.structured_output import check_schema
from agents_app.types import RunOptions
from audit_app.kernel.errors import InvalidInput
from sessions_app.surfaces.agent_messages.wire_format import MAIN
from sessions_app.surfaces.base.bodies import clean

LONGEST_TEXT = 200_000
_LONGEST_LINE = 200
_TEXT_KEYS = ("task", "user_prompt", "prompt", "message", "question", "query", "text", "input", "instruction")
_TOOL_NAME = re.compile(r"[\w.:*?-]{1,120}", re.ASCII)

_TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "boolean": (bool,), "object": (dict,), "array": (list,)}
_TYPES["number"] = (int, float)
# Fields of a start request, with their JSON types: those that the run repeats, and the others.
_TOOL_LISTS = ("tool_names", "initial_skills", "excluded_tools", "disabled_mcp_collections")
_SHOWN = {
    **dict.fromkeys(("data", "config", "properties", "source"), "object"),
    **dict.fromkeys(("tool_approval_mode", "collection_id", "visibility", "source_type", "type", "topic"), "string"),
    **dict.fromkeys((*_TOOL_LISTS, "tags", "categories"), "array"),
    **dict.fromkeys(("generate_topic", "generate_lessons"), "boolean"),
    "max_iterations": "number",
}
_OTHERS = {
    **dict.fromkeys(("interaction", "title", "search_scope", "started_by", "schedule_id"), "string"),
    **dict.fromkeys(("interactive", "debug_mode"), "boolean"),
    "checkpoint_tokens": "number",
    **dict.fromkeys(("checkpoint", "content_type"), "object"),
    **dict.fromkeys(("user_channels", "notify_endpoints", "initial_tool_calls"), "array"),
}
NO_CHECKPOINTS = (
    "The operator configures when conversations are summarised. Send the signal TriggerCheckpoint for one now."
)
_UNSUPPORTED = {
    "notify_endpoints": "This server sends no notifications about agent runs. Watch the run's stream, or poll it.",
    "initial_tool_calls": "Only the agent calls tools, under its policy.",
    "schedule_id": "This server does not start agent runs on a schedule.",
    "content_type": "This server has no content types.",
    "checkpoint": NO_CHECKPOINTS,
    "checkpoint_tokens": NO_CHECKPOINTS,
    "search_scope": "This server has no search over documents.",
    "initial_skills": "Skills are enabled with the agent, for all its runs.",
}
MODES = ("ask", "auto_review", "full_control")  # of the approval of tool calls
_VISIBILITIES = ("private", "project")


class UnknownKey(InvalidInput):
    """The body has a key that this server does not know."""

    code = "unknown_key"


@dataclass(frozen=True)
class Start:
    """A request to start an agent run. interaction: the agent's name as the client gave it.

    text: the first message, empty for none.
    shown: the fields of the request that the run repeats.
    """

    interaction: str
    text: str
    is_interactive: bool
    title: str
    shown: Mapping[str, Any]


@dataclass(frozen=True)
class UserInput:
    """The signal of that name. ack: the client's id of the message.

    request_id: the input request that it answers.
    decision: on an approval request.
    workstream: to which the message goes; empty: the main agent.
    """

    text: str
    ack: str = ""
    request_id: str = ""
    decision: str = ""
    workstream: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


def read_start(body: Any) -> Start:
    """Return the validated request to start an agent run. Raises InvalidInput."""
    body = checked(body, {**_SHOWN, **_OTHERS})
    for name, why in _UNSUPPORTED.items():
        if body.get(name):
            raise InvalidInput(f"`{name}` is not supported. {why}", code="unsupported_option", param=name)
    if any(isinstance(channel, dict) and channel.get("type") == "email" for channel in body.get("user_channels", ())):
        raise InvalidInput("`user_channels` cannot contain e-mail channels.", code="unsupported_option")
    interaction = body.get("interaction", "").strip()
    if not interaction:
        raise InvalidInput("`interaction` must name an agent.", code="interaction_required", param="interaction")
    _check_choice(body, "tool_approval_mode", MODES)
    _check_choice(body, "visibility", _VISIBILITIES)
    text = text_of(body.get("data", {}))
    is_interactive = body.get("interactive", False)
    if not text and not is_interactive:
        raise InvalidInput("`data` must contain a task, for example `data.task`.", code="text_required", param="data")
    options_of(body)
    shown = {name: body[name] for name in _SHOWN if name in body}
    return Start(interaction, text, is_interactive, body.get("title", "").strip()[:_LONGEST_LINE], shown)


def text_of(data: Mapping[str, Any]) -> str:
    """Return the task that `data` describes: the first of the known text fields, with the other data as JSON."""
    for name in _TEXT_KEYS:
        text = data.get(name)
        if isinstance(text, str) and text.strip():
            rest = {key: value for key, value in data.items() if key != name and value not in (None, "", [], {})}
            return f"{text.strip()}\n\n{_as_json(rest)}" if rest else text.strip()
    if len(data) == 1 and isinstance(text := next(iter(data.values())), str) and text.strip():
        return text.strip()
    return _as_json(data) if data else ""


def denied_tools(request: Mapping[str, Any], offered: Iterable[str]) -> list[str]:
    """Return the patterns of tools that a run must not call.

    Names in `tool_names` with "-" are removed from the agent's tools and those with "+" kept; names without a sign are
    the whole list. A request cannot give an agent more tools than it has.

    offered: names of all tools of the agent.
    """
    names = [name for name in request.get("tool_names", ()) if isinstance(name, str)]
    denied = {name for name in request.get("excluded_tools", ()) if isinstance(name, str)}
    denied |= {name[1:] for name in names if name.startswith("-")}
    listed = {name for name in names if name[:1] not in ("+", "-")}
    if listed:
        denied |= set(offered) - listed - {name[1:] for name in names if name.startswith("+")}
    for server in request.get("disabled_mcp_collections", ()):
        denied.add(f"mcp__{re.sub(r'[^A-Za-z0-9_-]', '_', str(server))}__*")
    return sorted(name for name in denied if _TOOL_NAME.fullmatch(name))


def read_user_input(body: Any) -> UserInput:
    """Return the validated body of the signal `UserInput`. Raises InvalidInput."""
    body = as_object(body)
    text, ack = body.get("message"), body.get("client_message_id") or ""
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("`message` must be a non-empty string.", code="text_required", param="message")
    if not isinstance(ack, str) or len(ack) > _LONGEST_LINE:
        message = f"`client_message_id` must be a string of at most {_LONGEST_LINE} characters."
        raise InvalidInput(message, param="client_message_id")
    workstream = body.get("workstream_id") or ""
    if not isinstance(workstream, str):
        raise InvalidInput("`workstream_id` must be a string.", param="workstream_id")
    metadata = {} if body.get("metadata") is None else body["metadata"]
    if not isinstance(metadata, dict):
        raise InvalidInput("`metadata` must be an object.", param="metadata")
    metadata = clean(metadata)
    request_id = _text_in(metadata, "request_input_response", "request_id")
    decision = _text_in(metadata, "tool_approval_response", "decision")
    workstream = "" if workstream == MAIN else workstream
    return UserInput(clean(text), clean(ack), request_id, decision, workstream, metadata)


def _text_in(metadata: Mapping[str, Any], name: str, key: str) -> str:
    """Return a string of an object in the metadata, empty if there is none."""
    found = metadata.get(name)
    text = found.get(key) if isinstance(found, dict) else ""
    return text if isinstance(text, str) else ""


def checked(body: Any, types: Mapping[str, str]) -> dict[str, Any]:
    """Return the body without null values. types: JSON type of each key. Raises UnknownKey, InvalidInput."""
    body = clean(as_object(body))
    for name, value in body.items():
        if name not in types:
            raise UnknownKey(f"Unknown key {name!r}.", param=name)
        allowed = _TYPES[types[name]]
        if value is not None and (not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed)):
            raise InvalidInput(f"`{name}` must be of type {types[name]}.", code="invalid_value", param=name)
    return {name: value for name, value in body.items() if value is not None}


def as_object(body: Any) -> dict[str, Any]:
    """Return the body, an empty object for an empty body. Raises InvalidInput for any other JSON value."""
    if body is None or body == "":
        return {}
    if not isinstance(body, dict):
        raise InvalidInput("The body must be a JSON object.", code="invalid_body")
    return dict(body)


def read_since(text: str) -> float:
    """Return the value of `since`, 0 if it is empty. Raises InvalidInput."""
    try:
        since = float(text) if text else 0.0
    except ValueError:
        since = -1.0
    if not 0 <= since < 1e15:
        raise InvalidInput("`since` must be a time in milliseconds since 1970.", code="invalid_since", param="since")
    return since


def options_of(request: Mapping[str, Any]) -> RunOptions:
    """Return the options of a start request, which hold for every turn of the run. Raises InvalidInput.

    `run_settings.check` checks whether the caller may choose the model.
    """
    config = request.get("config") or {}
    options, model = config.get("model_options"), config.get("model") or ""
    options = options if isinstance(options, dict) else {}
    for name in ("effort", "fast_mode"):
        if config.get(name):
            raise InvalidInput(f"`config.{name}` is not supported.", code="unsupported_option", param="config")
    if not isinstance(model, str) or len(model) > _LONGEST_LINE:
        message = f"`config.model` must be a string of at most {_LONGEST_LINE} characters."
        raise InvalidInput(message, code="invalid_value", param="config")
    rounds = request.get("max_iterations")
    if rounds is not None and (not isinstance(rounds, int) or rounds < 1):
        message = "`max_iterations` must be an integer of at least 1."
        raise InvalidInput(message, code="invalid_value", param="max_iterations")
    temperature, most = options.get("temperature"), options.get("max_tokens")
    schema = config.get("output_schema")
    is_number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    if temperature is not None and not (is_number and 0 <= temperature <= 2):
        raise InvalidInput("`config.model_options.temperature` must be a number from 0 to 2.", param="config")
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise InvalidInput("`config.model_options.max_tokens` must be an integer of at least 1.", param="config")
    return RunOptions(
        output_schema=None if schema is None else check_schema(schema),
        temperature=None if temperature is None else float(temperature),
        max_output_tokens=most,
        model=model,
        max_tool_rounds=rounds,
    )


def _check_choice(body: Mapping[str, Any], name: str, allowed: tuple[str, ...]) -> None:
    if name in body and body[name] not in allowed:
        raise InvalidInput(f"`{name}` must be one of {', '.join(allowed)}.", code="invalid_value", param=name)


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
