"""The text of steps that are being streamed, with their finished blocks rendered once for all viewers of a process."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sessions_app.surfaces.chat.markdown import render
from sessions_app.surfaces.chat.markdown_blocks import Block, BlockSplitter

_STEPS_KEPT = 500


@dataclass(frozen=True)
class RenderedBlock:
    """start, end: where its source is in the step's text, in code points; html: sanitised."""

    start: int
    end: int
    html: str


@dataclass
class LiveText:
    """One step's text as far as this process has seen it. `blocks` are in order, without gaps, from the start; `draft`
    follows them and stands for the whole lines of the open block until it is finished."""

    blocks: list[RenderedBlock] = field(default_factory=list)
    draft: RenderedBlock | None = None
    _splitter: BlockSplitter = field(default_factory=BlockSplitter)
    _env: dict[str, Any] = field(default_factory=lambda: {"cited": _not_known_yet})

    @property
    def text(self) -> str:
        return self._splitter.text

    def feed(self, offset: int, piece: str) -> bool:
        """Take a piece that begins at `offset`; what is known already is only compared. False: it does not fit."""
        known = self.text[offset : offset + len(piece)]
        if offset > len(self.text) or not piece.startswith(known):
            return False
        self.blocks += [self._rendered(block) for block in self._splitter.feed(piece[len(known) :])]
        draft = self._splitter.draft
        if draft is None:
            self.draft = None
        elif self.draft is None or self.draft.end != draft.end:
            self.draft = self._rendered(draft)
        return True

    def _rendered(self, block: Block) -> RenderedBlock:
        return RenderedBlock(block.end - len(block.source), block.end, render(block.source, self._env))


def _not_known_yet(source_id: UUID) -> str:
    """What stands for a source that is cited, until the run's end tells which it is."""
    return "…"


class LiveTexts:
    """The newest live texts of this process by run, beginning and step. Viewers of the same stream share one."""

    def __init__(self) -> None:
        self._texts: OrderedDict[tuple[UUID, str, int], LiveText] = OrderedDict()

    def open(self, run_id: UUID, beginning: str, step: int) -> LiveText:
        """beginning: what tells this text of the step from others: its claim, and where in that it began anew."""
        key = (run_id, beginning, step)
        text = self._texts.setdefault(key, LiveText())
        self._texts.move_to_end(key)
        if len(self._texts) > _STEPS_KEPT:
            self._texts.popitem(last=False)
        return text
