"""The sender of due deliveries, on one event loop: one at a time for each ordering key, many keys at once.

It holds no state that is not in the database. If the process dies while it sends, the sweeper decides what becomes of
the delivery.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar
from uuid import UUID

from django.utils import timezone

from audit_app.kernel.database import in_db, retry_until_stored
from audit_app.kernel.errors import AppError
from sessions_app.channels import accounts
from sessions_app.channels.accounts import Adapters
from sessions_app.channels.nudges import Poller
from sessions_app.channels.nudges import deliveries as delivery_nudge
from sessions_app.channels.outbound import answer_files, chat_migration, doubts, pushes, transitions
from sessions_app.channels.outbound.rate_limiter import LOOP_SECONDS, RateLimiter
from sessions_app.channels.outbound.retry_policy import FailedTry, decide, may_repeat
from sessions_app.channels.outbound.scheduler import Scheduler
from sessions_app.models import Delivery
from sessions_app.platforms.base import ChannelAdapter, SendCertainty, SendError
from sessions_app.platforms.messages import Button, Capabilities, Outgoing, Rendered, Target

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LONGEST_ID = 200
_NOTED_SECONDS = 30.0
_CLOSE_SECONDS = 120.0
_UNUSABLE_SECONDS = 60.0


class _TakenOver(Exception):
    """The delivery belongs to another process now: this one was taken for dead."""


class Sender:
    """Sends deliveries until cancelled. adapters, limiter: shared with the previews of the same loop."""

    def __init__(self, owner: UUID, adapters: Adapters, limiter: RateLimiter) -> None:
        self._owner, self._adapters, self._limiter = owner, adapters, limiter
        self._loop, self._poller = asyncio.get_running_loop(), Poller()
        self._scheduler = Scheduler(adapters, limiter, self._poller.notify)
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._busy: Counter[UUID] = Counter()
        self._noted: dict[UUID, float] = {}

    async def run(self) -> None:
        """Send until cancelled. Sends under way continue; see `aclose`."""
        await self._poller.run(delivery_nudge, self._send_due)

    async def aclose(self) -> None:
        """Wait for the sends under way, however slow the platforms are: if cut off, their outcome would be unknown."""
        if self._sending:
            await asyncio.wait(self._sending.values())

    async def _send_due(self) -> None:
        ready = await self._scheduler.find_ready(self._sending, self._busy)
        claimed = await self._claim(ready) if ready else set()
        for row in ready:
            if row.pk in claimed:
                row.tries += 1
                self._busy[row.account_id] += 1
                task = self._sending[row.ordering_key] = self._loop.create_task(self._carry(row))
                task.add_done_callback(partial(self._end, row.ordering_key, row.account_id))
        await self._adapters.close_replaced(_CLOSE_SECONDS)

    async def _claim(self, ready: Sequence[Delivery]) -> set[int]:
        claiming = self._loop.create_task(in_db(transitions.claim, [row.pk for row in ready], self._owner))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            # The claim is stored all the same. Left so, its deliveries would count as interrupted sends.
            with suppress(Exception):
                await retry_until_stored(transitions.unclaim, await claiming, self._owner)
            raise

    def _end(self, ordering_key: str, account_id: UUID, task: asyncio.Task[None]) -> None:
        del self._sending[ordering_key]
        self._busy[account_id] -= 1
        self._poller.notify()

    async def _carry(self, row: Delivery) -> None:
        """Send a delivery and store the outcome, whatever fails: others of its ordering key wait for that."""
        try:
            await self._send(row)
        except _TakenOver:
            logger.warning("delivery %s was taken over by another process", row.pk)
        except Exception as error:
            logger.exception("the outcome of delivery %s could not be stored", row.pk)
            problem = f"Its outcome could not be stored ({type(error).__name__})."
            await retry_until_stored(transitions.give_up, row, self._owner, "unknown", problem)

    async def _send(self, row: Delivery) -> None:
        try:
            adapter = self._adapters.get(row.account)
            can = adapter.capabilities(Target.from_json(row.target).chat)
        except Exception as error:
            await self._put_off(row, error)
            return
        try:
            message_id = await self._transmit(adapter, can, row)
        except SendError as error:
            await self._after_error(row, can, error)
        except AppError as error:
            await self._after_error(row, can, SendError(error.message, SendCertainty.REFUSED))
        except _TakenOver:
            raise
        except Exception as error:
            logger.exception("sending delivery %s failed", row.pk)
            unknown = SendError(f"Sending failed ({type(error).__name__}).", SendCertainty.UNKNOWN)
            await self._after_error(row, can, unknown)
        else:
            message_id = message_id[:_LONGEST_ID]
            if not await retry_until_stored(transitions.mark_sent, row, self._owner, message_id):
                logger.warning("delivery %s was sent after it had been given up", row.pk)
            await self._note_sent(row)

    async def _put_off(self, row: Delivery, error: Exception) -> None:
        """Postpone a delivery whose account is misconfigured or whose adapter fails, until it is mended or expires."""
        if isinstance(error, AppError):
            problem, cause = error.message, None
        else:
            problem, cause = f"The channel cannot be used ({type(error).__name__}).", error
        logger.error("%s: %s", row.account, problem, exc_info=cause)
        await retry_until_stored(transitions.put_back, row, self._owner, _UNUSABLE_SECONDS, problem, is_try=False)
        await retry_until_stored(accounts.note_error, row.account, problem)

    async def _note_sent(self, row: Delivery) -> None:
        """Store the time for the operator, at most every 30 seconds an account."""
        now = self._loop.time()
        if now - self._noted.get(row.account_id, float("-inf")) >= _NOTED_SECONDS:
            self._noted[row.account_id] = now
            await retry_until_stored(accounts.note_sent, row.account)

    async def _transmit(self, adapter: ChannelAdapter, can: Capabilities, row: Delivery) -> str:
        message = outgoing_of(row)
        if row.filename:
            message = replace(message, file=await retry_until_stored(answer_files.load, row))
        if row.kind == pushes.KIND:
            return await _in_time(adapter.send(await retry_until_stored(pushes.addressed, message)), can)
        chat = (row.account_id, message.target.chat.id)
        is_looping = not message.target.press_id and row.tries == 1 and self._limiter.is_looping(chat)
        if is_looping and not await retry_until_stored(transitions.is_for_person, row, LOOP_SECONDS):
            logger.error("%s: too many messages into one chat in which no person writes; refused", row.account)
            problem = "Too many messages into a chat in which no person writes: this looks like a message loop."
            raise SendError(problem, SendCertainty.REFUSED)
        if row.follows_doubt:
            await _in_time(doubts.send_notice(adapter, message, row.ordering_key), can, SendCertainty.NOT_SENT)
        return await self._edit_or_send(adapter, can, message, row)

    async def _edit_or_send(self, adapter: ChannelAdapter, can: Capabilities, message: Outgoing, row: Delivery) -> str:
        """Edit the message that shows the preview; send a new one if it is gone or cannot hold the text."""
        shown_id = row.provider_message_id
        if shown_id and can.edit_sent and message.file is None:
            try:
                await _in_time(adapter.edit(message, shown_id), can)
                return shown_id
            except SendError as error:
                if error.certainty is not SendCertainty.REFUSED or error.ends_account or error.moved_to:
                    raise
                logger.info("a preview cannot be edited (%s); the answer is sent as a new message", error.message)
            row.provider_message_id = ""
            if not await retry_until_stored(transitions.forget_shown, row, self._owner):
                raise _TakenOver
        return await _in_time(adapter.send(message), can)

    async def _after_error(self, row: Delivery, can: Capabilities, error: SendError) -> None:
        target = Target.from_json(row.target)
        if error.moved_to:
            await retry_until_stored(transitions.put_back, row, self._owner, 0.0, error.message)
            await retry_until_stored(chat_migration.move_chat, row.account, target.chat.id, error.moved_to)
            return
        if error.retry_after_seconds:
            chat = (row.account_id, target.chat.id)
            self._limiter.hold(chat, error.retry_after_seconds, whole_account=error.slows_account)
        is_repeatable = may_repeat(can, shown_id=row.provider_message_id, filename=row.filename)
        now, pause = timezone.now(), error.retry_after_seconds
        failed = FailedTry(error.certainty, row.tries, now, row.expires_at, is_repeatable, pause)
        verdict = decide(failed, can)
        logger.warning("delivery %s by %s: %s, %s", row.pk, row.account, verdict.status, error.message)
        if verdict.status == "pending":
            await retry_until_stored(transitions.put_back, row, self._owner, verdict.seconds, error.message)
            self._loop.call_later(verdict.seconds + 0.02, self._poller.notify)
        else:
            await retry_until_stored(transitions.give_up, row, self._owner, verdict.status, error.message)
        if error.ends_account:
            await retry_until_stored(accounts.set_enabled, row.account, False, why=error.message)
        else:
            await retry_until_stored(accounts.note_error, row.account, error.message)


async def _in_time(
    call: Awaitable[T], capabilities: Capabilities, certainty: SendCertainty = SendCertainty.UNKNOWN
) -> T:
    """Return the platform's answer. Raises SendError, with that certainty, if it takes too long."""
    try:
        async with asyncio.timeout(capabilities.send_seconds + 5.0):
            return await call
    except TimeoutError:
        raise SendError("The platform did not answer in time.", certainty) from None


def outgoing_of(row: Delivery, rendered: Rendered | None = None) -> Outgoing:
    """Return the message of a delivery for its adapter. rendered: another text, such as a preview."""
    return Outgoing(
        key=f"msg_{row.dedupe_key.replace(':', '_')}",
        target=Target.from_json(row.target),
        kind=row.kind,
        rendered=rendered or Rendered(row.text, row.body, row.filename),
        part=row.part,
        parts=row.parts,
        session_key=row.session.key if row.session else "",
        run_id=str(row.run_id or ""),
        buttons=tuple(Button(*button) for button in row.buttons),
    )
