"""Groups of tool calls on the page: the calls of one step that need nobody are one line that unfolds.

`static/js/chat/call-groups.js` groups the calls that come live by the same rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID

from sessions_app.surfaces.chat import labels
from sessions_app.surfaces.chat.tool_cards import ToolCard

LEAST = 2  # calls of a group


@dataclass(frozen=True)
class CallGroup:
    """Calls of one step, in their order."""

    calls: tuple[ToolCard, ...]

    @property
    def id(self) -> UUID:
        return self.calls[0].id

    @property
    def step(self) -> int:
        return self.calls[0].step

    @property
    def names(self) -> str:
        """Return the names of the tools, each once."""
        return ", ".join(dict.fromkeys(call.tool for call in self.calls))

    @property
    def took(self) -> str:
        """Return the time of the longest call, as they ran together; empty until all have ended."""
        times = [call.state.seconds for call in self.calls]
        known = [seconds for seconds in times if seconds is not None]
        return labels.duration(max(known)) if len(known) == len(times) else ""


def with_call_groups(parts: Sequence[Any]) -> tuple[Any, ...]:
    """Return the parts with a group in the place of neighbouring calls of one step."""
    found: list[Any] = []
    for step, members in groupby(parts, _step_of):
        run = tuple(members)
        found += [CallGroup(run)] if step is not None and len(run) >= LEAST else run
    return tuple(found)


def _step_of(part: Any) -> int | None:
    return part.step if isinstance(part, ToolCard) and part.may_be_grouped else None
