"""What a viewer of the page is told of each thing that happens: facts and live text become acts. Pure.

An act says what changes in the page; `fragments` gives it its HTML. The page applies acts so that telling one twice
changes nothing, and acts on an exchange that is over change nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.chat.approval_cards import waiting_label
from sessions_app.surfaces.chat.labels import FILE_WRITER
from sessions_app.surfaces.chat.live_text import LiveText, LiveTexts, RenderedBlock
from sessions_app.surfaces.chat.tool_cards import Call, CallResult, CallState, call_ended, call_requested, call_started
from sessions_app.surfaces.chat.turn_views import ASKING, RETRYING, THINKING, Status, using


@dataclass(frozen=True)
class ShowTurn:
    """Show a run's exchange, or its question anew if it is there already. message_id: the sender's own id of the
    message, if it has one."""

    run_id: UUID
    message_id: str = ""


@dataclass(frozen=True)
class ShowText:
    """`blocks` are finished and stand for the text up to their ends. `draft`, if it is new, stands for what follows
    them until more are finished. `text` begins at `offset`, in code points."""

    run_id: UUID
    step: int
    offset: int
    text: str
    blocks: tuple[RenderedBlock, ...] = ()
    draft: RenderedBlock | None = None


@dataclass(frozen=True)
class ForgetText:
    """The step's text is void: another follows."""

    run_id: UUID
    step: int


@dataclass(frozen=True)
class ShowCall:
    """A tool card, below the text of its step."""

    run_id: UUID
    call: Call


@dataclass(frozen=True)
class ChangeCall:
    """A tool card's new state, and its result once it is over."""

    state: CallState
    result: CallResult | None = None


@dataclass(frozen=True)
class ShowApproval:
    """A request for approval as it stands now, below its call."""

    run_id: UUID
    approval_id: UUID


@dataclass(frozen=True)
class ShowStatus:
    """How the run stands. is_news: worth telling those who listen to the page."""

    run_id: UUID
    status: Status
    is_news: bool = False


@dataclass(frozen=True)
class ShowAnswer:
    """The run is over: show the stored answer in place of what was streamed."""

    run_id: UUID


@dataclass(frozen=True)
class ShowQueue:
    """Others moved up: show where each waiting message stands now."""


@dataclass(frozen=True)
class ShowFiles:
    """The session has another file, or other words in one."""


@dataclass(frozen=True)
class ShowAgent:
    """Another agent answers from now on."""

    agent_id: str


Act = (
    ShowTurn
    | ShowText
    | ForgetText
    | ShowCall
    | ChangeCall
    | ShowApproval
    | ShowStatus
    | ShowAnswer
    | ShowQueue
    | ShowAgent
    | ShowFiles
)


class Projection:
    """Turns what one viewer sees into acts. texts: shared by the viewers of this process; queued: the runs that the
    page shows as waiting in line; may_decide: whether the viewer may decide what agents ask for."""

    def __init__(self, texts: LiveTexts, queued: Iterable[UUID] = (), *, may_decide: bool = False) -> None:
        self._texts = texts
        self._may_decide = may_decide
        self._queued = set(queued)
        self._steps: dict[tuple[UUID, int], _StepShown] = {}
        self._calls: dict[UUID, dict[str, str]] = {}
        self._refused: set[str] = set()
        self._asked: set[UUID] = set()

    def acts(self, batch: Iterable[SessionEvent]) -> list[Act]:
        """The acts for a batch, in order; text that comes in one go is told in one act."""
        acts: list[Act] = []
        growing: _StepShown | None = None
        for seen in batch:
            if seen.type == "text.delta" and seen.run_id is not None and seen.step is not None:
                step = self._step(seen.run_id, seen.step, seen.cursor)
                if growing is not None and growing is not step:
                    acts += growing.news()
                growing = step
                if not step.grow(seen.payload["offset"], seen.payload["text"]):
                    acts += self._part_from_shared(step, seen.payload["offset"], seen.payload["text"])
                    growing = None
                continue
            if growing is not None:
                acts += growing.news()
                growing = None
            acts += self._act(seen)
        if growing is not None:
            acts += growing.news()
        return _once(acts)

    def _act(self, seen: SessionEvent) -> list[Act]:
        run_id, payload = seen.run_id, seen.payload
        if seen.type == "session.bound":
            return [ShowAgent(payload["agent_id"])]
        if run_id is None:
            return []
        if seen.step is not None and seen.type in ("message.reset", "snapshot"):
            live = self._texts.open(run_id, f"{seen.type} {_live_part(seen.cursor)}", seen.step)
            return self._replace(run_id, seen.step, live, payload.get("text", ""))
        match seen.type:
            case "message.received":
                self._asked.add(run_id)
                return [ShowTurn(run_id, payload.get("message_id", ""))]
            case "run.queued":  # told right after the message, or alone when an older message is tried again
                self._queued.add(run_id)
                return [] if run_id in self._asked else [ShowTurn(run_id)]
            case "run.started":
                return [ShowStatus(run_id, Status(THINKING), is_news=True), *self._leave_queue(run_id)]
            case "run.waiting":
                return [ShowStatus(run_id, _waiting(payload), is_news=True)]
            case "input.requested":
                return [ShowStatus(run_id, Status(ASKING), is_news=True)]
            case "message.completed":
                self._forget_run(run_id)
                return [ShowAnswer(run_id), *self._leave_queue(run_id)]
            case "approval.requested" | "approval.decided":
                return self._approval(run_id, payload)
            case "tool.requested" | "tool.started" | "tool.completed" | "tool.failed":
                return self._call(seen.type, run_id, seen.step or 0, payload)
            case _:
                return []

    def _leave_queue(self, run_id: UUID) -> list[Act]:
        """The run waits no longer, so that others may move up."""
        self._queued.discard(run_id)
        return [ShowQueue()] if self._queued else []

    def _call(self, kind: str, run_id: UUID, step: int, payload: dict[str, Any]) -> list[Act]:
        if kind == "tool.started":
            return [ChangeCall(call_started(payload))]
        calls = self._calls.setdefault(run_id, {})
        if kind == "tool.requested":
            calls[payload["execution_id"]] = payload["tool"]
            return [ShowCall(run_id, call_requested(step, payload)), ShowStatus(run_id, Status(using(calls.values())))]
        calls.pop(payload["execution_id"], None)
        is_refused = payload["execution_id"] in self._refused
        self._refused.discard(payload["execution_id"])
        ended = ChangeCall(*call_ended(payload, is_refused=is_refused))
        files: list[Act] = [ShowFiles()] if kind == "tool.completed" and payload.get("tool") == FILE_WRITER else []
        return [ended, ShowStatus(run_id, Status(using(calls.values()))), *files]

    def _approval(self, run_id: UUID, payload: dict[str, Any]) -> list[Act]:
        shown = ShowApproval(run_id, UUID(payload["approval_id"]))
        if "status" not in payload:
            return [shown, ShowStatus(run_id, Status(waiting_label(self._may_decide)), is_news=True)]
        if payload["status"] in ("denied", "expired"):
            self._refused.add(payload["execution_id"])
        return [shown, ShowStatus(run_id, Status(using(self._calls.get(run_id, {}).values())))]

    def _replace(self, run_id: UUID, step: int, live: LiveText, text: str) -> list[Act]:
        """Begin a step's text anew, with what it is now."""
        shown = self._steps[run_id, step] = _StepShown(run_id, step, live)
        if text and not shown.grow(0, text):
            return self._replace(run_id, step, LiveText(), text)
        return [ForgetText(run_id, step), *shown.news()]

    def _part_from_shared(self, shown: "_StepShown", offset: int, text: str) -> list[Act]:
        """Others were told another text of this step: from here on this viewer has one of its own."""
        if offset > len(shown.seen):  # the page knows that something is missing
            return [*shown.news(), ShowText(shown.run_id, shown.step, offset, text)]
        return self._replace(shown.run_id, shown.step, LiveText(), shown.seen[:offset] + text)

    def _step(self, run_id: UUID, step: int, cursor: str) -> "_StepShown":
        shown = self._steps.get((run_id, step))
        if shown is None:
            live = self._texts.open(run_id, _live_part(cursor).partition("-")[0], step)
            shown = self._steps[run_id, step] = _StepShown(run_id, step, live)
        return shown

    def _forget_run(self, run_id: UUID) -> None:
        self._calls.pop(run_id, None)
        self._asked.discard(run_id)
        for key in [key for key in self._steps if key[0] == run_id]:
            del self._steps[key]


class _StepShown:
    """How much of one step's text this viewer was told."""

    def __init__(self, run_id: UUID, step: int, live: LiveText) -> None:
        self.run_id, self.step, self._live = run_id, step, live
        self._told = 0  # code points of text, or of finished blocks if those reach further
        self._blocks_told = 0
        self._draft_told = 0  # where the last told draft ended
        self._reached = 0

    @property
    def seen(self) -> str:
        return self._live.text[: self._reached]

    def grow(self, offset: int, text: str) -> bool:
        """False, and nothing is taken: this is not the text that is shared."""
        if offset > self._reached or not self._live.feed(offset, text):
            return False
        self._reached = max(self._reached, offset + len(text))
        return True

    def news(self) -> list[Act]:
        """What was not told yet."""
        blocks = tuple(block for block in self._live.blocks[self._blocks_told :] if block.end <= self._reached)
        self._blocks_told += len(blocks)
        begin = max(self._told, blocks[-1].end) if blocks else self._told
        text = self._live.text[begin : self._reached]
        self._told = max(begin, self._reached)
        if not blocks and not text:
            return []
        return [ShowText(self.run_id, self.step, begin, text, blocks, self._new_draft())]

    def _new_draft(self) -> RenderedBlock | None:
        draft = self._live.draft
        if draft is None or draft.end > self._reached or draft.end <= self._draft_told:
            return None
        self._draft_told = draft.end
        return draft


def _once(acts: list[Act]) -> list[Act]:
    """The queue and the files are told as they are, so once a batch is enough: after everything else."""
    told: list[Act] = [act for act in acts if not isinstance(act, ShowQueue | ShowFiles)]
    return [*told, *(act for act in (ShowQueue(), ShowFiles()) if act in acts)]


def _waiting(payload: dict[str, Any]) -> Status:
    reason = payload.get("reason", "")
    if payload.get("waiting_on") != "retry":
        return Status(reason or "Waiting")
    until = payload.get("until")
    return Status(RETRYING, until=datetime.fromisoformat(until) if until else None, detail=reason)


def _live_part(cursor: str) -> str:
    """`<fence>-<n>` of a cursor `<seq>.<fence>-<n>`; empty when the cursor names none."""
    return cursor.partition(".")[2]
