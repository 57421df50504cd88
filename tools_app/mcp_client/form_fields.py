"""Fields of a server's form: texts, numbers, yes or no, and choices, without nesting. Pure."""

import math
import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from audit_app.kernel.safe_text import visible
from audit_app.kernel.shorten import shorten
from tools_app.types.questions import LONGEST_OPTION, MOST_OPTIONS, NO_ANSWER, Question, chosen_options, plain_options

_LONGEST_NAME, _LONGEST_TEXT = 128, 300
_MOST_CHOICES = MOST_OPTIONS - 1  # one place is for the refusal
_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s]{1,255}")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_FORMATS = {"email": "an e-mail address", "uri": "a URI", "date": "a date, such as 2026-01-31", "date-time": "a time"}
_YES, _NO = ("true", "Yes"), ("false", "No")


class UnusableForm(ValueError):
    """The schema of a form has something else than fields of simple values."""


class Misfit(ValueError):
    """A person's reply does not fit. The message is for the person."""


@dataclass(frozen=True)
class Field:
    """A field of a form.

    kind: string | integer | number | boolean.
    options: values to choose from, with their labels; of a boolean, true and false.
    is_list: several options may be chosen.
    schema: the server's, for limits.
    """

    name: str
    kind: str
    schema: dict[str, Any]
    is_required: bool = False
    options: tuple[tuple[str, str], ...] = ()
    is_list: bool = False

    @property
    def is_choice(self) -> bool:
        return bool(self.options)

    @property
    def default(self) -> Any:
        return self.schema.get("default")


def read(schema: Any) -> tuple[Field, ...]:
    """Return the fields of a `requestedSchema`. Raises UnusableForm."""
    properties = schema.get("properties", {}) if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or schema.get("type") != "object":
        raise UnusableForm("its schema is not the schema of an object")
    required = schema.get("required")
    names = set(map(str, required)) if isinstance(required, list) else set()
    return tuple(_field(name, field, is_required=name in names) for name, field in properties.items())


def _field(name: str, schema: Any, *, is_required: bool) -> Field:
    if len(name) > _LONGEST_NAME or not name.isprintable() or not isinstance(schema, dict):
        raise UnusableForm("a field has no usable name or no schema")
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        options = _options(items) if isinstance(items, dict) else ()
        if not options:
            raise UnusableForm(f"{shorten(name, 40)} is a list of free values")
        return Field(name, "string", schema, is_required, options, is_list=True)
    if kind == "boolean":
        return Field(name, kind, schema, is_required, (_YES, _NO))
    if kind not in ("string", "integer", "number"):
        raise UnusableForm(f"{shorten(name, 40)} is neither a text, a number, yes or no, nor a choice")
    return Field(name, kind, schema, is_required, _options(schema) if kind == "string" else ())


def _options(schema: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the choices of a text: `enum`, with `enumNames` if given, or titled constants. Raises UnusableForm."""
    titled, values = schema.get("oneOf") or schema.get("anyOf"), schema.get("enum")
    if isinstance(titled, list):
        found = [(each.get("const"), each.get("title")) for each in titled if isinstance(each, dict)]
    elif isinstance(values, list):
        names = schema.get("enumNames")
        labels = names if isinstance(names, list) and len(names) == len(values) else values
        found = list(zip(values, labels, strict=True))
    else:
        return ()
    usable = [(str(value), label or value) for value, label in found if _is_text(value)]
    options = tuple((value, shorten(visible(label), LONGEST_OPTION)) for value, label in usable)
    if not options or len(options) != len(found) or len({value for value, _ in options}) < len(options):
        raise UnusableForm("a choice has values that are not different texts")
    if len(options) > _MOST_CHOICES:
        raise UnusableForm(f"a choice has more than {_MOST_CHOICES} values")
    return options


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_OPTION and value.isprintable()


def text_of(field: Field) -> str:
    """Return the text by which a person is asked for the field."""
    title = _line(field.schema.get("title")) or _line(field.name)
    about = _line(field.schema.get("description"))
    expected = _FORMATS.get(str(field.schema.get("format")), "") if field.kind == "string" else ""
    expected = {"integer": "a whole number", "number": "a number"}.get(field.kind, expected)
    skipped = "" if field.is_required and field.default is None else f"{NO_ANSWER} leaves it out"
    if skipped and field.default is not None:
        skipped = f"{NO_ANSWER} means {shown(field, field.default)}"
    details = ", ".join(filter(None, (expected, skipped)))
    return f"{title}{f': {about}' if about and about != title else ''}{f' ({details})' if details else ''}"


def shown(field: Field, value: Any) -> str:
    """Return a value of the field for a person."""
    if isinstance(value, list):
        return ", ".join(shown(field, each) for each in value)
    key = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    return _line(dict(field.options).get(key, key))


def _line(text: Any) -> str:
    return shorten(" ".join(visible(text or "").split()).replace("](", "] ("), _LONGEST_TEXT)


def value_of(field: Field, line: str) -> Any:
    """Return the value that a line of a reply gives to the field; None to leave it out. Raises Misfit."""
    if line in ("", NO_ANSWER):
        if field.default is not None:
            return field.default
        if field.is_required:
            raise Misfit(f"{_line(field.name)} needs an answer.")
        return None
    if field.is_choice:
        return _choice(field, line)
    return _text(field, line) if field.kind == "string" else _number(field, line)


def _choice(field: Field, line: str) -> Any:
    labels = dict(field.options)
    question = Question("", plain_options(labels.values()), allows_several=field.is_list)
    value_by_label = {label: value for value, label in field.options}
    chosen = [line] if line in labels else [value_by_label[each.label] for each in chosen_options(question, line)]
    if not chosen:
        named = [part.strip() for part in line.split(",")] if field.is_list else []
        chosen = named if named and all(part in labels for part in named) else []
    if not chosen:
        raise Misfit(f"{shorten(line, 60)!r} is not possible. Answer with one of: {', '.join(labels.values())}.")
    if field.kind == "boolean":
        return chosen[0] == _YES[0]
    least, most = field.schema.get("minItems"), field.schema.get("maxItems")
    if field.is_list and not _is_between(len(chosen), least, most):
        raise Misfit(f"{_line(field.name)} needs {least or 0} to {most or len(labels)} values.")
    return chosen if field.is_list else chosen[0]


def _number(field: Field, line: str) -> int | float:
    try:
        value: int | float = int(line) if field.kind == "integer" else float(line)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise Misfit(f"{shorten(line, 60)!r} is not {'a whole number' if field.kind == 'integer' else 'a number'}.")
    least, most = field.schema.get("minimum"), field.schema.get("maximum")
    if not _is_between(value, least, most):
        raise Misfit(f"{line} is not between {'-∞' if least is None else least} and {'∞' if most is None else most}.")
    return value


def _text(field: Field, line: str) -> str:
    least, most = field.schema.get("minLength"), field.schema.get("maxLength")
    if not _is_between(len(line), least, most):
        raise Misfit(f"{_line(field.name)} needs {least or 0} to {most or 'any number of'} characters.")
    wanted = str(field.schema.get("format"))
    if wanted in _FORMATS and not _has_format(line, wanted):
        raise Misfit(f"{shorten(line, 60)!r} is not {_FORMATS[wanted]}.")
    return line


def _has_format(line: str, wanted: str) -> bool:
    try:
        match wanted:
            case "date":
                date.fromisoformat(line)
            case "date-time":
                datetime.fromisoformat(line)
            case _:
                return (_EMAIL if wanted == "email" else _URI).fullmatch(line) is not None
    except ValueError:
        return False
    return True


def _is_between(value: float, least: Any, most: Any) -> bool:
    return not (isinstance(least, int | float) and value < least or isinstance(most, int | float) and value > most)
