"""Structured output: a JSON Schema for an answer, the JSON in a text, and the message that has it repaired. Pure.

`pattern` and `format` of a schema are passed to the model and not checked: a regular expression may take exponential
time.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agents_app.types import REJECTED, ModelResponse, RunStatus, RunTranscript
from audit_app.kernel.errors import InvalidInput
from tools_app import schema as schemas

MAX_SCHEMA_CHARACTERS = 64_000
_MAX_DEPTH = 40
_VALUES = ("enum", "const", "default", "examples")
_NAMING = ("properties", "$defs", "definitions", "dependentSchemas")
_CUT = "it ends before the JSON does: the limit of output tokens was reached, so write less"
_REPAIR = (
    "Your answer does not match the JSON Schema that it must have: {problem}. Answer again, only with JSON that "
    "matches, without any other text."
)


def check_schema(schema: Any) -> dict[str, Any]:
    """Return a JSON Schema (draft 2020-12) of an answer unchanged. Raises InvalidInput (invalid_schema) with the place.

    Refused are more than MAX_SCHEMA_CHARACTERS, deep nesting, references that lead outside or nowhere, and
    `patternProperties`.
    """
    try:
        if not isinstance(schema, dict):
            raise ValueError("it must be a JSON object")
        if len(json.dumps(schema)) > MAX_SCHEMA_CHARACTERS:
            raise ValueError(f"it has more than {MAX_SCHEMA_CHARACTERS:,} characters")
        schemas.check_draft(schema)
        schemas.fit_foreign(schema)
        _check_keywords(schema)
    except (ValueError, RecursionError) as error:
        problem = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidInput(f"The JSON Schema of the answer cannot be used: {problem}.", code="invalid_schema") from None
    return schema


def _check_keywords(schema: dict[str, Any]) -> None:
    for place, keywords in _objects(schema):
        if "patternProperties" in keywords:
            raise ValueError(f"{place or '/'}: patternProperties is not supported; use additionalProperties")
        reference = keywords.get("$ref", "")
        if isinstance(reference, str) and reference.startswith("#/") and not _leads_somewhere(schema, reference):
            raise ValueError(f"{place}/$ref: {reference} is not in the schema")


def judge(response: ModelResponse, schema: dict[str, Any] | None) -> ModelResponse:
    """Return the response of a final answer with its JSON as the text, or REJECTED if it does not match the schema.

    Anything else is returned unchanged: tool calls, an empty text, an answer without a schema.
    """
    if schema is None or response.tool_calls or not response.text.strip():
        return response
    found = find_json(response.text)
    if found is None or problem_of(response.text, schema):
        return replace(response, finish_reason=REJECTED)
    return replace(response, text=found, finish_reason="stop")


def find_json(text: str) -> str | None:
    """Return the JSON in an answer exactly as the model wrote it, or None.

    It is the whole text; else the only fenced code block; else everything from the first brace or bracket to the last.
    """
    for candidate in _candidates(text):
        with suppress(ValueError, RecursionError):
            schemas.parse_json(candidate)
            return candidate.strip()
    return None


def problem_of(text: str, schema: dict[str, Any]) -> str:
    """Return the first few mismatches of an answer with JSON pointers, as text; empty if it is valid."""
    found = find_json(text)
    if found is None:
        try:
            schemas.parse_json(text)
        except RecursionError:
            return "it is nested too deeply"
        except ValueError as error:
            opens = text.lstrip().startswith(("{", "["))
            return f"{_CUT} ({error})" if opens and _is_cut(text) else f"it is not valid JSON: {error}"
    return schemas.find_problems(schemas.parse_json(found or text), schemas.fit_foreign(schema), pointers=True)


def repair_message(text: str, schema: dict[str, Any] | None) -> str:
    """Return the message that follows a rejected answer."""
    return _REPAIR.format(problem=problem_of(text, schema or {}) or "it was refused")


def value_of(text: str) -> Any:
    """Return the JSON value of a stored answer, None if it is none."""
    try:
        return schemas.parse_json(text)
    except (ValueError, RecursionError):
        return None


def output_of(transcript: RunTranscript) -> Any:
    """Return the value of a completed answer that has a JSON Schema, else None."""
    is_value = transcript.is_structured and transcript.run.status is RunStatus.COMPLETED
    return value_of(transcript.answer) if is_value else None


def _candidates(text: str) -> Iterator[str]:
    yield text
    blocks = _fenced_blocks(text)
    if len(blocks) == 1:
        yield blocks[0]
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    end = max(text.rfind("}"), text.rfind("]"))
    if starts and min(starts) < end:
        yield text[min(starts) : end + 1]


def _fenced_blocks(text: str) -> list[str]:
    """Return the contents of the fenced code blocks, of JSON or without a language, in time linear in the text."""
    blocks: list[str] = []
    block: list[str] | None = None
    for line in text.split("\n"):
        mark = line.strip().lower()
        if block is None:
            block = [] if mark in ("```", "```json") else None
        elif mark == "```":
            blocks.append("\n".join(block))
            block = None
        else:
            block.append(line)
    return blocks


def _is_cut(text: str) -> bool:
    return not text.rstrip().endswith(("}", "]", "```"))


def _objects(
    schema: Any, place: str = "", depth: int = 0, *, has_names: bool = False
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each JSON object in a schema that may have keywords, with its JSON pointer.

    has_names: the keys of this object are names of properties or schemas.
    """
    if depth > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    if isinstance(schema, dict) and not has_names:
        yield place, schema
    parts = schema.items() if isinstance(schema, dict) else enumerate(schema) if isinstance(schema, list) else ()
    for name, part in parts:
        if has_names or name not in _VALUES:
            inner = f"{place}/{_escaped(name)}"
            yield from _objects(part, inner, depth + 1, has_names=not has_names and name in _NAMING)


def _leads_somewhere(schema: Any, reference: str) -> bool:
    for name in reference.removeprefix("#/").split("/"):
        key = name.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, list) and key.isdecimal() and int(key) < len(schema):
            schema = schema[int(key)]
        elif isinstance(schema, dict) and key in schema:
            schema = schema[key]
        else:
            return False
    return True


def _escaped(name: object) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")
