"""Networks as YAML: `load` reads a file and checks it, `dump` writes one. Pure.

A field that a file leaves out has its default. `tools`, `mcp_servers` and `memory` are `inherit`, `none` or a list.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from agents_app.networks.checks import check
from agents_app.networks.definition import Condition, Group, Loop, MapOver, Network, OnError, Operator, Task
from agents_app.yaml_documents import Document, Problem, UnusableFile, read, write
from tools_app.policy.scope import INHERIT, Scope, ScopeMode

FORMAT = 1
REFUSED = "The network cannot be used"
_NAMES = {"map_over": "map"}  # of fields whose name in a file differs
_CONDITION = "a value and one comparison, such as {value: tasks.triage.output.kind, equals: bill}"


def load(text: str) -> Network:
    """Return the network of a file. Raises UnusableFile with all problems and their lines."""
    return load_with_lines(text)[0]


def load_with_lines(text: str) -> tuple[Network, Document]:
    """Return the network of a file with the document, which has the line of each place. Raises UnusableFile."""
    document = read(text, REFUSED)
    reader = _Reader(document)
    network = reader.network(document.content)
    problems = reader.problems or [document.problem(fault.place, fault.message) for fault in check(network)]
    if problems:
        raise UnusableFile(problems, REFUSED)
    return network, document


def dump(network: Network) -> str:
    """Return the network as a file, without fields that have their default."""
    document: dict[str, Any] = {"format": FORMAT, **_fields_of(network)}
    document["tasks"] = [_entry(entry) for entry in network.tasks]
    return write(document)


def _entry(entry: Task | Group) -> dict[str, Any]:
    if isinstance(entry, Task):
        return _fields_of(entry)
    found: dict[str, Any] = {"parallel": entry.name}
    if entry.depends_on:
        found["depends_on"] = [*entry.depends_on]
    return found | {"tasks": [_fields_of(task) for task in entry.tasks]}


def _fields_of(item: Network | Task | Loop) -> dict[str, Any]:
    found = {}
    for one in fields(item):
        value = getattr(item, one.name)
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        if one.name != "tasks" and value != default:
            found[_NAMES.get(one.name, one.name)] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    match value:
        case Scope():
            return [*value.names] if value.mode is ScopeMode.LIST else value.mode.value
        case Condition():
            return {"value": value.path, value.operator.value: value.value}
        case Loop():
            return _fields_of(value)
        case MapOver():
            return {"items": value.items, "most": value.most}
        case tuple():
            return [*value]
        case OnError():
            return value.value
        case Mapping():
            return dict(value)
    return value


@dataclass
class _Reader:
    """Turns the content of a file into a network. What does not fit becomes a problem and keeps its default."""

    document: Document
    problems: list[Problem] = field(default_factory=list)

    def fault(self, place: str, message: str) -> None:
        self.problems.append(self.document.problem(place, message))

    def network(self, content: Any) -> Network:
        if not isinstance(content, dict):
            self.fault("", "it must be an object with `name` and `tasks`")
            return Network("", ())
        if content.get("format", FORMAT) != FORMAT:
            self.fault("format", f"it must be {FORMAT}")
        found = {name: value for name, value in content.items() if name not in ("format", "tasks")}
        tasks = content.get("tasks")
        if not isinstance(tasks, list):
            self.fault("tasks", "it must be a list of tasks")
        listed = tasks if isinstance(tasks, list) else []
        entries = tuple(self._entry(f"tasks[{number}]", entry) for number, entry in enumerate(listed))
        return Network(**{"name": "", **self._values("", found, Network), "tasks": entries})

    def _entry(self, place: str, entry: Any) -> Task | Group:
        if not isinstance(entry, dict) or "parallel" not in entry:
            return self._task(place, entry)
        for name in entry.keys() - {"parallel", "depends_on", "tasks"}:
            self.fault(f"{place}.{name}", "a group has no such field")
        depends_on = self._names(f"{place}.depends_on", entry.get("depends_on", []))
        tasks = entry.get("tasks")
        if not isinstance(tasks, list):
            self.fault(f"{place}.tasks", "it must be a list of tasks")
            tasks = []
        inner = tuple(self._task(f"{place}.tasks[{number}]", one) for number, one in enumerate(tasks))
        return Group(self._text(f"{place}.parallel", entry["parallel"]), inner, depends_on)

    def _task(self, place: str, entry: Any) -> Task:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            self.fault(place, "it must be an object with a `name`")
            return Task("")
        return Task(**{"name": "", **self._values(place, entry, Task)})

    def _values(self, place: str, entry: Mapping[Any, Any], kind: type[Network] | type[Task]) -> dict[str, Any]:
        known = {_NAMES.get(one.name, one.name): one for one in fields(kind)}
        found = {}
        for name, value in entry.items():
            where = f"{place}.{name}" if place else str(name)
            if name not in known or (name == "tasks" and kind is Network):
                self.fault(where, "there is no such field")
            else:
                found[known[name].name] = self._converter(known[name].name)(where, value)
        return found

    def _converter(self, name: str) -> Callable[[str, Any], Any]:
        by_name: dict[str, Callable[[str, Any], Any]] = {
            "depends_on": self._names,
            "activates": self._names,
            "options": self._answers,
            "optional": self._boolean,
            "when": self._condition,
            "context": self._object,
            "output_schema": self._object,
            "value": self._json,
            "map_over": self._map,
            "loop": self._loop,
            "on_error": self._on_error,
        }
        by_name |= dict.fromkeys(("tools", "mcp_servers", "memory"), self._scope)
        by_name |= dict.fromkeys(("retries", "concurrency"), self._integer)
        by_name |= dict.fromkeys(("time_limit", "retry_seconds", "timeout"), self._number)
        return by_name.get(name, self._text)

    def _text(self, place: str, value: Any) -> str:
        return str(self._of(place, value, str, "a text", ""))

    def _boolean(self, place: str, value: Any) -> bool:
        return bool(self._of(place, value, bool, "true or false", False))

    def _integer(self, place: str, value: Any) -> int:
        return int(self._of(place, None if isinstance(value, bool) else value, int, "a whole number", 1))

    def _number(self, place: str, value: Any) -> float:
        found = self._of(place, None if isinstance(value, bool) else value, int | float, "a number", 1)
        try:
            return float(found)
        except OverflowError:
            return math.inf  # `check` refuses it

    def _object(self, place: str, value: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._of(place, value, dict, "an object", {})
        try:
            json.dumps(found, allow_nan=False)
        except (TypeError, ValueError) as error:
            self.fault(place, f"its values must be JSON; put dates and times in quotes ({error})")
            return {}
        return found

    def _json(self, place: str, value: Any) -> Any:
        return self._object(place, {"value": value}).get("value")

    def _names(self, place: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.fault(place, "it must be a list of names")
            return ()
        return tuple(value)

    def _answers(self, place: str, value: Any) -> tuple[str, ...]:
        if isinstance(value, list) and any(isinstance(one, bool) for one in value):
            self.fault(place, "`yes`, `no`, `on` and `off` need quotes")
            return ()
        return self._names(place, value)

    def _of(self, place: str, value: Any, kind: Any, name: str, default: Any) -> Any:
        if isinstance(value, kind):
            return value
        self.fault(place, f"it must be {name}")
        return default

    def _scope(self, place: str, value: Any) -> Scope:
        if value in (ScopeMode.NONE.value, ScopeMode.INHERIT.value):
            return Scope(ScopeMode(value))
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return Scope(ScopeMode.LIST, tuple(value))
        self.fault(place, "it must be `inherit`, `none` or a list of names")
        return INHERIT

    def _on_error(self, place: str, value: Any) -> OnError:
        if value not in [*OnError]:
            self.fault(place, f"it must be one of {', '.join(OnError)}")
            return OnError.STOP
        return OnError(value)

    def _condition(self, place: str, value: Any) -> Condition:
        path = value.get("value") if isinstance(value, dict) else None
        operators = [name for name in value if name != "value"] if isinstance(value, dict) else []
        if not isinstance(path, str) or len(operators) != 1 or operators[0] not in [*Operator]:
            self.fault(place, f"it must have {_CONDITION}; comparisons: {', '.join(Operator)}")
            return Condition("")
        wanted = self._object(place, {"wanted": value[operators[0]]}).get("wanted")
        return Condition(path, Operator(operators[0]), wanted)

    def _map(self, place: str, value: Any) -> MapOver:
        given = value if isinstance(value, dict) else {"items": value}
        for name in given.keys() - {"items", "most"}:
            self.fault(f"{place}.{name}", "there is no such field")
        items = self._text(place, given.get("items"))
        return MapOver(items, self._integer(f"{place}.most", given["most"])) if "most" in given else MapOver(items)

    def _loop(self, place: str, value: Any) -> Loop:
        given: dict[str, Any] = self._of(place, value, dict, "an object with `until`", {})
        for name in given.keys() - {"until", "most", "back_to"}:
            self.fault(f"{place}.{name}", "there is no such field")
        until = self._condition(f"{place}.until", given.get("until"))
        most = self._integer(f"{place}.most", given.get("most", 3))
        return Loop(until, most, self._text(f"{place}.back_to", given.get("back_to", "")))
