"""A tool as a server lists it, reduced to what can be used, with a digest that detects changes. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from re import sub
from typing import Any

from tools_app.schema import TIMEOUT, fit_foreign
from tools_app.types.questions import MCP_PREFIX

_MAX_PUBLIC_NAME = 64
_MAX_NAME = 128
_MAX_DESCRIPTION = 4_000
_MAX_SCHEMA = 64 * 1024
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


class UnusableTool(ValueError):
    """The server lists a tool that cannot be offered. The message says why."""


@dataclass(frozen=True)
class ListedTool:
    """A listed tool.

    name: the server's own.
    parameters: JSON Schema of an object, safe to evaluate.
    hints: the server's claims about effects, for operators.
    digest: digest of everything that a model or a validation relies on.
    returns: JSON Schema of the structured content, if declared.
    """

    name: str
    title: str
    description: str
    parameters: dict[str, Any]
    hints: dict[str, Any]
    digest: str
    returns: dict[str, Any] | None = None


def read_tool(tool: Mapping[str, Any]) -> ListedTool:
    """Return the tool of a `tools/list` entry. Raises UnusableTool."""
    name, schema = tool.get("name"), tool.get("inputSchema")
    if not isinstance(name, str) or not name or len(name) > _MAX_NAME or not name.isprintable():
        raise UnusableTool("its name is empty, too long or not printable")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise UnusableTool("its input schema is not the schema of an object")
    described = {key: tool.get(key) for key in ("name", "title", "description", "inputSchema", "outputSchema")}
    try:
        text = json.dumps(described, sort_keys=True, separators=(",", ":"))
        parameters = fit_foreign(schema)
        returns = fit_foreign(tool["outputSchema"]) if isinstance(tool.get("outputSchema"), dict) else None
    except (RecursionError, ValueError) as error:
        raise UnusableTool(str(error) or "it is nested too deeply") from None
    if len(text) > _MAX_SCHEMA:
        raise UnusableTool(f"its description is longer than {_MAX_SCHEMA} characters")
    if "\\u0000" in text:  # not every database stores it
        raise UnusableTool("its description contains a NUL character")
    annotations: Any = tool.get("annotations")
    hints = annotations if isinstance(annotations, dict) else {}
    return ListedTool(
        name=name,
        title=_clean(tool.get("title"), 200),
        description=_clean(tool.get("description"), _MAX_DESCRIPTION),
        parameters=_without_timeout(parameters),
        hints={key: hints[key] for key in _HINTS if isinstance(hints.get(key), bool)},
        digest=sha256(text.encode()).hexdigest(),
        returns=returns,
    )


def takes_timeout(tool: Mapping[str, Any]) -> bool:
    """Return whether the server's own schema has the argument `timeout_seconds`."""
    schema = tool.get("inputSchema")
    return isinstance(schema, dict) and TIMEOUT in (schema.get("properties") or {})


def public_names(server: str, names: Iterable[str]) -> dict[str, str]:
    """Return the name of each of a server's tools for models: allowed characters, at most 64, unique.

    Names that would collide are extended by the beginning of their digest.
    """
    chosen: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (_plain(name) != name, name)):  # unchanged names take precedence
        public = f"{MCP_PREFIX}{server}__{_plain(name)}"
        if len(public) > _MAX_PUBLIC_NAME or public in chosen.values():
            mark = sha256(name.encode()).hexdigest()[:6]
            public = f"{public[: _MAX_PUBLIC_NAME - 7]}_{mark}"
        chosen[name] = public
    return chosen


def _plain(name: str) -> str:
    return sub(r"[^A-Za-z0-9_-]", "_", name)


def _clean(text: Any, length: int) -> str:
    if not isinstance(text, str):
        return ""
    return text.replace("\0", "").encode(errors="replace").decode()[:length]


def _without_timeout(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    if not isinstance(properties, dict) or TIMEOUT not in properties:
        return schema
    required = schema.get("required")
    fit = {**schema, "properties": {key: value for key, value in properties.items() if key != TIMEOUT}}
    if isinstance(required, list):
        fit["required"] = [name for name in required if name != TIMEOUT]
    return fit
