"""Request bodies of Chat Completions and Responses, checked, as one class. Pure.

Sampling parameters other than `temperature` and the token limit are ignored, as other servers of this protocol do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents_app.structured_output import check_schema
from agents_app.types import LoadedPart, Message, RunOptions
from audit_app.kernel.errors import InvalidInput
from sessions_app.surfaces.base.function_tools import ToolOutput, invalid_param
from sessions_app.surfaces.base.message_files import files_of
from sessions_app.surfaces.openai.chat_messages import (
    join_texts,
    outputs_at_end,
    read_conversation,
    read_messages,
    split_instructions,
)
from sessions_app.surfaces.openai.client_tools import read_tools

LONGEST_TEXT = 200_000
NAME = "openai"  # the key of this surface's data in sessions and runs
LABELS = ("safety_identifier", "prompt_cache_key", "user")
_MOST_LABELS, LONGEST_LABEL = 16, 512


@dataclass(frozen=True)
class ParsedRequest:
    """A request for an answer.

    model: the public id of an agent.
    text: the user messages to answer, as one.
    files: files of these messages, with their bytes.
    outputs: instead of user messages, the outputs of the client's tools to continue with. They end the history, too.
    history: the messages before, as the client sent them.
    include_usage: send the usage at the end of a stream.
    session: id or public id of the session to continue, or empty.
    previous: id of the response to continue, or empty.
    conversation: id of the conversation to continue, or empty.
    store: the client may read and continue the response by its id later.
    keeps_previous: `previous` is a response that is not stored, which the client's connection keeps.
    background: answer at once; the client fetches the response later.
    """

    model: str
    text: str
    options: RunOptions
    history: tuple[Message, ...] = ()
    files: tuple[LoadedPart, ...] = ()
    outputs: tuple[ToolOutput, ...] = ()
    stream: bool = False
    include_usage: bool = False
    session: str = ""
    previous: str = ""
    conversation: str = ""
    store: bool = True
    keeps_previous: bool = False
    background: bool = False


def read_completion(body: Any) -> ParsedRequest:
    """Check the body of `POST /v1/chat/completions`. Raises InvalidInput."""
    body = _object(body)
    if body.get("n") not in (None, 1):
        raise invalid_param("n must be 1: an agent gives one answer.", "n", "unsupported_value")
    history, messages = read_conversation(body.get("messages"), "messages")
    instructions, history = split_instructions(history)
    client_tools, tool_choice = read_tools(body)
    metadata, stream_options = read_metadata(body), body.get("stream_options") or {}
    options = RunOptions(
        instructions=instructions,
        output_schema=_schema(body.get("response_format"), "response_format", inner="json_schema"),
        temperature=_temperature(body),
        max_output_tokens=_max_tokens(body, "max_completion_tokens") or _max_tokens(body, "max_tokens"),
        client_tools=client_tools,
        tool_choice=tool_choice,
    )
    return ParsedRequest(
        model=_model(body),
        text=join_texts(messages),
        files=files_of(messages),
        outputs=() if messages else outputs_at_end(history),
        options=options,
        history=history,
        stream=bool(body.get("stream")),
        include_usage=isinstance(stream_options, Mapping) and bool(stream_options.get("include_usage")),
        session=metadata.get("session_id", ""),
    )


def read_response(body: Any) -> ParsedRequest:
    """Check the body of `POST /v1/responses`. Raises InvalidInput."""
    body = _object(body)
    history, messages = read_conversation(_items(body), "input")
    return _response_request(body, history, messages)


def read_warm_up(body: Any) -> ParsedRequest:
    """Check the body of a request that prepares a later one, and may have any input. Raises InvalidInput."""
    body = _object(body)
    messages = read_messages(_items(body), "input") if body.get("input") else ()
    return _response_request(body, messages, ())


def read_window(body: Any, *, needs_model: bool = True) -> ParsedRequest:
    """Check the body of a request about a conversation that is not to be answered: all its messages are history.

    needs_model: the model must be named. Without it, the agent of the conversation before is meant.
    Raises InvalidInput.
    """
    body = _object(body)
    continued = body.get("previous_response_id") or body.get("conversation")
    messages = () if continued and body.get("input") is None else read_messages(_items(body), "input")
    return _response_request(body, messages, (), needs_model=needs_model or not continued)


def _items(body: Mapping[str, Any]) -> Any:
    given = body.get("input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _response_request(
    body: Mapping[str, Any], history: Sequence[Message], messages: Sequence[Message], *, needs_model: bool = True
) -> ParsedRequest:
    if body.get("prompt"):
        message = "prompt is not supported: write the text of the prompt into instructions or input."
        raise invalid_param(message, "prompt", "unsupported_parameter")
    system, history = split_instructions(history)
    client_tools, tool_choice = read_tools(body)
    metadata, previous = read_metadata(body), body.get("previous_response_id") or ""
    if not isinstance(previous, str):
        raise invalid_param("previous_response_id must be a string.", "previous_response_id")
    conversation = _conversation(body)
    named = {"previous_response_id": previous, "metadata.session_id": metadata.get("session_id")}
    for other in (name for name, value in named.items() if conversation and value):
        raise invalid_param(f"Send either conversation or {other}, not both.", "conversation")
    text = body.get("text") or {}
    background = bool(body.get("background"))
    store = _store(body, {"background": background, "conversation": conversation, **named})
    noted: dict[str, Any] = {"background": background, "previous": previous}
    noted |= {"conversation": conversation} if conversation else {}
    noted |= {} if store else {"store": False}
    options = RunOptions(
        instructions="\n\n".join(filter(None, [_instructions(body), system])),
        output_schema=_schema(text.get("format") if isinstance(text, Mapping) else None, "text.format"),
        temperature=_temperature(body),
        max_output_tokens=_max_tokens(body, "max_output_tokens"),
        client_tools=client_tools,
        tool_choice=tool_choice,
        note={NAME: {**noted, "metadata": metadata, **_labels(body)}},
    )
    return ParsedRequest(
        model=_model(body) if needs_model or body.get("model") else "",
        text=join_texts(messages),
        files=files_of(messages),
        outputs=() if messages else outputs_at_end(history),
        options=options,
        history=history,
        stream=bool(body.get("stream")),
        session=metadata.get("session_id", ""),
        previous=previous,
        conversation=conversation,
        store=store,
        background=background,
    )


def _object(body: Any) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        raise InvalidInput("The body must be a JSON object.", code="invalid_body")
    return body


def _model(body: Mapping[str, Any]) -> str:
    model = body.get("model")
    if not isinstance(model, str) or not model:
        message = "model must be the id of an agent; GET /v1/models lists them."
        raise invalid_param(message, "model", "missing_required_parameter")
    return model


def _instructions(body: Mapping[str, Any]) -> str:
    instructions = body.get("instructions") or ""
    if not isinstance(instructions, str) or len(instructions) > LONGEST_TEXT:
        raise invalid_param(f"instructions must be a string of at most {LONGEST_TEXT:,} characters.", "instructions")
    return instructions


def _conversation(body: Mapping[str, Any]) -> str:
    """Return the id of the conversation that a request names: a string, or an object with the id."""
    given = body.get("conversation") or ""
    found = given.get("id") if isinstance(given, Mapping) else given
    if not isinstance(found, str):
        raise invalid_param("conversation must be the id of a conversation, or an object with it.", "conversation")
    return found


def _store(body: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """Return whether a response is stored. stored: parameters that say so, by their names."""
    store = body.get("store", True)
    if store is None or store is True:
        return True
    if store is not False:
        raise invalid_param("store must be true or false.", "store")
    for name in ("background", "conversation", "metadata.session_id"):
        if stored.get(name):
            raise invalid_param(f"store must be true with {name}, which is for stored responses.", "store")
    return False


def read_metadata(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels in `metadata`. Raises InvalidInput."""
    metadata = body.get("metadata") or {}
    fits = isinstance(metadata, Mapping) and len(metadata) <= _MOST_LABELS
    if not fits or not all(isinstance(value, str) and len(value) <= LONGEST_LABEL for value in metadata.values()):
        message = f"metadata must have at most {_MOST_LABELS} strings of at most {LONGEST_LABEL} characters."
        raise invalid_param(message, "metadata")
    return dict(metadata)


def _labels(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts by which a client labels its request; the response repeats them."""
    given = {name: body[name] for name in LABELS if body.get(name) is not None}
    for name, label in given.items():
        if not isinstance(label, str) or len(label) > LONGEST_LABEL:
            raise invalid_param(f"{name} must be a string of at most {LONGEST_LABEL} characters.", name)
    return given


def _temperature(body: Mapping[str, Any]) -> float | None:
    value = body.get("temperature")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2:
        raise invalid_param("temperature must be a number from 0 to 2.", "temperature")
    return float(value)


def _max_tokens(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise invalid_param(f"{name} must be a whole number of at least 1.", name)
    return value


def _schema(given: Any, param: str, inner: str = "") -> dict[str, Any] | None:
    """Return the JSON Schema for the answer, None for plain text. inner: the key that holds it, if nested."""
    if given is None:
        return None
    kind = given.get("type") if isinstance(given, Mapping) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    holder = given.get(inner) if kind == "json_schema" and inner else given
    schema = holder.get("schema") if kind == "json_schema" and isinstance(holder, Mapping) else None
    if not isinstance(schema, Mapping):
        raise invalid_param(f"{param} must be of type text, json_object, or json_schema with a schema.", param)
    try:
        return check_schema(dict(schema))
    except InvalidInput as error:
        raise invalid_param(error.message, param, "invalid_json_schema") from None
