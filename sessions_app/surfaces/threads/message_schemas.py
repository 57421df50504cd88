"""JSON Schemas of the content that clients may store in messages: parts, citations, references. Pure.

The protocol's clients fail to read a whole page if one of its parts is unknown, so such a message is refused.
"""

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from sessions_app.surfaces.threads.event_schemas import CITATION, COUNT, STATUSES, TEXT, TIME, USAGE, UUID, object_of

_MOST_PROBLEMS, _LONGEST_PROBLEM = 5, 300
_NULL = {"type": "null"}
_TIME_OR_NOT = {"anyOf": [TIME, _NULL]}
_ARGUMENTS = {"type": ["object", "string", "null"]}
_FILE_TYPES = ("file_list", "file_content", "document_created", "document_edited", "image")
_RESULT_TYPES = ("search_results", "sql_result", "command_output", "api_response", "workflow_run")
_DOCUMENT_FORMATS = {"enum": ["docx", "xlsx"]}
_DISPLAY_TYPES = ("generic", "schema", "node_info", *_FILE_TYPES, *_RESULT_TYPES)


def _part(kind: str, required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    each = {"id": TEXT, "seq": COUNT, "start_time": TIME, "kind": {"const": kind}}
    return object_of({**each, **required}, {"end_time": _TIME_OR_NOT, **optional})


_CITATIONS = {"type": ["array", "null"], "items": CITATION}
_PARTS = {
    "text": _part("text", {"text": TEXT}, citations=_CITATIONS),
    "reasoning": _part("reasoning", {"text": TEXT}),
    "tool": _part(
        "tool",
        {"tool_call_id": TEXT, "tool_name": TEXT},
        input=_ARGUMENTS,
        status={"enum": [*STATUSES, None]},
        is_error={"type": ["boolean", "null"]},
        duration_ms={"type": ["integer", "null"]},
        extras={"type": ["object", "null"]},
        display_type={"enum": [*_DISPLAY_TYPES, None]},
    ),
    "doc_edit": _part("doc_edit", {"document_id": UUID, "new_version_id": UUID, "doc_format": _DOCUMENT_FORMATS}),
}
_STEP = object_of(
    {"id": TEXT, "name": TEXT, "kind": {"enum": ["reasoning", "tool_call"]}, "start_time": TIME},
    {"args": _ARGUMENTS, "detail": {"type": ["string", "null"]}, "end_time": _TIME_OR_NOT},
)
_CHECKPOINT = object_of(
    {
        "upto_message_id": UUID,
        "upto_message_created_at": TIME,
        "summary": {"type": "object"},
        **dict.fromkeys(("covered_message_count", "tokens_before", "tokens_after"), COUNT),
        "summarizer_model": {"type": "string", "maxLength": 128},
        "prompt_version": {"type": "string", "maxLength": 32},
    }
)
_KINDS = [{"if": {"properties": {"kind": {"const": kind}}}, "then": schema} for kind, schema in _PARTS.items()]
_REFERENCE = object_of({"ref_type": TEXT, "entity_id": UUID, "display_name": TEXT})
_REFERENCES = {"type": "array", "items": _REFERENCE}
DETAILS = object_of(
    {},
    {
        "parts": {
            "type": ["array", "null"],
            "items": {
                "type": "object",
                "properties": {"kind": {"enum": list(_PARTS)}},
                "required": ["kind"],
                "allOf": _KINDS,
            },
        },
        "usage": {"anyOf": [USAGE, _NULL]},
        "steps": {"type": ["array", "null"], "items": _STEP},
        "checkpoint": {"anyOf": [_CHECKPOINT, _NULL]},
        "model_id": {"type": ["string", "null"], "maxLength": 64},
    },
)
DETAILS["additionalProperties"] = False
CONTENT = object_of({}, {"citations": {"type": "array", "items": CITATION}, "references": _REFERENCES})

_formats = FormatChecker(formats=["uuid"])


@_formats.checks("date-time", raises=ValueError)
def _is_time(value: object) -> bool:
    return not isinstance(value, str) or bool(datetime.fromisoformat(value))


_SCHEMAS = {"content": CONTENT, "details": DETAILS}
_CHECKS = {name: Draft202012Validator(schema, format_checker=_formats) for name, schema in _SCHEMAS.items()}


def problem_of(content: Mapping[str, Any], details: Any) -> str:
    """Return the problems that would keep clients from reading a message, or empty."""
    given = {"content": dict(content), **({} if details is None else {"details": details})}
    problems = (
        f"{'.'.join([name, *map(str, error.absolute_path)])}: {error.message[:_LONGEST_PROBLEM]}"
        for name, value in given.items()
        for error in _CHECKS[name].iter_errors(value)
    )
    return "; ".join(islice(problems, _MOST_PROBLEMS))
