"""References to values, such as `tasks.triage.output.category`, in prompts and conditions of a network. Pure.

Roots: `message` and `context` of the call, `tasks.NAME` and `previous.NAME` (in the run of a loop before this one) with
the fields `text`, `output`, `status` and `error`, and `item` and `index` of a map.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agents_app.networks.definition import Condition, Operator

ROOTS = ("message", "context", "tasks", "previous", "item", "index")
FIELDS = ("text", "output", "status", "error")
_MARKER = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_PATH = re.compile(r"[\w-]+(\.[\w-]+)*")
_ABSENT: Any = object()
_SKIPPED = {"text": "", "output": None, "status": "skipped", "error": ""}


class MissingValue(ValueError):
    """A reference to a value that is not there."""


@dataclass(frozen=True)
class Values:
    """The values that one task can refer to.

    tasks, previous: {name: {text, output, status, error}}, for the tasks before it
    item, index: of a map; index from 0
    """

    message: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    previous: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    item: Any = None
    index: int | None = None


def find(prompt: str) -> Iterator[str]:
    """Yield the references in a text."""
    yield from (match[1] for match in _MARKER.finditer(prompt))


def find_in(value: Any) -> Iterator[str]:
    """Yield the references in the texts of a JSON value."""
    match value:
        case str():
            yield from find(value)
        case Mapping() | list():
            for one in value.values() if isinstance(value, Mapping) else value:
                yield from find_in(one)


def fault_of(path: str) -> str:
    """Return the fault in the form of a reference, as the end of a sentence; empty if there is none."""
    root, *rest = path.split(".")
    if not _PATH.fullmatch(path) or root not in ROOTS:
        return f"{path!r} is not a reference: a reference begins with one of {', '.join(ROOTS)}"
    if root in ("tasks", "previous") and (len(rest) < 2 or rest[1] not in FIELDS):
        return f"{path!r} needs a task and a field, such as {root}.NAME.output; fields: {', '.join(FIELDS)}"
    return ""


def task_of(path: str) -> str:
    """Return the name of the task that a reference is about; empty if it is about none."""
    root, *rest = path.split(".")
    return rest[0] if root == "tasks" and rest else ""


def value_at(values: Values, path: str) -> Any:
    """Return the value of a reference. Raises MissingValue.

    A task without an output, because it was skipped or has failed, has an empty text.
    """
    root, *rest = path.split(".")
    found = getattr(values, root)
    if root in ("tasks", "previous"):
        found, rest = found.get(rest[0], _SKIPPED), rest[1:]
        if found["output"] is None and rest[0] in ("text", "output"):
            return ""
    for name in rest:
        found = _member(found, name)
        if found is _ABSENT:
            raise MissingValue(f"there is no value for {path}")
    return found


def render(prompt: str, values: Values) -> str:
    """Return the text with the value of each reference. Raises MissingValue."""
    return _MARKER.sub(lambda match: as_text(value_at(values, match[1])), prompt)


def resolve(value: Any, values: Values) -> Any:
    """Return a JSON value with its references resolved. Raises MissingValue.

    A text that is one reference becomes its value, of any type; others are rendered.
    """
    match value:
        case str():
            whole = _MARKER.fullmatch(value)
            return value_at(values, whole[1]) if whole and len([*find(value)]) == 1 else render(value, values)
        case Mapping():
            return {key: resolve(one, values) for key, one in value.items()}
        case list():
            return [resolve(one, values) for one in value]
    return value


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def holds(condition: Condition, values: Values) -> bool:
    """Return whether a condition holds. A value that is missing, or of another type, meets none but NOT_EQUALS."""
    try:
        found = value_at(values, condition.path)
    except MissingValue:
        found = None
    wanted = condition.value
    try:
        match condition.operator:
            case Operator.EXISTS:
                return (found not in (None, "")) is bool(wanted)
            case Operator.EQUALS:
                return bool(found == wanted)
            case Operator.NOT_EQUALS:
                return bool(found != wanted)
            case Operator.IN:
                return found in wanted
            case Operator.CONTAINS:
                return wanted in found
            case Operator.GREATER_THAN:
                return bool(found > wanted)
            case Operator.LESS_THAN:
                return bool(found < wanted)
    except TypeError:
        return False


def _member(found: Any, name: str) -> Any:
    if isinstance(found, Mapping):
        return found.get(name, _ABSENT)
    if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
        return found[int(name)]
    return _ABSENT
