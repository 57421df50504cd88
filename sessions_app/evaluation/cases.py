"""Cases of an evaluation: messages and what is expected of the answer, read from YAML and written as YAML."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agents_app.structured_output import check_schema
from agents_app.yaml_documents import Fault, Problem, UnusableFile, read, write
from audit_app.kernel.errors import AppError

FORMAT = 1
_REFUSED = "The cases cannot be used"
_FIELDS = ("name", "input", "expect", "reference")
_LISTS = ("contains", "excludes", "calls", "avoids")
_TEXTS = ("equals", "matches", "judge")
_CHECKS = (*_LISTS, *_TEXTS, "schema")


@dataclass(frozen=True)
class Case:
    """Messages to send in order, each once the one before is answered, and what is expected of the last answer.

    contains, excludes: texts in it, whatever their case.
    equals: the whole.
    matches: a regular expression in it.
    schema: JSON Schema of it.
    calls, avoids: names of tools that the runs call, or do not.
    judge: a criterion on which a model decides.
    reference: a good answer, which that model sees.
    """

    name: str
    messages: tuple[str, ...]
    contains: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    avoids: tuple[str, ...] = ()
    equals: str | None = None
    matches: str | None = None
    schema: dict[str, Any] | None = None
    judge: str | None = None
    reference: str = ""


def read_cases(text: str) -> tuple[Case, ...]:
    """Return the cases of a document. Raises UnusableFile with all problems."""
    document, problems = read(text, _REFUSED), list[Problem]()

    def fault(place: str, message: str) -> None:
        problems.append(document.problem(place, message))

    cases = tuple(_cases(document.content, fault))
    if not cases and not problems:
        fault("cases", "there is none")
    if problems:
        raise UnusableFile(problems, _REFUSED)
    return cases


def write_cases(cases: Iterable[Case]) -> str:
    """Return the cases as a YAML document."""
    return write({"format": FORMAT, "cases": [_written(case) for case in cases]})


def _written(case: Case) -> dict[str, Any]:
    values = {name: getattr(case, name) for name in _CHECKS}
    expect = {name: list(value) if name in _LISTS else value for name, value in values.items() if value}
    entry: dict[str, Any] = {"name": case.name}
    entry["input"] = case.messages[0] if len(case.messages) == 1 else list(case.messages)
    return entry | ({"expect": expect} if expect else {}) | ({"reference": case.reference} if case.reference else {})


def _cases(content: Any, fault: Fault) -> Iterable[Case]:
    if not isinstance(content, dict) or not isinstance(content.get("cases"), list):
        fault("", "it must have a list `cases`")
        return
    if content.get("format") != FORMAT:
        fault("format", f"it must be {FORMAT}")
    seen = set[str]()
    for number, entry in enumerate(content["cases"]):
        place = f"cases[{number}]"
        if not isinstance(entry, dict):
            fault(place, "it must be an object with an `input`")
            continue
        for name in entry:
            if name not in _FIELDS:
                fault(f"{place}.{name}", f"there is no such field; use {', '.join(_FIELDS)}")
        case_name = str(entry.get("name") or number + 1)
        if case_name in seen:
            fault(f"{place}.name", f"{case_name!r} is in the file twice")
        seen.add(case_name)
        messages = _texts(entry.get("input"))
        if not messages:
            fault(f"{place}.input", "it must be a text, or a list of texts")
        expect = entry.get("expect") or {}
        if not isinstance(expect, dict):
            fault(f"{place}.expect", f"it must map any of {', '.join(_CHECKS)} to what is expected")
            continue
        found = _expected(f"{place}.expect", expect, fault)
        yield Case(case_name, messages, reference=str(entry.get("reference") or ""), **found)


def _expected(place: str, expect: Mapping[str, Any], fault: Fault) -> dict[str, Any]:
    """Return the checked expectations as fields of Case."""
    found: dict[str, Any] = {}
    for name, value in expect.items():
        if name in _LISTS:
            found[name] = _texts(value)
            if not found[name]:
                fault(f"{place}.{name}", "it must be a text, or a list of texts")
        elif name in _TEXTS:
            found[name] = value
            _check_text(f"{place}.{name}", value, is_pattern=name == "matches", fault=fault)
        elif name == "schema":
            found[name] = value
            _check_schema(f"{place}.{name}", value, fault)
        else:
            fault(f"{place}.{name}", f"there is no such check; use {', '.join(_CHECKS)}")
    return found


def _check_schema(place: str, value: Any, fault: Fault) -> None:
    try:
        check_schema(value)
    except AppError as error:
        fault(place, error.message)


def _check_text(place: str, value: Any, *, is_pattern: bool, fault: Fault) -> None:
    if not isinstance(value, str) or not value:
        fault(place, "it must be a text")
        return
    try:
        re.compile(value if is_pattern else "")
    except re.error as error:
        fault(place, f"it is not a regular expression: {error}")


def _texts(value: Any) -> tuple[str, ...]:
    """Return the texts of a value, none if it is something else."""
    texts = value if isinstance(value, list) else [value]
    return tuple(texts) if all(isinstance(text, str) and text.strip() for text in texts) else ()
