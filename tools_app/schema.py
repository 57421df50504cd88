"""Parses and validates the arguments that a model sends, with error messages that let the model correct them. Pure."""

import json
import math
import re
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, NoReturn

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import SchemaError, ValidationError

from audit_app.kernel.canonical_json import canonical_json
from tools_app.types import BaseTool, ToolError, ToolSpec

TIMEOUT = "timeout_seconds"

_MAX_PROBLEMS = 5
_MAX_PROBLEM_CHARACTERS = 300
_MAX_DEPTH = 40
# Limit of keyword evaluations for one value, against schemas that recurse exponentially.
_MAX_STEPS = 50_000
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_REGULAR = frozenset({"pattern", "patternProperties"})
_NAMING = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
# Keywords that models need not see: a violation is answered with an error that names it.
_LIMITS = frozenset(
    {"minimum", "minLength", "maxLength", "maxItems", "uniqueItems", "maxProperties", "$schema", "title"}
)
_OPENING = frozenset({"additionalProperties", "unevaluatedProperties"})
_WITHOUT_PROPERTIES = frozenset({"type", "title", "description", "$schema"})
_VALUES = frozenset({"enum", "const", "default", "examples"})
_SHORT_SECONDS = 30
# An escaped NUL character in JSON text, after any escaped backslashes.
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_JSON_NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


class ArgumentsError(ValueError):
    """Unusable arguments of a call. The message is written for the model."""


def advertised(spec: ToolSpec, *, max_timeout_seconds: int | None) -> ToolSpec:
    """Return the spec as models see it: without keywords that only matter to validation, since each costs tokens.

    A call that can take long has the optional argument `timeout_seconds`. Every call accepts it.
    max_timeout_seconds: None for a tool without a time limit of its own.
    """
    parameters = _without_limits(spec.parameters)
    if max_timeout_seconds is not None and spec.timeout_seconds > _SHORT_SECONDS:
        default = min(spec.timeout_seconds, max_timeout_seconds)
        limit = {"type": "integer", "maximum": max_timeout_seconds, "description": f"Default {default}."}
        parameters = {**parameters, "properties": {**parameters.get("properties", {}), TIMEOUT: limit}}
    return replace(spec, parameters=parameters)


def _without_limits(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_limits(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    shown = {}
    for keyword, value in schema.items():
        if keyword in _NAMING and isinstance(value, dict):
            shown[keyword] = {name: _without_limits(each) for name, each in value.items()}
        elif keyword in _VALUES:
            shown[keyword] = value
        elif keyword not in _LIMITS and (keyword, value) != ("additionalProperties", False):
            shown[keyword] = _without_limits(value)
    return shown


def read_arguments(text: str, *, max_characters: int) -> dict[str, Any]:
    """Return the object in a model's raw JSON text; empty text means no arguments.

    Raises ArgumentsError for text that is too long, is not complete JSON, or is not an object.
    """
    if len(text) > max_characters:
        raise ArgumentsError(f"The arguments are longer than {max_characters} characters. Send less.")
    try:
        value = parse_json(text) if text.strip() else {}
    except RecursionError:
        raise ArgumentsError("The arguments are nested too deeply.") from None
    except ValueError as error:
        raise ArgumentsError(f"The arguments are not valid JSON: {error}. Send one complete JSON object.") from None
    if not isinstance(value, dict):
        raise ArgumentsError(f"The arguments must be a JSON object, not {_kind(value)}.")
    _refuse_unstorable(value)
    return value


def parse_json(text: str) -> Any:
    """Return the value of a JSON text. Raises ValueError, also for NaN and numbers too large; RecursionError."""
    return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)


def take_timeout(arguments: dict[str, Any], *, default_seconds: int, max_seconds: int) -> tuple[dict[str, Any], int]:
    """Return the arguments without the call's own time limit, and the limit in whole seconds, capped at `max_seconds`.

    Raises ArgumentsError for a limit that is not a number of at least 1.
    """
    rest = {name: value for name, value in arguments.items() if name != TIMEOUT}
    asked = arguments.get(TIMEOUT)
    if asked is None:
        return rest, min(default_seconds, max_seconds)
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not 1 <= asked < math.inf:
        raise ArgumentsError(f"{TIMEOUT}: must be a whole number of seconds, at least 1.")
    return rest, min(math.ceil(asked), max_seconds)


def check_arguments(arguments: dict[str, Any], parameters: dict[str, Any]) -> None:
    """Raise ArgumentsError with each field that does not match the JSON Schema and the expected value."""
    problems = find_problems(arguments, parameters)
    if problems:
        raise ArgumentsError(f"The arguments do not fit the tool's parameters: {problems}.")


def check_call(tool: BaseTool, arguments: dict[str, Any]) -> None:
    """Raise ArgumentsError for arguments that do not match the tool's JSON Schema, or that the tool itself refuses.

    JSON Schema allows arguments that it does not name. Those of an MCP server's tool are refused unless its schema
    allows them expressly, or describes none at all: the server could act on what its approved description does not
    mention.
    """
    parameters = tool.spec.parameters
    if tool.spec.server and parameters.keys() - _WITHOUT_PROPERTIES and not _OPENING & parameters.keys():
        parameters = {**parameters, "unevaluatedProperties": False}
    check_arguments(arguments, parameters)
    try:
        tool.check(arguments)
    except ToolError as error:
        raise ArgumentsError(str(error)) from None


def find_problems(value: Any, schema: dict[str, Any], *, pointers: bool = False) -> str:
    """Return the first few mismatches of a JSON value and a JSON Schema, as text; empty if it is valid.

    pointers: name each place by its JSON pointer.
    """
    _steps_left.set(_MAX_STEPS)
    errors: Iterable[ValidationError] = _Validator(schema).iter_errors(value)
    try:
        return "; ".join(sorted(_problem(error, pointers) for error in errors)[:_MAX_PROBLEMS])
    except RecursionError:
        return "it is nested too deeply to be checked"
    except _TooMuchWorkError:
        return "it takes too long to be checked"
    except Exception as error:  # a third-party schema may fail only when it is evaluated
        return f"it cannot be checked by the schema: {str(error)[:_MAX_PROBLEM_CHARACTERS]}"


class _TooMuchWorkError(Exception):
    """A schema needs too many evaluations: one that refers to itself twice doubles them at each level."""


_steps_left: ContextVar[int] = ContextVar("steps_left")


def _counted(keyword: Callable[..., Any]) -> Callable[..., Any]:
    def check(validator: Any, rule: Any, instance: Any, schema: Any) -> Any:
        left = _steps_left.get()
        if not left:
            raise _TooMuchWorkError
        _steps_left.set(left - 1)
        return keyword(validator, rule, instance, schema)

    return check


def _unique_items(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterable[ValidationError]:
    """Check `uniqueItems` in linear time: the library compares all pairs."""
    if rule and isinstance(instance, list) and len({canonical_json(item) for item in instance}) < len(instance):
        yield ValidationError("has the same item twice")


_Validator = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {
        name: _counted(keyword)
        for name, keyword in {**Draft202012Validator.VALIDATORS, "uniqueItems": _unique_items}.items()
    },
)


def fit_foreign(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a third-party schema without regular expressions, which may take exponential time.

    Raises ValueError if it is not a valid schema, is nested too deeply, or has an external reference.
    """
    fit: dict[str, Any] = _fit(schema)
    check_draft(fit)
    return fit


def check_draft(schema: Any) -> None:
    """Raise ValueError, with the JSON pointer of the fault, if this is not a schema of draft 2020-12."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = _pointer(error)
        problem = error.message[:_MAX_PROBLEM_CHARACTERS]
        raise ValueError(f"not a valid JSON Schema: {f'{place}: ' if place else ''}{problem}") from None


def _fit(schema: Any, *, depth: int = 0, names: bool = False) -> Any:
    """names: the keys at this level are property names, not keywords of JSON Schema."""
    if depth > _MAX_DEPTH:
        raise ValueError("the schema is nested too deeply")
    if isinstance(schema, list):
        return [_fit(item, depth=depth + 1) for item in schema]
    if not isinstance(schema, dict):
        return schema
    for key in () if names else _REFERENCES & schema.keys():
        if not (isinstance(schema[key], str) and schema[key].startswith("#")):
            raise ValueError(f"the schema has an external reference: {key}")
    return {
        key: _fit(item, depth=depth + 1, names=not names and key in _NAMING)
        for key, item in schema.items()
        if names or key not in _REGULAR
    }


def check_spec(spec: ToolSpec) -> None:
    """Raise SchemaError or ValueError if a tool's declaration is invalid."""
    Draft202012Validator.check_schema(spec.parameters)
    if spec.parameters.get("type") != "object":
        raise ValueError(f"the parameters of {spec.name} must be a schema of an object")
    if TIMEOUT in spec.parameters.get("properties", {}):
        raise ValueError(f"{spec.name} must not declare {TIMEOUT}: every call has it already")


def _problem(error: ValidationError, pointers: bool) -> str:
    field = _pointer(error) if pointers else ".".join(str(part) for part in error.absolute_path)
    return f"{field}: {_expectation(error)}" if field else _expectation(error)


def _pointer(error: ValidationError | SchemaError) -> str:
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in error.absolute_path)


def _expectation(error: ValidationError) -> str:
    rule: Any = error.validator_value
    instance: Any = error.instance
    match error.validator:
        case "required":
            missing = sorted(name for name in rule if name not in instance)
            return f"{', '.join(missing)} is missing"
        case "type":
            return f"must be {rule if isinstance(rule, str) else ' or '.join(rule)}, not {_kind(instance)}"
        case "enum":
            return f"must be one of {', '.join(json.dumps(choice) for choice in rule)}"[:_MAX_PROBLEM_CHARACTERS]
        case "additionalProperties" if rule is False:
            known = sorted(error.schema.get("properties", {})) if isinstance(error.schema, dict) else []
            unknown = sorted(name for name in instance if name not in known)
            return f"{', '.join(unknown)[:100]} is not known (known: {', '.join(known) or 'none'})"
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
            return f"must keep to {error.validator} {rule}"
        case "uniqueItems":
            return "must not have the same item twice"
        case "minLength" | "maxLength" | "minItems" | "maxItems":
            return f"must keep to {error.validator} {rule}, has {len(instance)}"
        case _:
            return error.message[:_MAX_PROBLEM_CHARACTERS]


def _kind(value: Any) -> str:
    return "null" if value is None else _JSON_NAMES.get(type(value), type(value).__name__)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"the number {digits[:40]} is too large")
    return value


def without_nul(text: str) -> str:
    """Return the JSON text without NUL characters in its strings: no JSON column of PostgreSQL accepts them."""
    return _NUL.sub(r"\1", text)


def _refuse_unstorable(arguments: dict[str, Any]) -> None:
    """Raise ArgumentsError for what a JSON column cannot store or a recursive walk cannot process."""
    level: list[Any] = [arguments]
    for _ in range(_MAX_DEPTH):
        level = [item for value in level for item in _children(value)]
        if not level:
            break
    else:
        raise ArgumentsError(f"The arguments are nested more than {_MAX_DEPTH} levels deep.")
    text = json.dumps(arguments, ensure_ascii=False)
    if _NUL.search(text):
        raise ArgumentsError("The arguments contain a NUL character. Leave it out.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentsError("The arguments contain half a surrogate pair. Send whole characters.") from None


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
