"""All tools there are for an agent: the built-in ones and those of further sources (MCP servers, skills).

A source owns one prefix of names, so that looking up a tool asks one place. Wiring adds the sources.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from tools_app.registry import tools
from tools_app.types import AnyTool


class ToolSource(ABC):
    """A place that tools come from at run time. Synchronous; may read the database, so not from an event loop."""

    prefix: ClassVar[str]  # of the names of all its tools, such as `mcp__`

    @abstractmethod
    def list_tools(self, agent_id: str) -> Iterable[AnyTool]:
        """The tools it has for this agent (its public id) now."""

    @abstractmethod
    def find_tool(self, name: str, agent_id: str) -> AnyTool | None:
        """The tool of this name, if this agent has it."""


# All that model APIs let a tool be called.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

_sources: dict[str, ToolSource] = {}


def add_source(source: ToolSource) -> None:
    """Make a source known. Wiring calls it once per process."""
    _sources[source.prefix] = source


def list_tools(agent_id: str) -> list[AnyTool]:
    """Every tool there is for the agent, whatever its policy says of them."""
    found = list(tools)
    for source in _sources.values():
        found.extend(source.list_tools(agent_id))
    return found


def find_tool(name: str, agent_id: str) -> AnyTool | None:
    """The tool of this name, if there is one for the agent. name: as a model wrote it, so it may be anything."""
    if not _NAME.fullmatch(name):
        return None  # also for databases, some of which refuse to be asked for it
    for prefix, source in _sources.items():
        if name.startswith(prefix):
            return source.find_tool(name, agent_id)
    return tools.find(name)
