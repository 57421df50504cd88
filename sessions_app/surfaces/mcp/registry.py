"""The registry of what the MCP server offers: tools, kinds of resources and kinds of prompts.

Each module of KOMAND_MCP_OFFERS registers its own. Lists are read page by page; synchronous functions run in the
database's thread. Every function gets the principal, or a call that has it, and looks objects up with `access`.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib import import_module
from typing import Any
from urllib.parse import quote, unquote
from uuid import UUID

from django.conf import settings

from audit_app.kernel.errors import InvalidInput, NotFound
from audit_app.kernel.registry import Registry
from sessions_app.identity.principal import Principal

PAGE_SIZE = 50
_VARIABLE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Tool:
    """A tool for MCP clients.

    parameters: JSON Schema of the arguments.
    reads: it changes nothing, so a read-only key may call it.
    run: takes a `calls.Call` and the checked arguments. Returns an object, which becomes JSON, or a result of the SDK.
    needs: capabilities of the client without which the tool cannot work; the name of an extension contains a slash.
    begin: for clients that take tasks, instead of `run`: begins a task and returns its id.
    """

    name: str
    title: str
    description: str
    parameters: dict[str, Any]
    reads: bool
    run: Callable[[Any, dict[str, Any]], Awaitable[Any]]
    needs: tuple[str, ...] = ()
    begin: Callable[[Any, dict[str, Any]], Awaitable[str]] | None = None


@dataclass(frozen=True)
class Page:
    """A page of a list. cursor: of the next page; empty at the end."""

    items: Sequence[Any]
    cursor: str = ""


@dataclass(frozen=True)
class Resource:
    """An entry of the list of resources.

    variables: of the URI of its kind.
    origins: from where its text came in.
    """

    variables: Mapping[str, str]
    name: str
    description: str = ""
    media_type: str = ""
    size: int | None = None
    changed_at: datetime | None = None
    origins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Content:
    """The content of a resource. origins: from where its text came in."""

    data: str | bytes
    media_type: str = "text/plain"
    origins: tuple[str, ...] = ()


@dataclass(frozen=True)
class ResourceKind:
    """Resources of one kind.

    uri: URI template with variables in braces; a URI without any names one resource.
    list_page: takes the principal and a cursor; returns a Page of Resource. Synchronous.
    read: takes the principal and the variables. Raises NotFound. Synchronous.
    find_session: takes the same, returns the session whose events may change the resource. Synchronous.
    """

    name: str
    uri: str
    title: str
    description: str
    media_type: str
    list_page: Callable[[Principal, str], Page]
    read: Callable[..., Content]
    find_session: Callable[..., UUID] | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(_VARIABLE.findall(self.uri))

    def uri_of(self, variables: Mapping[str, str]) -> str:
        return _VARIABLE.sub(lambda found: quote(variables[found[1]], safe=""), self.uri)

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the variables of a URI of this kind, None for another URI."""
        parts = _VARIABLE.split(self.uri)
        pattern = "".join(f"(?P<{part}>[^/]+)" if at % 2 else re.escape(part) for at, part in enumerate(parts))
        found = re.fullmatch(pattern, uri)
        return {name: unquote(value) for name, value in found.groupdict().items()} if found else None


@dataclass(frozen=True)
class Argument:
    """An argument of a prompt. complete: takes the principal; returns the values to choose from. Synchronous."""

    name: str
    description: str = ""
    is_required: bool = False
    complete: Callable[[Principal], Sequence[str]] | None = None


@dataclass(frozen=True)
class Prompt:
    """An entry of the list of prompts. name: unique among all kinds."""

    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True)
class PromptKind:
    """Prompts of one kind.

    prefix: with which the names of its prompts begin.
    list_page: takes the principal and a cursor; returns a Page of Prompt. Synchronous.
    find: takes the principal and a name; returns the Prompt. Raises NotFound. Synchronous.
    get: takes a `calls.Call`, the name and the arguments; returns messages of the user: texts or contents of the SDK.
    """

    prefix: str
    list_page: Callable[[Principal, str], Page]
    find: Callable[[Principal, str], Prompt]
    get: Callable[[Any, str, dict[str, str]], Awaitable[Sequence[Any]]]


@dataclass(frozen=True)
class TaskState:
    """State of a task.

    status: working, input_required, completed, failed or cancelled.
    result: of a completed task: what `run` of its tool would have returned.
    error: why it failed.
    asks: requests of the SDK to the client that the task waits for, by name.
    """

    status: str
    created_at: datetime
    changed_at: datetime
    result: Any = None
    error: str = ""
    asks: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskKind:
    """Tasks of one kind. Each function takes the principal and the id, and raises NotFound. Synchronous.

    prefix: with which the ids of its tasks begin.
    answer: also takes the answers of the client, by the names of the asks.
    """

    prefix: str
    get: Callable[[Principal, str], TaskState]
    answer: Callable[[Principal, str, Mapping[str, Any]], None]
    cancel: Callable[[Principal, str], None]


tools: Registry[Tool] = Registry("tool", lambda tool: tool.name)
resources: Registry[ResourceKind] = Registry("kind of resources", lambda kind: kind.name)
prompts: Registry[PromptKind] = Registry("kind of prompts", lambda kind: kind.prefix)
tasks: Registry[TaskKind] = Registry("kind of tasks", lambda kind: kind.prefix)


@cache
def load() -> None:
    """Import the modules that register something."""
    for module in settings.KOMAND_MCP_OFFERS:
        import_module(module)


def find_resource(uri: str) -> tuple[ResourceKind, dict[str, str]] | None:
    """Return the kind of a URI and the variables in it; None if no kind has such URIs."""
    return next(((kind, found) for kind in resources if (found := kind.match(uri)) is not None), None)


def find_prompts(name: str) -> PromptKind | None:
    """Return the kind of a prompt's name."""
    return next((kind for kind in prompts if name.startswith(kind.prefix)), None)


def find_tasks(task_id: str) -> TaskKind:
    """Return the kind of a task's id: that with the longest prefix. Raises NotFound."""
    fitting = [kind for kind in tasks if task_id.startswith(kind.prefix)]
    if not fitting:
        raise NotFound("There is no such task.")
    return max(fitting, key=lambda kind: len(kind.prefix))


def sliced(rows: Callable[[int, int], Sequence[Any]], cursor: str) -> tuple[Sequence[Any], str]:
    """Return the rows of a page and the cursor of the next one. rows: takes offset and limit. Raises InvalidInput."""
    if cursor and not (cursor.isdecimal() and len(cursor) < 10):
        raise InvalidInput("This cursor is not from a list of this server.", code="invalid_cursor")
    offset = int(cursor or 0)
    found = rows(offset, PAGE_SIZE + 1)
    return found[:PAGE_SIZE], str(offset + PAGE_SIZE) if len(found) > PAGE_SIZE else ""


def parameters_of(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
