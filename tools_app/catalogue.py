"""All tools available to an agent: the built-in ones and those of tool sources (MCP servers, skills).

Each source owns one prefix of names, so that a look-up queries one source. `komand.wiring` adds the sources.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar

from tools_app.registry import tools
from tools_app.types import AnyTool


class ToolSource(ABC):
    """A provider of tools at run time. Synchronous; may read the database, so not for use on an event loop."""

    prefix: ClassVar[str]  # of the names of all its tools, such as `mcp__`
    flag: ClassVar[str] = ""  # of `selectors.source_flags`; empty: the source is always asked

    @abstractmethod
    def list_tools(self, agent_id: str) -> Iterable[AnyTool]:
        """Return the tools that the agent (public id) has from this source."""

    @abstractmethod
    def find_tool(self, name: str, agent_id: str) -> AnyTool | None:
        """Return the tool of this name if the agent has it, else None."""


# Tool names that model APIs accept.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

_sources: dict[str, ToolSource] = {}


def add_source(source: ToolSource) -> None:
    """Register a source. Called once per process, at start-up."""
    _sources[source.prefix] = source


NO_FLAGS: Mapping[str, bool] = {}


def list_tools(agent_id: str, flags: Mapping[str, bool] = NO_FLAGS) -> list[AnyTool]:
    """Return every tool of the agent, including those that its policy denies.

    flags: as the caller has just read them. A source whose flag is False is not asked.
    """
    found = list(tools)
    for source in _sources.values():
        if flags.get(source.flag, True):
            found.extend(source.list_tools(agent_id))
    return found


def find_tool(name: str, agent_id: str) -> AnyTool | None:
    """Return the tool of this name if the agent has one. name: as a model wrote it, so it may be any text."""
    if not _NAME.fullmatch(name):
        return None  # some databases reject such text in a query
    for prefix, source in _sources.items():
        if name.startswith(prefix):
            return source.find_tool(name, agent_id)
    return tools.find(name)
