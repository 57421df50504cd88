"""Text of steps that are being streamed. Finished blocks are rendered once for all viewers of a process."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sessions_app.surfaces.chat.markdown import render
from sessions_app.surfaces.chat.markdown_blocks import BlockSplitter

_STEPS_KEPT = 500


@dataclass(frozen=True)
class RenderedBlock:
    """A rendered Markdown block. start, end: of its source in the step's text, in code points; html: sanitised."""

    start: int
    end: int
    html: str


@dataclass
class LiveText:
    """The text of one step as far as this process has seen it. blocks: in order, without gaps, from the start."""

    blocks: list[RenderedBlock] = field(default_factory=list)
    _splitter: BlockSplitter = field(default_factory=BlockSplitter)
    # Numbers of citations are known at the end of the run.
    _env: dict[str, Any] = field(default_factory=lambda: {"cited": lambda source_id: "…"})

    @property
    def text(self) -> str:
        return self._splitter.text

    def feed(self, offset: int, piece: str) -> bool:
        """Add a piece that begins at `offset`. Return False, and add nothing, if it does not fit the text."""
        known = self.text[offset : offset + len(piece)]
        if offset > len(self.text) or not piece.startswith(known):
            return False
        for block in self._splitter.feed(piece[len(known) :]):
            html = render(block.source, self._env)
            self.blocks.append(RenderedBlock(block.end - len(block.source), block.end, html))
        return True


class LiveTexts:
    """The newest live texts of this process. Viewers of the same stream share one."""

    def __init__(self) -> None:
        self._texts: OrderedDict[tuple[UUID, str, int], LiveText] = OrderedDict()

    def open(self, run_id: UUID, beginning: str, step: int) -> LiveText:
        """Return the live text of a step. beginning: distinguishes texts of one step by claim, reset or snapshot."""
        key = (run_id, beginning, step)
        text = self._texts.setdefault(key, LiveText())
        self._texts.move_to_end(key)
        if len(self._texts) > _STEPS_KEPT:
            self._texts.popitem(last=False)
        return text
