"""A copy of a chat: what a reader of it sees, as plain data without secrets. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID


@dataclass(frozen=True)
class CopiedText:
    """A text of an answer: Markdown, with numbers in place of citations."""

    kind: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True)
class CopiedCall:
    """A tool call.

    arguments, output: JSON or text, masked.
    state: of `ExecutionStatus`.
    """

    kind: ClassVar[str] = "toolCall"
    tool: str
    arguments: Any
    state: str
    output: Any = None
    error: str = ""


@dataclass(frozen=True)
class CopiedQuestion:
    """Questions to the user. answer: empty for none."""

    kind: ClassVar[str] = "question"
    questions: tuple[str, ...]
    answer: str


@dataclass(frozen=True)
class CopiedWorkstream:
    """A child run.

    name: with those above it.
    state: of `ChildState`.
    """

    kind: ClassVar[str] = "workstream"
    name: str
    agent_id: str
    state: str
    task: str
    result: str = ""
    error: str = ""


Part = CopiedText | CopiedCall | CopiedQuestion | CopiedWorkstream


@dataclass(frozen=True)
class CopiedTurn:
    """A message with its answer.

    at: time of the message.
    files: names of the files of the message.
    problem: reason why the answer is incomplete.
    sources: of the answer, as lines of Markdown.
    """

    at: datetime
    question: str = ""
    files: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    problem: str = ""
    sources: str = ""


@dataclass(frozen=True)
class CopiedFile:
    """A file of the chat."""

    id: UUID
    path: str
    size_bytes: int


@dataclass(frozen=True)
class ChatCopy:
    """A chat.

    at: time of the copy.
    has_more: older messages were left out.
    """

    title: str
    agent: str
    at: datetime
    turns: tuple[CopiedTurn, ...] = ()
    files: tuple[CopiedFile, ...] = ()
    has_more: bool = False

    def without_calls(self) -> "ChatCopy":
        """Return the copy without tool calls; questions to the user and workstreams stay."""
        return replace(self, turns=tuple(replace(turn, parts=tuple(_talk(turn))) for turn in self.turns))


def _talk(turn: CopiedTurn) -> Iterator[Part]:
    return (part for part in turn.parts if not isinstance(part, CopiedCall))
