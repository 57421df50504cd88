"""The growing Markdown of answers, rendered for one page of a visitor: finished blocks, and the open one."""

from typing import Any
from uuid import UUID

from sessions_app.surfaces.base.live_text import LiveText, RenderBudget

_budget = RenderBudget()  # shared by all visitors of this process


class _Step:
    def __init__(self) -> None:
        self.live = LiveText(_budget)
        self.blocks_sent = 0
        self.draft_sent: object = None


class RenderedSteps:
    """The texts of the open runs as the page was sent them."""

    def __init__(self) -> None:
        self._steps: dict[tuple[UUID, int], _Step] = {}

    def render(self, run_id: UUID, step: int, offset: int, text: str) -> dict[str, Any]:
        """Return the blocks that a piece finishes, and the open block if it was rendered: `[start, end, html]` of each.

        text: the text of the step from `offset` on, in code points.
        isNew: the page has to forget what it shows of the step.
        """
        known = self._steps.get((run_id, step))
        is_fitting = known is not None and known.live.feed(offset, text) and bool(text)
        if not is_fitting and offset:  # a page that resumes in the middle shows plain text up to the end
            return {"blocks": [], "isNew": False}
        if known is None or not is_fitting:
            known = self._steps[run_id, step] = _Step()
            known.live.feed(offset, text)
        fresh = known.live.blocks[known.blocks_sent :]
        known.blocks_sent += len(fresh)
        known.live.update_draft()
        blocks = [[block.start, block.end, block.html] for block in fresh]
        found: dict[str, Any] = {"blocks": blocks, "isNew": not is_fitting}
        draft = known.live.draft
        if draft is not None and draft is not known.draft_sent:
            known.draft_sent = draft
            found["draft"] = [draft.start, draft.end, draft.html]
        return found

    def forget(self, run_id: UUID) -> None:
        """Forget the steps of a run that has ended."""
        for key in [key for key in self._steps if key[0] == run_id]:
            del self._steps[key]
