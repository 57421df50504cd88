"""Projection of session events to updates of the page.

`fragments` renders an update. Updates are idempotent, and the page ignores updates of a turn that has ended.
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

from agents_app import events as runs
from sessions_app import events as sessions
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.live_text import LiveText, LiveTexts, RenderedBlock, live_part
from sessions_app.surfaces.chat import tool_cards
from sessions_app.surfaces.chat.approval_cards import waiting_label
from sessions_app.surfaces.chat.labels import WRITE_ARTIFACT
from sessions_app.surfaces.chat.page_updates import (
    ChangeCall,
    DiscardText,
    PageUpdate,
    ShowAgent,
    ShowAnswer,
    ShowApproval,
    ShowBatch,
    ShowBranch,
    ShowCall,
    ShowFiles,
    ShowPlan,
    ShowProgress,
    ShowQueue,
    ShowReasoning,
    ShowStatus,
    ShowText,
    ShowTurn,
    ShowWorkstream,
    asking_status,
    questions_shown,
)
from sessions_app.surfaces.chat.turn_views import (
    LONGEST_REASONING,
    THINKING,
    Status,
    fallback_status,
    using,
    waiting_status,
)
from tools_app import events as tools
from tools_app import run_progress
from tools_app.types import ApprovalStatus

# Takes 50 to 350 ms to render.
_LONG_TEXT = 20_000


# Events behind the text of a step. At the end of a run, the stored answer takes its place.
_TEXT_ENDS = (tools.TOOL_REQUESTED.name, runs.STEP_COMPLETED.name)

_LIVE_TEXT = (runs.REASONING_DELTA.name, runs.MESSAGE_RESET.name, runs.SNAPSHOT.name)
_CHANGES_OF_QUESTIONS = (
    sessions.ATTACHMENTS_OMITTED.name,
    sessions.MESSAGE_CHANGED.name,
    sessions.MESSAGE_TRANSCRIBED.name,
)

# Events that a child run's card shows as its state.
_STATES = (
    *runs.WORKSTREAM_EVENTS,
    runs.RUN_QUEUED.name,
    runs.RUN_STARTED.name,
    runs.RUN_WAITING.name,
    runs.MODEL_FALLBACK.name,
    tools.PROGRESS_REPORTED.name,
    tools.INPUT_REQUESTED.name,
    *runs.RUN_ENDS,
)


class Projection:
    """The projection for one viewer. texts: shared by all viewers of this process.

    queued: the runs that the page shows as queued.
    may_decide: the viewer may decide requests for approval.
    """

    def __init__(self, texts: LiveTexts, queued: Iterable[UUID] = (), *, may_decide: bool = False) -> None:
        self._texts = texts
        self._may_decide = may_decide
        self._queued = set(queued)
        self._steps: dict[tuple[UUID, int], _StepShown] = {}
        self._calls: dict[UUID, dict[str, str]] = {}
        self._refused: set[str] = set()
        self._received: set[UUID] = set()

    def is_long(self, batch: Sequence[SessionEvent]) -> bool:
        """Return whether `updates` may have so much text to render that the event loop should not wait for it."""
        texts = [seen for seen in batch if seen.type in (runs.TEXT_DELTA.name, runs.SNAPSHOT.name)]
        run_ids = {seen.run_id for seen in batch}
        open_lengths = (shown.open_length for (run_id, _), shown in self._steps.items() if run_id in run_ids)
        return sum(len(seen.payload["text"]) for seen in texts) + sum(open_lengths) > _LONG_TEXT

    def updates(self, batch: Iterable[SessionEvent]) -> list[PageUpdate]:
        """Return the updates for a batch, in order. Consecutive pieces of text become one update."""
        updates: list[PageUpdate] = []
        growing: _StepShown | None = None
        for seen in batch:
            if seen.type == runs.TEXT_DELTA.name and seen.run_id is not None and seen.step is not None:
                step = self._step(seen.run_id, seen.step, seen.cursor)
                if growing is not None and growing is not step:
                    updates += growing.take_new()
                growing = step
                piece = runs.TEXT_DELTA.payload(seen)
                if not step.grow(piece["offset"], piece["text"]):
                    updates += self._stop_sharing(step, piece["offset"], piece["text"])
                    growing = None
                continue
            if growing is not None:
                updates += growing.take_new()
                growing = None
            if seen.type in _TEXT_ENDS:
                updates += self._finish_text(seen)
            updates += self._updates_of(seen)
        if growing is not None:
            updates += growing.take_new()
        # Updates of the branch, the queue and the files show the current state: once each. That of the branch comes
        # first: it shows the turns that the others change.
        selected: list[PageUpdate] = [update for update in updates if isinstance(update, ShowBranch)]
        others = [
            update for update in _cards_once(updates) if not isinstance(update, ShowBranch | ShowQueue | ShowFiles)
        ]
        return [*selected[-1:], *others, *(update for update in (ShowQueue(), ShowFiles()) if update in updates)]

    def _updates_of(self, seen: SessionEvent) -> list[PageUpdate]:
        run_id = seen.run_id
        if run_id is None:
            return _updates_of_session(seen)
        if seen.parent_run_id is not None:
            return self._updates_of_child(run_id, seen)
        return self._updates_of_run(run_id, seen)

    def _updates_of_child(self, run_id: UUID, seen: SessionEvent) -> list[PageUpdate]:
        """Return the updates for a stored event of a child run: as for any run, with its card in place of a status."""
        if seen.type in _STATES:
            if seen.type in runs.RUN_ENDS:
                self._forget_run(run_id)
            return [
                *questions_shown(run_id, seen),
                ShowWorkstream(run_id, is_announced=seen.type == tools.INPUT_REQUESTED.name),
            ]
        updates = self._updates_of_run(run_id, seen)
        return [ShowWorkstream(run_id) if isinstance(update, ShowStatus) else update for update in updates]

    def _updates_of_run(self, run_id: UUID, seen: SessionEvent) -> list[PageUpdate]:
        if seen.step is not None and seen.type in _LIVE_TEXT:
            return self._live_text(run_id, seen.step, seen)
        match seen.type:
            case sessions.MESSAGE_RECEIVED.name:
                self._received.add(run_id)
                # Events stored by older versions have no message id.
                return [ShowTurn(run_id, sessions.MESSAGE_RECEIVED.payload(seen).get("message_id", ""))]
            case runs.RUN_QUEUED.name:  # follows its message; comes alone if an older message is retried
                self._queued.add(run_id)
                return [] if run_id in self._received else [ShowTurn(run_id)]
            case runs.RUN_STARTED.name:
                return [ShowStatus(run_id, Status(THINKING), is_announced=True), *self._leave_queue(run_id)]
            case runs.RUN_WAITING.name:
                return [ShowStatus(run_id, waiting_status(runs.RUN_WAITING.payload(seen)), is_announced=True)]
            case runs.MODEL_FALLBACK.name:
                return [ShowStatus(run_id, fallback_status(runs.MODEL_FALLBACK.payload(seen)), is_announced=True)]
            case tools.INPUT_REQUESTED.name:
                return [*questions_shown(run_id, seen), asking_status(run_id, seen)]
            case sessions.MESSAGE_COMPLETED.name:
                self._forget_run(run_id)
                return [ShowAnswer(run_id), *self._leave_queue(run_id)]
            case tools.APPROVAL_REQUESTED.name:
                request = tools.APPROVAL_REQUESTED.payload(seen)
                card = ShowApproval(run_id, UUID(request["approval_id"]))
                return [card, ShowStatus(run_id, Status(waiting_label(self._may_decide)))]  # the card is announced
            case tools.APPROVAL_DECIDED.name:
                return self._approval_decided(run_id, tools.APPROVAL_DECIDED.payload(seen))
            case tools.TOOL_REQUESTED.name:
                requested = tools.TOOL_REQUESTED.payload(seen)
                self._calls.setdefault(run_id, {})[requested["execution_id"]] = requested["tool"]
                call = tool_cards.requested_card(seen.step or 0, requested, seen.workstream)
                return [ShowCall(run_id, call), self._using(run_id)]
            case tools.TOOL_STARTED.name:
                return [ChangeCall(tool_cards.started_state(tools.TOOL_STARTED.payload(seen)))]
            case tools.TOOL_COMPLETED.name:
                completed = tools.TOOL_COMPLETED.payload(seen)
                files: list[PageUpdate] = [ShowFiles()] if completed["tool"] == WRITE_ARTIFACT else []
                return [*self._call_ended(run_id, completed), *files]
            case tools.TOOL_FAILED.name:
                return self._call_ended(run_id, tools.TOOL_FAILED.payload(seen))
            case _:
                return _updates_of_work(run_id, seen)

    def _live_text(self, run_id: UUID, step: int, seen: SessionEvent) -> list[PageUpdate]:
        if seen.type == runs.REASONING_DELTA.name:
            return _reasoning(run_id, step, runs.REASONING_DELTA.payload(seen))
        live = self._texts.open(run_id, f"{seen.type} {live_part(seen.cursor)}", step)
        updates = self._replace(run_id, step, live, seen.payload.get("text", ""))
        return [DiscardText(run_id, step, with_reasoning=seen.type == runs.MESSAGE_RESET.name), *updates[1:]]

    def _leave_queue(self, run_id: UUID) -> list[PageUpdate]:
        """Remove a run from the queue; the others move up."""
        self._queued.discard(run_id)
        return [ShowQueue()] if self._queued else []

    def _using(self, run_id: UUID) -> ShowStatus:
        return ShowStatus(run_id, using(self._calls.get(run_id, {}).values()))

    def _call_ended(self, run_id: UUID, payload: tools.ToolCompleted | tools.ToolFailed) -> list[PageUpdate]:
        execution_id = payload["execution_id"]
        self._calls.get(run_id, {}).pop(execution_id, None)
        is_refused = execution_id in self._refused
        self._refused.discard(execution_id)
        return [ChangeCall(*tool_cards.ended_state(payload, is_refused=is_refused)), self._using(run_id)]

    def _approval_decided(self, run_id: UUID, payload: tools.ApprovalDecided) -> list[PageUpdate]:
        if payload["status"] in (ApprovalStatus.DENIED, ApprovalStatus.EXPIRED):
            self._refused.add(payload["execution_id"])
        return [ShowApproval(run_id, UUID(payload["approval_id"])), self._using(run_id)]

    def _finish_text(self, seen: SessionEvent) -> list[PageUpdate]:
        """Show the whole text of a step, to which nothing is added."""
        if seen.run_id is None or seen.step is None or (seen.run_id, seen.step) not in self._steps:
            return []
        return self._steps[seen.run_id, seen.step].finish()

    def _replace(self, run_id: UUID, step: int, live: LiveText, text: str) -> list[PageUpdate]:
        """Discard the text of a step and show what it is now."""
        shown = self._steps[run_id, step] = _StepShown(run_id, step, live)
        if text and not shown.grow(0, text):
            return self._replace(run_id, step, LiveText(self._texts.budget), text)
        return [DiscardText(run_id, step), *shown.take_new()]

    def _stop_sharing(self, shown: "_StepShown", offset: int, text: str) -> list[PageUpdate]:
        """Give this viewer a text of its own, because it differs from the shared one."""
        if offset > len(shown.seen):  # the page notices the gap
            return [*shown.take_new(), ShowText(shown.run_id, shown.step, offset, text)]
        return self._replace(shown.run_id, shown.step, LiveText(self._texts.budget), shown.seen[:offset] + text)

    def _step(self, run_id: UUID, step: int, cursor: str) -> "_StepShown":
        shown = self._steps.get((run_id, step))
        if shown is None:
            live = self._texts.open(run_id, live_part(cursor).partition("-")[0], step)
            shown = self._steps[run_id, step] = _StepShown(run_id, step, live)
        return shown

    def _forget_run(self, run_id: UUID) -> None:
        self._calls.pop(run_id, None)
        self._received.discard(run_id)
        for key in [key for key in self._steps if key[0] == run_id]:
            del self._steps[key]


class _StepShown:
    """The part of one step's text that was sent to this viewer."""

    def __init__(self, run_id: UUID, step: int, live: LiveText) -> None:
        self.run_id, self.step, self._live = run_id, step, live
        self._sent = 0  # code points of text, or of finished blocks if those reach further
        self._blocks_sent = 0
        self._draft_sent: RenderedBlock | None = None
        self._reached = 0

    @property
    def open_length(self) -> int:
        return self._live.open_length

    @property
    def seen(self) -> str:
        return self._live.text[: self._reached]

    def grow(self, offset: int, text: str) -> bool:
        """Add a piece. Return False, and add nothing, if it differs from the shared text."""
        if offset > self._reached or not self._live.feed(offset, text):
            return False
        self._reached = max(self._reached, offset + len(text))
        return True

    def take_new(self) -> list[PageUpdate]:
        """Return the update for the text that was not sent yet, if any."""
        blocks = tuple(block for block in self._live.blocks[self._blocks_sent :] if block.end <= self._reached)
        self._blocks_sent += len(blocks)
        begin = max(self._sent, blocks[-1].end) if blocks else self._sent
        text = self._live.text[begin : self._reached]
        self._sent = max(begin, self._reached)
        draft = self._new_draft()
        if not blocks and not text and draft is None:
            return []
        return [ShowText(self.run_id, self.step, begin, text, blocks, draft)]

    def finish(self) -> list[PageUpdate]:
        """Return the update for the rest of the text. Nothing is added to it."""
        if self._reached == len(self._live.text):
            self._live.finish()
        return self.take_new()

    def _new_draft(self) -> RenderedBlock | None:
        """Return the draft that this viewer lacks. It shows no text that the viewer has not seen."""
        if self._reached == len(self._live.text):
            self._live.update_draft()
        draft = self._live.draft
        if draft is None or draft is self._draft_sent or draft.end > self._reached:
            return None
        self._draft_sent = draft
        return draft


def _cards_once(updates: Iterable[PageUpdate]) -> list[PageUpdate]:
    """Return the updates with one for the card of each workstream: the first, because it shows the present state."""
    shown: dict[UUID, int] = {}
    found: list[PageUpdate] = []
    for update in updates:
        if not isinstance(update, ShowWorkstream):
            found.append(update)
            continue
        place = shown.setdefault(update.run_id, len(found))
        if place == len(found):
            found.append(update)
        elif update.is_announced:
            found[place] = update
    return found


def _updates_of_session(seen: SessionEvent) -> list[PageUpdate]:
    """Return the updates for an event of no run."""
    if seen.type == sessions.SESSION_BOUND.name:
        return [ShowAgent(sessions.SESSION_BOUND.payload(seen)["agent_id"])]
    if seen.type == sessions.BRANCH_SELECTED.name:
        return [ShowBranch(sessions.BRANCH_SELECTED.payload(seen)["place"])]
    return []


def _updates_of_work(run_id: UUID, seen: SessionEvent) -> list[PageUpdate]:
    """Return the updates for an event of a run that depend on nothing else."""
    if seen.type in _CHANGES_OF_QUESTIONS:
        return [ShowTurn(run_id, seq=seen.seq or 0)]
    if seen.type == tools.PLAN_UPDATED.name:
        return [ShowPlan(run_id, run_progress.plan_of(tools.PLAN_UPDATED.payload(seen)))]
    if seen.type == tools.PROGRESS_REPORTED.name:
        return [ShowProgress(run_id, run_progress.progress_of(tools.PROGRESS_REPORTED.payload(seen)))]
    if seen.type == tools.BATCH_PROGRESS.name:
        batch = tools.BATCH_PROGRESS.payload(seen)
        return [ShowBatch(run_id, UUID(batch["batch_id"]), run_progress.batch_of(batch))]
    return []


def _reasoning(run_id: UUID, step: int, piece: runs.TextPiece) -> list[PageUpdate]:
    text = piece["text"][: max(0, LONGEST_REASONING - piece["offset"])]
    return [ShowReasoning(run_id, step, piece["offset"], text)] if text else []
