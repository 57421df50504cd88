"""The preview of one run: typing at first, then the text so far, as its platform allows."""

import asyncio
import logging
import time
from contextlib import suppress
from uuid import UUID

from agents_app.events import MESSAGE_RESET, RUN_ENDS, SNAPSHOT, TEXT_DELTA
from audit_app.kernel.database import in_db
from audit_app.kernel.durable_writes import retry_until_stored
from sessions_app.channels.base import ChannelAdapter, SendCertainty, SendError, Unsupported
from sessions_app.channels.messages import Outgoing, Rendered
from sessions_app.channels.outbound import outbox, transitions
from sessions_app.channels.outbound.outbox import Destination
from sessions_app.channels.outbound.rate_limiter import Pacing
from sessions_app.channels.outbound.sender import outgoing_of
from sessions_app.channels.rendering.renderer import close_open_marks, latest
from sessions_app.conversation.citations import unnumbered
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.viewer import Viewer
from sessions_app.models import Delivery, Session
from tools_app.events import APPROVAL_DECIDED, APPROVAL_REQUESTED, INPUT_REQUESTED, TOOL_COMPLETED, TOOL_FAILED

logger = logging.getLogger(__name__)

_CALL_SECONDS = 15.0
_AGAIN_SECONDS = 1.0


class RunText:
    """All that a run has said so far, step by step. Pure."""

    def __init__(self, run_id: UUID) -> None:
        self._run_id = run_id
        self._steps: dict[int, str] = {}
        self._asks: set[str] = set()
        self.is_over = False

    def see(self, fact: SessionEvent) -> bool:
        """Take a fact in; whether anything changed."""
        if fact.run_id != self._run_id:
            return False
        step = fact.step or 0
        if fact.type == TEXT_DELTA.name:
            said = self._steps.get(step, "")
            self._steps[step] = said[: fact.payload["offset"]] + fact.payload["text"]
        elif fact.type == SNAPSHOT.name:
            self._steps[step] = fact.payload["text"]
        elif fact.type == MESSAGE_RESET.name:
            self._steps[step] = ""
        elif fact.type == APPROVAL_REQUESTED.name:
            self._asks.add(fact.payload["approval_id"])
        elif fact.type == APPROVAL_DECIDED.name:
            self._asks.discard(fact.payload["approval_id"])
        elif fact.type == INPUT_REQUESTED.name:
            self._asks.add(fact.payload["execution_id"])
        elif fact.type in (TOOL_COMPLETED.name, TOOL_FAILED.name):
            self._asks.discard(fact.payload["execution_id"])
        elif fact.type in RUN_ENDS:
            self.is_over = True
        else:
            return False
        return True

    @property
    def waits_for_person(self) -> bool:
        """Nothing is being written then, perhaps for long."""
        return bool(self._asks)

    @property
    def text(self) -> str:
        return unnumbered("\n\n".join(said.strip() for _, said in sorted(self._steps.items()) if said.strip()))


class Preview:
    """One run in one chat. row: the delivery in whose place it is shown, where it is a message of its own."""

    def __init__(
        self,
        owner: UUID,
        pacing: Pacing,
        adapter: ChannelAdapter,
        destination: Destination,
        session: Session,
        run_id: UUID,
    ) -> None:
        self._owner, self._pacing, self._adapter = owner, pacing, adapter
        self._destination, self._session, self._run_id = destination, session, run_id
        self._capabilities = adapter.capabilities(destination.target.chat)
        self._drafts, self._types = self._capabilities.drafts, self._capabilities.typing
        self.is_refused = False  # by the platform: it is not to be asked again for this run
        self._text = RunText(run_id)
        self._changed, self._over = asyncio.Event(), asyncio.Event()
        self._row: Delivery | None = None
        self._opening: asyncio.Task[Delivery | None] | None = None
        self._last = ""
        self._shown_at = self._typed_at = float("-inf")

    async def run(self, cursor: str) -> None:
        """Until the run is over or the platform wants no more. cursor: before the run's first event."""
        watching = asyncio.create_task(self._watch(cursor))
        try:
            while not self._over.is_set() and (self._types or self._drafts != "none"):
                self._changed.clear()
                pause = await self._show()
                if pause:
                    await _rest(self._over, pause)
                else:
                    await _rest(self._changed, self._lasts_seconds())
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            if self._opening is not None:
                releasing = asyncio.create_task(self._release(self._opening))
                try:
                    await asyncio.shield(releasing)
                except asyncio.CancelledError:  # the process ends just then
                    await releasing
                    raise

    @property
    def waits_for_person(self) -> bool:
        return self._text.waits_for_person

    async def _watch(self, cursor: str) -> None:
        try:
            while not self._text.is_over:
                async with Viewer(self._session.id, cursor) as viewer:
                    async for frame in viewer.frames():
                        cursor = frame[-1].cursor
                        for fact in frame:
                            if self._text.see(fact):
                                self._changed.set()
                        if self._text.is_over:
                            return
                    if not viewer.overflowed:
                        return
        finally:
            self._over.set()
            self._changed.set()

    @property
    def _shows_text(self) -> bool:
        return self._drafts != "none" and bool(self._text.text)

    def _lasts_seconds(self) -> float | None:
        """How long what is shown stays by itself; None: for ever, or as long as it may."""
        if self._text.waits_for_person:
            return None
        if self._types and not self._shows_text:
            return self._capabilities.typing_seconds
        return self._capabilities.draft_keep_seconds if self._last else None

    async def _show(self) -> float | None:
        """Show what there is; the seconds to be silent then. A platform that refuses is not asked again."""
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                if self._text.waits_for_person:
                    return None
                if self._shows_text:
                    return await self._show_text()
                if self._types and time.monotonic() - self._typed_at >= self._capabilities.typing_seconds:
                    self._typed_at = time.monotonic()
                    await self._adapter.typing(self._destination.target)
                return None
        except SendError as error:
            if error.fate is SendCertainty.NOT_SENT:
                seconds = error.retry_after_seconds or max(self._capabilities.draft_seconds * 4, 1.0)
                if error.retry_after_seconds:
                    self._pacing.hold(self._chat, seconds, whole_account=error.slows_account)
                return seconds
            logger.info("%s shows no more of run %s: %s", self._destination.account, self._run_id, error.message)
        except (TimeoutError, Unsupported):
            logger.info("%s shows no more of run %s", self._destination.account, self._run_id)
        self._drafts, self._types, self.is_refused = "none", False, True
        return None

    async def _show_text(self) -> float | None:
        rendered = self._rendered()
        lasts = self._capabilities.draft_keep_seconds
        is_stale = lasts is not None and time.monotonic() - self._shown_at >= lasts
        if not rendered.text or (rendered.body == self._last and not is_stale):
            return None
        if self._drafts == "native":
            if wait := self._pacing.take_preview(self._chat, self._capabilities):
                return wait
            await self._adapter.draft(self._outgoing(rendered), outbox.draft_id_of(self._run_id))
        elif self._row is None and await in_db(outbox.is_ordering_key_busy, self._destination.ordering_key):
            return self._capabilities.draft_seconds  # an earlier answer has yet to go out: ours would stand above it
        elif wait := self._pacing.take_preview(self._chat, self._capabilities):
            return wait
        elif not await self._write(rendered):
            self._drafts, self._types = "none", False
            return None
        self._last, self._shown_at = rendered.body, time.monotonic()
        return self._capabilities.draft_seconds

    def _rendered(self) -> Rendered:
        """A preview that vanishes shows where the text has got to; a message shows what it will hold in the end."""
        text, enough = self._text.text, 2 * self._capabilities.max_text
        near = latest(text, enough) if self._drafts == "native" else text[:enough]
        parts = self._adapter.render(close_open_marks(near), self._destination.target.chat)
        texts = [part for part in parts if not part.filename]
        return texts[-1] if self._drafts == "native" else texts[0]

    async def _write(self, rendered: Rendered) -> bool:
        """Into our message there, sent now if there is none. False: another process shows this run."""
        if self._row is None:
            opening = in_db(outbox.open_draft, self._destination, self._session, self._run_id, self._owner)
            self._opening = asyncio.create_task(opening)
            self._row = await asyncio.shield(self._opening)  # it goes on when this takes too long
            if self._row is None:
                return False
        message = outgoing_of(self._row, rendered)
        if self._row.provider_message_id:
            await self._adapter.edit(message, self._row.provider_message_id)
            return True
        self._row.provider_message_id = await self._adapter.send(message)
        await in_db(transitions.note_draft, self._row.pk, self._owner, self._row.provider_message_id)
        return True

    async def _release(self, opening: asyncio.Task[Delivery | None]) -> None:
        """Whatever broke off: as long as the row is ours, nothing goes out there."""
        with suppress(Exception):
            if await opening is None:
                return  # it is another's
        key = outbox.draft_key(self._destination, self._run_id)
        shown_id = self._row.provider_message_id if self._row else ""
        while not await retry_until_stored(transitions.release_draft, key, self._owner, shown_id):
            await asyncio.sleep(_AGAIN_SECONDS)

    @property
    def _chat(self) -> tuple[UUID, str]:
        return self._destination.account.pk, self._destination.target.chat.id

    def _outgoing(self, rendered: Rendered) -> Outgoing:
        return Outgoing(
            key=f"msg_{self._run_id}",
            target=self._destination.target,
            rendered=rendered,
            session_key=self._session.key,
            run_id=str(self._run_id),
        )


async def _rest(event: asyncio.Event, seconds: float | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
