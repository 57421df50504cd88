"""Memories in a request: those that fit a budget, each with its source. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agents_app.prompt import tokens

MOST_CHARACTERS = 400  # of each: `memory_recall` returns the whole text
_SOURCES = {"person": "the person said", "tool": "from outside, approved by the person", "agent": "you concluded"}


@dataclass(frozen=True)
class RecalledMemory:
    """A memory as a request contains it. source: person | tool | agent."""

    key: str
    text: str
    source: str
    day: str

    @property
    def line(self) -> str:
        """Return the memory on one line, so that its text cannot look like another one."""
        text = " ".join(self.text.split())
        cut = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} […]"
        return f"- {self.key} ({_SOURCES.get(self.source, self.source)}, {self.day}): {cut}"


def choose(memories: Iterable[RecalledMemory], *, budget_tokens: int, family: str) -> tuple[RecalledMemory, ...]:
    """Return the memories that fit the budget, the first ones preferred, in their order."""
    chosen, left = [], budget_tokens
    for memory in memories:
        size = tokens.count(memory.line, family) + 1
        if size <= left:
            chosen.append(memory)
            left -= size
    return tuple(chosen)


def text_of(memories: Sequence[RecalledMemory]) -> str:
    """Return memories as the content of a message, one a line; empty if there are none."""
    return "\n".join(memory.line for memory in memories)
