"""Chooses the tools that model calls of a run list, out of those that it may use. Reads nothing.

Each listed tool costs tokens in every call. The tools that are not listed can be found by `find_tools`, and called
without it, too: the policy decides about calls, not this choice.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agents_app.prompt import tokens
from agents_app.types import Message
from tools_app import profiles
from tools_app.profiles import FIND_TOOLS
from tools_app.types import ExecutionStatus, ExecutionView, ToolSpec

_MOST_NAMES = 9
# By name and family of models: the tool that was counted last, and its tokens. Each claim of a run needs those of all.
_counted: dict[tuple[str, str], tuple[ToolSpec, int]] = {}
_MOST_COUNTED = 1000


@dataclass(frozen=True)
class OfferedTools:
    """The tools of a run.

    listed: in every model call; with `find_tools` if there are hidden ones.
    hidden: listed once the run has found them, or called them.
    """

    listed: tuple[ToolSpec, ...]
    hidden: tuple[ToolSpec, ...] = ()

    @property
    def all(self) -> tuple[ToolSpec, ...]:
        return (*self.listed, *self.hidden)

    def adding(self, specs: Iterable[ToolSpec]) -> "OfferedTools":
        """Return this choice with further tools that every call lists."""
        return replace(self, listed=(*self.listed, *specs))

    def listed_with(self, names: Iterable[str]) -> tuple[ToolSpec, ...]:
        """Return the listed tools, then those hidden ones that `names` has, in its order: servers cache a common
        beginning of requests."""
        hidden = {spec.name: spec for spec in self.hidden}
        return (*self.listed, *(hidden[name] for name in dict.fromkeys(names) if name in hidden))


def choose(permitted: Sequence[ToolSpec], *, profile: str, budget_tokens: int) -> OfferedTools:
    """Return the choice for an agent with this profile.

    permitted: what its policy does not deny. Without `find_tools` among them nothing is hidden.
    budget_tokens: if the tools of the profile need more, only its core and instruction skills are listed.
    """
    others = [spec for spec in permitted if spec.name != FIND_TOOLS]
    finder = [spec for spec in permitted if spec.name == FIND_TOOLS]
    if not finder:
        return OfferedTools(tuple(others))
    listed = [spec for spec in others if profiles.lists(profile, spec.name)]
    if sum(map(tokens_of, listed)) > budget_tokens:
        # The system prompt names the tools of instruction skills.
        listed = [spec for spec in listed if spec.prompt_line or profiles.is_core(profile, spec.name)]
    names = {spec.name for spec in listed}
    hidden = tuple(spec for spec in others if spec.name not in names)
    if not hidden:
        return OfferedTools(tuple(others))
    return OfferedTools((*listed, _naming(finder[0], hidden)), hidden)


def used_names(history: Iterable[Message], executions: Iterable[ExecutionView]) -> list[str]:
    """Return the names of the tools that the conversation has called and that the run has found, oldest first."""
    names = [call.name for message in history for call in message.tool_calls]
    for execution in executions:
        names += _found(execution) if execution.tool == FIND_TOOLS else [execution.tool]
    return names


def tokens_of(spec: ToolSpec, family: str = "general") -> int:
    """Return the estimated number of tokens of a listed tool. family: of the model, see `tokens`."""
    known = _counted.get((spec.name, family))
    if known is None or known[0] != spec:
        listed = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
        count = tokens.count(json.dumps(listed, ensure_ascii=False, separators=(",", ":")), family)
        if len(_counted) >= _MOST_COUNTED:
            _counted.clear()
        known = _counted[spec.name, family] = spec, count
    return known[1]


def _naming(finder: ToolSpec, hidden: Sequence[ToolSpec]) -> ToolSpec:
    """Return `find_tools` with a hint of what it can find: a model does not look for what it cannot expect."""
    names = [spec.name for spec in hidden if not spec.server]
    rest = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    own = [", ".join(names[:_MOST_NAMES]) + rest] if names else []
    servers = [f"tools of {server}" for server in dict.fromkeys(spec.server for spec in hidden) if server]
    return replace(finder, description=f"{finder.description} Among them: {'; '.join(own + servers)}.")


def _found(execution: ExecutionView) -> list[str]:
    if execution.status is not ExecutionStatus.COMPLETED:
        return []
    try:
        return [tool["name"] for tool in json.loads(execution.output or "")["tools"]]
    except (ValueError, LookupError, TypeError):
        return []  # cut, because it is too long
