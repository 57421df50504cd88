"""Text of steps that are being streamed. Each block is rendered for all viewers of a process at once."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sessions_app.surfaces.base.markdown import render
from sessions_app.surfaces.base.markdown_blocks import BlockSplitter
from sessions_app.surfaces.base.open_block import OpenBlock, render_open

_STEPS_KEPT = 500
# An open block that is longer is rendered again only after it has grown by this fraction.
_LONG = 20_000
_GROWTH = 8


@dataclass(frozen=True)
class RenderedBlock:
    """A rendered Markdown block.

    start, end: of its source in the step's text, in code points.
    html: sanitised.
    """

    start: int
    end: int
    html: str


class RenderBudget:
    """A share of one core for open blocks, so that many streams cannot occupy the event loop.

    A block that is not rendered because of it is shown as plain text until the next one.
    """

    def __init__(self, share: float = 0.2, burst: float = 0.1, clock: Callable[[], float] = time.monotonic) -> None:
        self._share, self._burst, self._clock = share, burst, clock
        self._left, self._at = burst, clock()

    def allows(self) -> bool:
        """Return whether there is time left."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._share)
        self._at = now
        return self._left > 0

    def spend(self, seconds: float) -> None:
        """Subtract time that was used."""
        self._left -= seconds


@dataclass
class LiveText:
    """The text of one step as far as this process has seen it.

    blocks: the finished ones, in order, without gaps, from the start.
    draft: the open block behind them, if rendered.
    """

    budget: RenderBudget = field(default_factory=RenderBudget)
    blocks: list[RenderedBlock] = field(default_factory=list)
    draft: RenderedBlock | None = None
    _splitter: BlockSplitter = field(default_factory=BlockSplitter)
    _open: OpenBlock | None = None  # that of the draft
    # Numbers of citations are known at the end of the run.
    _env: dict[str, Any] = field(default_factory=lambda: {"cited": lambda source_id: "…"})

    @property
    def text(self) -> str:
        return self._splitter.text

    @property
    def open_length(self) -> int:
        """The length of the open block."""
        return len(self._splitter.text) - self._splitter.done

    def feed(self, offset: int, piece: str) -> bool:
        """Add a piece that begins at `offset`. Return False, and add nothing, if it does not fit the text."""
        known = self.text[offset : offset + len(piece)]
        if offset > len(self.text) or not piece.startswith(known):
            return False
        for block in self._splitter.feed(piece[len(known) :]):
            self._finish(block.source, block.end)
        return True

    def finish(self) -> None:
        """Render the rest: no more text comes."""
        if self.text[self._splitter.done :].strip():
            self._finish(self.text[self._splitter.done :], len(self.text))
            self._splitter.done = len(self.text)

    def update_draft(self) -> None:
        """Render the open block, unless it needs no rendering or there is no time for it."""
        start, text = self._splitter.done, self.text[self._splitter.done :]
        if not text.strip():
            self.draft = self._open = None
            return
        if self._open is not None and not self._is_stale(self._open, text):
            return
        if not self.budget.allows():
            return
        began = time.thread_time()
        self._open = render_open(text, self._env)
        self.budget.spend(time.thread_time() - began)
        self.draft = RenderedBlock(start, start + len(text), self._open.html)

    def _is_stale(self, shown: OpenBlock, text: str) -> bool:
        if len(text) > _LONG and len(text) < len(shown.source) * (1 + 1 / _GROWTH):
            return False
        return not shown.takes(text[len(shown.source) :])

    def _finish(self, source: str, end: int) -> None:
        self.blocks.append(RenderedBlock(end - len(source), end, render(source, self._env)))
        self.draft = self._open = None


class LiveTexts:
    """The newest live texts of this process. Viewers of the same stream share one."""

    def __init__(self) -> None:
        self._texts: OrderedDict[tuple[UUID, str, int], LiveText] = OrderedDict()
        self.budget = RenderBudget()

    def open(self, run_id: UUID, beginning: str, step: int) -> LiveText:
        """Return the live text of a step. beginning: distinguishes texts of one step by claim, reset or snapshot."""
        key = (run_id, beginning, step)
        text = self._texts.setdefault(key, LiveText(self.budget))
        self._texts.move_to_end(key)
        if len(self._texts) > _STEPS_KEPT:
            self._texts.popitem(last=False)
        return text


def live_part(cursor: str) -> str:
    """Return `<fence>-<n>` of a cursor, "" if it has none."""
    return "-".join(cursor.partition(".")[2].split("-")[:2])
