"""Compares the payloads of emitted events with their declarations, and builds payloads that fit them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from audit_app.event_types import EventType, NewEvent
from audit_app.stream import LiveStream


def problems_of(event_type: EventType[Any], payload: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each way in which the payload differs from its declaration."""
    return [f"{event_type.name}: {problem}" for problem in _differences(event_type.declared, payload)]


def sample_payload(event_type: EventType[Any], **payload: Any) -> dict[str, Any]:
    """Return a payload that fits the declaration: empty values for the required keys that are not given."""
    hints = get_type_hints(event_type.declared)
    return {key: _empty(hints[key]) for key in event_type.declared.__required_keys__ - payload.keys()} | payload


@contextmanager
def recorded_problems() -> Iterator[list[str]]:
    """Compare every event that this process builds, stored or live only; yield the list of problems."""
    problems: list[str] = []
    build, append, append_text = NewEvent.__init__, LiveStream.append, LiveStream.append_text

    def checked_build(self: NewEvent, /, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        problems.extend(problems_of(self.type, self.payload))

    def checked_append(self: LiveStream, event_type: EventType[Any], payload: Any, **kwargs: Any) -> None:
        problems.extend(problems_of(event_type, payload))
        append(self, event_type, payload, **kwargs)

    def checked_append_text(self: LiveStream, event_type: EventType[Any], step: int, offset: int, text: str) -> None:
        problems.extend(problems_of(event_type, {"offset": offset, "text": text}))
        append_text(self, event_type, step, offset, text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NewEvent, "__init__", checked_build)
        patch.setattr(LiveStream, "append", checked_append)
        patch.setattr(LiveStream, "append_text", checked_append_text)
        yield problems


def _differences(declared: Any, payload: Mapping[str, Any]) -> Iterator[str]:
    hints = get_type_hints(declared)
    yield from (f"unknown key {key!r}" for key in payload.keys() - hints.keys())
    yield from (f"missing key {key!r}" for key in declared.__required_keys__ - payload.keys())
    for key in hints.keys() & payload.keys():
        if not _fits(payload[key], hints[key]):
            yield f"{key!r} is {payload[key]!r}, declared as {hints[key]}"


def _fits(value: Any, declared: Any) -> bool:
    """Compare as deep as the declaration goes. A bool is no number; an int is a float."""
    if is_typeddict(declared):
        return isinstance(value, dict) and not list(_differences(declared, value))
    kind, arguments = get_origin(declared) or declared, get_args(declared)
    if kind is Any:
        return True
    if kind is UnionType:
        return any(_fits(value, each) for each in arguments)
    if kind in (int, float):
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    items = value if kind is list and isinstance(value, list) else ()
    return isinstance(value, kind) and all(_fits(item, arguments[0]) for item in items)


def _empty(declared: Any) -> Any:
    if is_typeddict(declared):
        return {key: _empty(each) for key, each in get_type_hints(declared).items()}
    if declared is Any or NoneType in get_args(declared):
        return None
    return (get_origin(declared) or declared)()
