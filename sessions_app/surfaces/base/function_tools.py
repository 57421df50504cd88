"""Tools of a client: as its requests declare them, and the ids of their calls. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agents_app.structured_output import check_schema
from audit_app.kernel.errors import InvalidInput

MOST_TOOLS = 128
_LONGEST_DESCRIPTION = 10_000
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CALL_ID = re.compile(r"call_([0-9a-f]{32})")
_NO_PARAMETERS = {"type": "object", "properties": {}}


@dataclass(frozen=True)
class ToolOutput:
    """The output of a call that a client has made. call_id: as the answer has named the call."""

    call_id: str
    text: str


def invalid_param(message: str, param: str, code: str = "invalid_value") -> InvalidInput:
    """Return the error to raise for a request parameter. param: its name, for errors that have it as a field."""
    return InvalidInput(message, code=code, param=param)


def read_function(function: Any, param: str) -> dict[str, Any]:
    """Return a function of a client as a tool: name, description, parameters. Raises InvalidInput.

    param: its place in the request, for errors.
    """
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise invalid_param(f"{param}: a function's name has 1 to 64 letters, digits, dashes and underscores.", param)
    description = function.get("description") or ""
    if not isinstance(description, str) or len(description) > _LONGEST_DESCRIPTION:
        raise invalid_param(f"{param}: the description must have at most {_LONGEST_DESCRIPTION:,} characters.", param)
    parameters = function.get("parameters") or _NO_PARAMETERS
    try:
        parameters = check_schema(parameters)
    except InvalidInput as error:
        raise invalid_param(f"{param}: the parameters of {name} cannot be used. {error.message}", param) from None
    if parameters.get("type") != "object":
        raise invalid_param(f"{param}: the parameters of {name} must be the JSON Schema of an object.", param)
    return {"name": name, "description": description, "parameters": parameters}


def check_distinct(tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of a request's tools. Raises InvalidInput if one occurs twice."""
    names = [tool["name"] for tool in tools]
    for name in names:
        if names.count(name) > 1:
            raise invalid_param(f"tools has two functions of the name {name!r}.", "tools")
    return names


def call_id_of(execution_id: UUID | str) -> str:
    """Return the id of a call for clients. It names our execution, whatever else the client sends with it."""
    return f"call_{UUID(str(execution_id)).hex}"


def execution_of(call_id: str) -> UUID | None:
    """Return the execution that the id of a call names, None if it is none of our ids."""
    found = _CALL_ID.fullmatch(call_id)
    return UUID(hex=found[1]) if found else None
