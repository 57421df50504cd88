"""Profiles: named sets of built-in tools that the model calls of an agent list, so that its prompt stays short.

A profile permits and forbids nothing: an agent finds its other tools by `find_tools`.
"""

from tools_app.registry import tools

ALL, CHAT = "all", "chat"
FIND_TOOLS = "find_tools"

_CHAT = frozenset({"ask_user", "calculator", "date_time", "memory_recall", "memory_store", "web_fetch"})
TEAMS = "teams"
_TEAM_TOOLS = frozenset(
    f"{verb}_workstream{s}"
    for verb, s in (("launch", ""), ("message", ""), ("steer", ""), ("terminate", ""), ("wait", "s"), ("list", "s"))
) | {"agents_list", "run_network", "shared_memory_read", "shared_memory_write"}
_SETS = {CHAT: _CHAT, "files": _CHAT | {"read_artifact", "write_artifact", "python"}, "web": _CHAT | {"http_request"}}
CHOICES = [
    (CHAT, "chat: questions, sums, times, memory and web pages"),
    ("files", "files: chat, and files and programs"),
    ("web", "web: chat, and requests to APIs"),
    (TEAMS, "teams: every tool, and those of workstreams"),
    (ALL, "all: every tool of the agent but those of workstreams"),
]


def lists(profile: str, tool: str) -> bool:
    """Return whether the tool belongs to the profile. (`KOMAND_TOOL_TOKENS` may still hide it.)

    Tools of MCP servers and skills are in every profile. profile: an unknown name stands for `all`.
    """
    names = _SETS.get(profile)
    return names is None or tool in names or tools.find(tool) is None


def is_offered(profile: str, tool: str) -> bool:
    """Return whether the profile has the tool at all, listed or found. Only `teams` has those of workstreams."""
    return profile == TEAMS or tool not in _TEAM_TOOLS


def is_core(profile: str, tool: str) -> bool:
    """Return whether the profile lists the tool even if the others have no room. `all` has the core of `chat`."""
    return tool in _SETS.get(profile, _CHAT) or (profile == TEAMS and tool in _TEAM_TOOLS)
