"""The preview of one run in a chat: a typing indicator first, then the text so far, as its platform allows."""

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

from django.conf import settings

from agents_app.events import MESSAGE_RESET, RUN_ENDS, SNAPSHOT, TEXT_DELTA
from audit_app.kernel.database import in_db, retry_until_stored
from sessions_app.channels.outbound import outbox, transitions
from sessions_app.channels.outbound.outbox import Destination
from sessions_app.channels.outbound.rate_limiter import RateLimiter
from sessions_app.channels.outbound.sender import outgoing_of
from sessions_app.conversation.citations import unnumbered
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.viewer import Viewer
from sessions_app.models import Delivery, Session
from sessions_app.platforms.base import ChannelAdapter, SendCertainty, SendError, Unsupported
from sessions_app.platforms.messages import Outgoing, Rendered, ToolStatus
from sessions_app.platforms.rendering.renderer import MOST_PARTS, close_open_marks, latest, with_absolute_links
from tools_app.events import (
    APPROVAL_DECIDED,
    APPROVAL_REQUESTED,
    INPUT_REQUESTED,
    TOOL_COMPLETED,
    TOOL_FAILED,
    TOOL_REQUESTED,
)

logger = logging.getLogger(__name__)

_TOOL_STATES = {TOOL_REQUESTED.name: "running", TOOL_COMPLETED.name: "completed", TOOL_FAILED.name: "failed"}
_MOST_TOOLS = 50
_CALL_SECONDS = 15.0
_AGAIN_SECONDS = 1.0


class RunText:
    """The text of a run so far, from its live events."""

    def __init__(self, run_id: UUID) -> None:
        self._run_id = run_id
        self._steps: dict[int, str] = {}
        self._requests: set[str] = set()  # open approval and input requests
        self._tools: dict[str, ToolStatus] = {}  # by execution
        self.recorded: list[int] = []  # steps whose text can no longer be reset, and after which others follow
        self.is_over = False

    def apply(self, event: SessionEvent) -> bool:
        """Apply an event. Returns whether anything may have changed."""
        if event.run_id != self._run_id:
            return False
        step = event.step or 0
        is_of_tool = self._note_tool(event)
        match event.type:
            case TEXT_DELTA.name:
                self._steps[step] = self._steps.get(step, "")[: event.payload["offset"]] + event.payload["text"]
            case SNAPSHOT.name:
                self._steps[step] = event.payload["text"]
            case MESSAGE_RESET.name:
                self._steps[step] = ""
            case TOOL_REQUESTED.name if step not in self.recorded:
                # A text that is not complete yet, because of a gap in the stream, is left to the answer.
                if len(self._steps.get(step, "")) == event.payload["text_length"]:
                    self.recorded.append(step)
            case APPROVAL_REQUESTED.name:
                self._requests.add(event.payload["approval_id"])
            case APPROVAL_DECIDED.name:
                self._requests.discard(event.payload["approval_id"])
            case INPUT_REQUESTED.name:
                self._requests.add(event.payload["execution_id"])
            case TOOL_COMPLETED.name | TOOL_FAILED.name:
                self._requests.discard(event.payload["execution_id"])
            case event_type if event_type in RUN_ENDS:
                self.is_over = True
            case _:
                return is_of_tool
        return True

    def _note_tool(self, event: SessionEvent) -> bool:
        """Store the state of a tool call. Returns whether the event is about one."""
        if (state := _TOOL_STATES.get(event.type)) is None:
            return False
        execution_id = event.payload["execution_id"]
        known = self._tools.get(execution_id)
        if known or event.type == TOOL_REQUESTED.name:
            tool = known.tool if known else event.payload["tool"]
            self._tools[execution_id] = ToolStatus(execution_id, tool, state)
        return True

    @property
    def tools(self) -> tuple[ToolStatus, ...]:
        """Return the first tool calls of the run, in order."""
        return tuple(self._tools.values())[:_MOST_TOOLS]

    def text_of(self, step: int) -> str:
        return unnumbered(self._steps.get(step, "").strip())

    @property
    def waits_for_person(self) -> bool:
        """Return whether the run writes nothing until a person has decided or answered."""
        return bool(self._requests)

    @property
    def text(self) -> str:
        return unnumbered("\n\n".join(text.strip() for _, text in sorted(self._steps.items()) if text.strip()))


class Preview:
    """The preview of one run in one chat."""

    def __init__(
        self,
        owner: UUID,
        limiter: RateLimiter,
        adapter: ChannelAdapter,
        destination: Destination,
        session: Session,
        run_id: UUID,
    ) -> None:
        self._owner, self._limiter, self._adapter = owner, limiter, adapter
        self._destination, self._session, self._run_id = destination, session, run_id
        self._capabilities = adapter.capabilities(destination.target.chat)
        self._drafts, self._types = self._capabilities.drafts, self._capabilities.typing
        self.is_refused = False  # by the platform: it gets no more previews of this run
        self.text = RunText(run_id)
        self._changed, self._over = asyncio.Event(), asyncio.Event()
        self._rows: list[Delivery] = []  # in whose place the preview is shown, if it is messages
        self._openings: list[asyncio.Task[Delivery | None]] = []
        self._last: tuple[str, tuple[ToolStatus, ...], bool] | None = None
        self._whole = self._tools_above = 0  # messages that are complete, and the tool calls that they show
        self._steps_sent = 0
        self._shown_at = self._typed_at = float("-inf")

    async def run(self, cursor: str) -> None:
        """Show the run until it ends or the platform refuses. cursor: before the run's first event."""
        watching = asyncio.create_task(self._watch(cursor))
        try:
            while not self._over.is_set() and (self._types or self._drafts != "none"):
                self._changed.clear()
                if pause := await self._show():
                    await _wait(self._over, pause)
                else:
                    await _wait(self._changed, self._shown_seconds())
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            if self._openings:
                releasing = asyncio.create_task(self._release_all())
                try:
                    await asyncio.shield(releasing)
                except asyncio.CancelledError:  # the process is ending
                    await releasing
                    raise

    async def _watch(self, cursor: str) -> None:
        try:
            while not self.text.is_over:
                async with Viewer(self._session.id, cursor) as viewer:
                    async for frame in viewer.frames():
                        cursor = frame[-1].cursor
                        for event in frame:
                            if self.text.apply(event):
                                self._changed.set()
                        if self.text.is_over:
                            return
                    if not viewer.overflowed:
                        return
        finally:
            self._over.set()
            self._changed.set()

    @property
    def _shows_text(self) -> bool:
        return self._drafts in ("native", "edit") and bool(self.text.text or self._tool_statuses)

    @property
    def _tool_statuses(self) -> tuple[ToolStatus, ...]:
        return self.text.tools[self._tools_above :] if self._capabilities.tool_statuses else ()

    def _shown_seconds(self) -> float | None:
        """Return the seconds until the platform removes what is shown, None if it does not."""
        if self.text.waits_for_person:
            return None
        if self._types and not self._shows_text:
            return self._capabilities.typing_seconds
        return self._capabilities.draft_keep_seconds if self._last else None

    async def _show(self) -> float | None:
        """Show the current state. Returns the seconds to pause, if any.

        After a refusal, nothing more is shown; after that of a typing indicator, no further one.
        """
        is_typing = False
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                if self._drafts == "multi_message":
                    await self._send_steps()
                if self.text.waits_for_person:
                    return None
                if self._shows_text:
                    return await self._show_text()
                if self._types and time.monotonic() - self._typed_at >= self._capabilities.typing_seconds:
                    self._typed_at, is_typing = time.monotonic(), True
                    await self._adapter.typing(self._destination.target)
                return None
        except SendError as error:
            if error.certainty is SendCertainty.NOT_SENT:
                seconds = error.retry_after_seconds or max(self._capabilities.draft_seconds * 4, 1.0)
                if error.retry_after_seconds:
                    self._limiter.hold(self._chat, seconds, whole_account=error.slows_account)
                return seconds
            problem = error.message
        except (TimeoutError, Unsupported) as error:
            problem = type(error).__name__
        what, self._types = "typing indicators" if is_typing else "previews", False
        logger.info("%s sends no further %s of run %s: %s", self._destination.account, what, self._run_id, problem)
        if not is_typing:
            self._drafts = "none"
        self.is_refused = self._drafts == "none"
        return None

    async def _send_steps(self) -> None:
        """Store the texts of recorded steps as messages of their own, each once."""
        while self._steps_sent < len(self.text.recorded):
            step = self.text.recorded[self._steps_sent]
            if text := self.text.text_of(step):
                await in_db(outbox.plan_step, self._destination, self._session, self._run_id, step, text)
            self._steps_sent += 1

    async def _show_text(self) -> float | None:
        (rendered, is_whole), tools = self._rendered(), self._tool_statuses
        shows = rendered.body, tools, is_whole
        lasts = self._capabilities.draft_keep_seconds
        is_stale = lasts is not None and time.monotonic() - self._shown_at >= lasts
        if not (rendered.text or tools) or (shows == self._last and not is_stale):
            return None
        if self._drafts == "native":
            if wait := self._limiter.take_preview(self._chat, self._capabilities):
                return wait
            await self._adapter.draft(self._outgoing(rendered), outbox.draft_id_of(self._run_id))
        elif not self._rows and await in_db(outbox.is_ordering_key_busy, self._destination.ordering_key):
            # An earlier answer is still to be sent: the preview would stand above it.
            return self._capabilities.draft_seconds
        elif wait := self._limiter.take_preview(self._chat, self._capabilities):
            return wait
        elif not await self._write(rendered, tools, is_whole):
            self._drafts, self._types = "none", False
            return None
        elif is_whole:
            self._whole, self._tools_above = self._whole + 1, self._tools_above + len(tools)
        self._last, self._shown_at = shows, time.monotonic()
        return self._capabilities.draft_seconds

    def _rendered(self) -> tuple[Rendered, bool]:
        """Return what to show, and whether it is a whole part of the text, which others follow.

        A native preview shows the end of the text, the message that grows shows its part.
        """
        text, chat = with_absolute_links(self.text.text, settings.KOMAND_PUBLIC_URL), self._destination.target.chat
        enough = (self._whole + 2) * self._capabilities.max_text
        if not text:
            return Rendered("", ""), False
        if self._drafts == "native":
            parts = self._adapter.render(close_open_marks(latest(text, enough)), chat)
            return [part for part in parts if not part.filename][-1], False
        parts = self._adapter.render_beginning(close_open_marks(text[:enough]), chat, MOST_PARTS)[self._whole :]
        return (parts[0], len(parts) > 1) if parts else (Rendered("", ""), False)

    async def _write(self, rendered: Rendered, tools: tuple[ToolStatus, ...], is_whole: bool) -> bool:
        """Edit the text into the message that grows, or send one. Returns False if another process shows this run."""
        if self._whole == len(self._rows):
            place = self._destination, self._session, self._run_id, self._owner
            opening = asyncio.create_task(in_db(outbox.open_draft, *place, self._whole))
            self._openings.append(opening)
            opened = await asyncio.shield(opening)  # continues if this call times out
            if opened is None:
                return False
            self._rows.append(opened)
        row = self._rows[-1]
        message = replace(outgoing_of(row, rendered), is_draft=not is_whole, tool_statuses=tools)
        if row.provider_message_id:
            await self._adapter.edit(message, row.provider_message_id)
            return True
        row.provider_message_id = await self._adapter.send(message)
        await in_db(transitions.note_draft, row.pk, self._owner, row.provider_message_id)
        return True

    async def _release_all(self) -> None:
        for part, opening in enumerate(self._openings):
            await self._release(part, opening)

    async def _release(self, part: int, opening: asyncio.Task[Delivery | None]) -> None:
        """Release a delivery, whatever failed: as long as it is claimed, nothing is sent under its ordering key."""
        with suppress(Exception):
            if await opening is None:
                return
        key = outbox.draft_key(self._destination, self._run_id, part)
        shown_id = self._rows[part].provider_message_id if part < len(self._rows) else ""
        while not await retry_until_stored(transitions.release_draft, key, self._owner, shown_id):
            await asyncio.sleep(_AGAIN_SECONDS)

    @property
    def _chat(self) -> tuple[UUID, str]:
        return self._destination.account.pk, self._destination.target.chat.id

    def _outgoing(self, rendered: Rendered) -> Outgoing:
        key, target, run_id = f"msg_{self._run_id}", self._destination.target, str(self._run_id)
        return Outgoing(key, target, rendered, session_key=self._session.key, run_id=run_id, is_draft=True)


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
