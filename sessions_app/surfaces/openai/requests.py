"""Request bodies of the protocol, checked, as one kind of question. Pure.

What shapes sampling beyond temperature and length is read over, as other servers of this protocol do.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents_app.types import Message, RunOptions
from audit_app.kernel.errors import InvalidInput
from sessions_app.surfaces.openai.chat_messages import instructions_of, read_conversation, refuse, words_of

LONGEST_TEXT = 200_000
NAME = "openai"  # of what this surface keeps beside sessions and runs
_MOST_LABELS, _LONGEST_LABEL = 16, 512


@dataclass(frozen=True)
class Question:
    """model: an agent's public id; history: what the client says was said before; session: the session to go on in, by
    id or public id; previous: the response to go on from."""

    model: str
    text: str
    options: RunOptions
    history: tuple[Message, ...] = ()
    stream: bool = False
    tells_usage: bool = False
    session: str = ""
    previous: str = ""
    background: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)


def read_completion(body: Any) -> Question:
    """Of `POST /v1/chat/completions`. Raises InvalidInput."""
    body = _object(body)
    _refuse_tools(body, "tools", "functions")
    if body.get("n") not in (None, 1):
        raise refuse("One choice is given: n is 1.", "n", "unsupported_value")
    history, asked = read_conversation(body.get("messages"), "messages")
    instructions, history = instructions_of(history)
    metadata = _metadata(body)
    options = RunOptions(
        instructions=instructions,
        output_schema=_schema(body.get("response_format"), "response_format", inner="json_schema"),
        temperature=_temperature(body),
        max_output_tokens=_most_tokens(body, "max_completion_tokens") or _most_tokens(body, "max_tokens"),
    )
    wishes = body.get("stream_options") or {}
    return Question(
        model=_model(body),
        text=words_of(asked),
        options=options,
        history=history,
        stream=bool(body.get("stream")),
        tells_usage=isinstance(wishes, Mapping) and bool(wishes.get("include_usage")),
        session=metadata.get("session_id", ""),
        metadata=metadata,
    )


def read_response(body: Any) -> Question:
    """Of `POST /v1/responses`. Raises InvalidInput."""
    body = _object(body)
    _refuse_tools(body, "tools")
    asked = body.get("input")
    items = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    history, words = read_conversation(items, "input")
    given, history = instructions_of(history)
    metadata, previous = _metadata(body), body.get("previous_response_id") or ""
    if not isinstance(previous, str):
        raise refuse("previous_response_id is a text.", "previous_response_id")
    text = body.get("text") or {}
    background = bool(body.get("background"))
    note = {NAME: {"background": background, "previous": previous, "metadata": metadata}}
    options = RunOptions(
        instructions="\n\n".join(filter(None, [_instructions(body), given])),
        output_schema=_schema(text.get("format") if isinstance(text, Mapping) else None, "text.format"),
        temperature=_temperature(body),
        max_output_tokens=_most_tokens(body, "max_output_tokens"),
        note=note,
    )
    return Question(
        model=_model(body),
        text=words_of(words),
        options=options,
        history=history,
        stream=bool(body.get("stream")),
        session=metadata.get("session_id", ""),
        previous=previous,
        background=background,
        metadata=metadata,
    )


def _object(body: Any) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        raise InvalidInput("The body is a JSON object.", code="invalid_body")
    return body


def _model(body: Mapping[str, Any]) -> str:
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise refuse("model names an agent; GET /v1/models lists them.", "model", "missing_required_parameter")
    return model


def _instructions(body: Mapping[str, Any]) -> str:
    instructions = body.get("instructions") or ""
    if not isinstance(instructions, str) or len(instructions) > LONGEST_TEXT:
        raise refuse(f"instructions is a text of at most {LONGEST_TEXT:,} characters.", "instructions")
    return instructions


def _refuse_tools(body: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if body.get(name) and body.get("tool_choice") != "none":
            raise refuse(
                "Tools run on this side: give them to the agent instead of sending them.", name, "unsupported_parameter"
            )


def _metadata(body: Mapping[str, Any]) -> dict[str, str]:
    metadata = body.get("metadata") or {}
    fits = isinstance(metadata, Mapping) and len(metadata) <= _MOST_LABELS
    if not fits or not all(isinstance(value, str) and len(value) <= _LONGEST_LABEL for value in metadata.values()):
        raise refuse(f"metadata has at most {_MOST_LABELS} texts of at most {_LONGEST_LABEL} characters.", "metadata")
    return dict(metadata)


def _temperature(body: Mapping[str, Any]) -> float | None:
    value = body.get("temperature")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2:
        raise refuse("temperature is a number from 0 to 2.", "temperature")
    return float(value)


def _most_tokens(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise refuse(f"{name} is a whole number of at least 1.", name)
    return value


def _schema(wish: Any, param: str, inner: str = "") -> dict[str, Any] | None:
    """The JSON Schema that the answer is to fit; None for plain text."""
    if wish is None:
        return None
    kind = wish.get("type") if isinstance(wish, Mapping) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    schema = (wish.get(inner) or {} if inner else wish).get("schema") if kind == "json_schema" else None
    if not isinstance(schema, Mapping):
        raise refuse(f"{param} is text, json_object, or json_schema with its schema.", param)
    return dict(schema)
