"""The engine: drives many runs on one event loop. Claims, asks `next_step`, performs, records, until a run rests.

It holds nothing that is not in the database: dying at any point costs the open model call, no more.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import ParamSpec, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError
from django.utils import timezone

from agents_app.errors import Fenced
from agents_app.models import Run
from agents_app.providers import registry
from agents_app.providers.base import ProviderError
from agents_app.runs import hooks, lease, writes
from agents_app.runs.lease import Claim, Held
from agents_app.runs.live_text import LiveText
from agents_app.runs.model_call import Interrupted, ModelCall, build_request
from agents_app.runs.next_step import CANCELLED, DEFECT, End, Think, next_step, out_of_time, stopped
from agents_app.runs.retry_policy import retry_delay
from agents_app.runs.writes import Spent
from agents_app.types import RunStatus, Snapshot
from audit_app.kernel import context, valkey
from audit_app.kernel.database import in_db, is_away
from audit_app.kernel.durable_writes import run_until_stored
from audit_app.stream import StreamWriter
from tools_app.policy import emergency_stop

logger = logging.getLogger(__name__)

_STOPPED_SECONDS = 2.0  # that runs take to note that their model calls were stopped

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class _Drive:
    """One run being driven here. began: when its time was last accounted for, by the monotonic clock; tries: failed
    tries of the present model call; reset: why viewers must forget text of the first step, if they must."""

    claim: Claim
    live: LiveText
    tries: int
    reset: str
    began: float = field(default_factory=time.monotonic)
    call: ModelCall | None = None

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def spend(self, started_at: datetime) -> Spent:
        """Account for the time since the last account."""
        seconds, self.began = self.elapsed, time.monotonic()
        return Spent(seconds, started_at)


class Engine:
    """The runs of one worker process. All methods belong to its event loop, but `ring`, which any thread may call."""

    def __init__(self, owner: UUID) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._valkey = valkey.async_client()
        self._writer = StreamWriter(self._valkey)
        self._sending = self._loop.create_task(self._writer.run())
        self._drives: dict[UUID, _Drive] = {}
        self._claims: list[float] = []  # when those that are still being made were begun, by the loop's clock
        self._strays: dict[tuple[UUID, int], float] = {}  # run and fence: when it was first seen not to be driven
        self._broken_off = self._looked_for = 0  # drives, each of which may have left a stray; so many at the last look
        self._tasks: set[asyncio.Task[bool]] = set()
        self._draining = False
        self._time_is_up = False  # of the drain: no model call may go on

    def ring(self, run_id: UUID) -> None:
        """There may be something to do for this run. Ignored when all slots are taken: a freed one looks for itself."""
        self._loop.call_soon_threadsafe(self.offer, run_id)

    def offer(self, run_id: UUID | None = None) -> None:
        """Take the run, or the oldest claimable one, if a slot is free."""
        if self._draining or len(self._tasks) >= settings.KOMAND_RUN_SLOTS or run_id in self._drives:
            return
        task = self._loop.create_task(self._work(run_id))
        self._tasks.add(task)
        task.add_done_callback(self._free)

    def _free(self, task: asyncio.Task[bool]) -> None:
        """A slot is free. We may have ignored a bell while all were taken: it takes what has waited longest. One that
        looked and found nothing does not look again."""
        were_full = len(self._tasks) >= settings.KOMAND_RUN_SLOTS
        self._tasks.discard(task)
        if were_full and not task.cancelled() and task.result():
            self.offer()

    async def look_after(self) -> None:
        """Stop model calls that someone cancelled or stopped, or that another process took over; give back what nobody
        drives."""
        broken_off = self._broken_off
        if not (self._drives or self._tasks or self._strays) and broken_off == self._looked_for:
            return
        drives = list(self._drives.items())  # before the look: one that begins meanwhile may not be in it
        held = await in_db(lease.list_held, self._owner)
        self._looked_for = broken_off
        for run_id, drive in drives:
            seen = held.get(run_id)
            if drive.call is None:
                continue
            if seen is None or seen.run.fence != drive.claim.fence:
                drive.call.stop("fenced")
            elif seen.run.cancel_requested_at:
                drive.call.stop("cancelled")
            elif seen.is_stopped:
                drive.call.stop("stopped")
        for run in self._orphaned_claims(held):
            await in_db(lease.release, run, self._owner, active_seconds=0.0)

    def _orphaned_claims(self, held: dict[UUID, Held]) -> list[Run]:
        """Twice seen and not driven: claims whose drive broke off, say because the database went away. Not one that is
        still being loaded, which was begun before it could be seen."""
        now, oldest_claim = self._loop.time(), min(self._claims, default=math.inf)
        before, self._strays = self._strays, {}
        for run_id, seen in held.items():
            if run_id not in self._drives:
                stray = run_id, seen.run.fence
                self._strays[stray] = before.get(stray, now)
        lost = [stray for stray, since in self._strays.items() if stray in before and since <= oldest_claim]
        return [held[run_id].run for run_id, _ in lost]

    async def drain(self, seconds: float) -> None:
        """Take nothing new; let each run reach its step border within the time, then give the rest back."""
        self._draining = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        self._time_is_up = True
        for drive in list(self._drives.values()):
            if drive.call:
                drive.call.stop("drained")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOPPED_SECONDS)
        self._sending.cancel()
        await asyncio.wait({self._sending})
        await self._valkey.aclose()

    async def _work(self, run_id: UUID | None) -> bool:
        """Claim and drive. Whether it is worth looking for a further run."""
        try:
            claim = await self._claim(run_id)
            if claim is None:
                return run_id is not None  # another bell may have been ignored meanwhile
            for tell in hooks.on_claim:
                tell(claim.run.id, claim.run.conversation_id, claim.run.session_key)
            with context.bind(
                request_id=claim.run.request_id,
                actor=f"agent:{claim.run.agent.agent_id}",
                session_id=str(claim.run.conversation_id),
                run_id=str(claim.run.id),
            ):
                await self._drive_to_rest(claim)
        except Fenced:
            self._broken_off += 1
            logger.info("run %s was taken over; this claim stops", run_id)
        except Exception:
            self._broken_off += 1
            logger.exception("driving run %s broke off", run_id)
        return True

    async def _claim(self, run_id: UUID | None) -> Claim | None:
        began = self._loop.time()
        self._claims.append(began)
        try:
            return await in_db(lease.claim, self._owner, run_id)
        finally:
            self._claims.remove(began)

    async def _drive_to_rest(self, claim: Claim) -> None:
        live = LiveText(self._writer, claim.run.id, claim.fence)
        reset = "" if not claim.resumes else "retry" if claim.run.tries else "resumed"
        drive = self._drives[claim.run.id] = _Drive(claim, live, claim.run.tries, reset)
        snapshot: Snapshot | None = claim.snapshot
        try:
            while snapshot is not None:
                step = next_step(snapshot)
                if not isinstance(step, Think):
                    snapshot = await self._persist(writes.decide_and_apply, claim, snapshot)
                elif self._draining:
                    spent = drive.spend(timezone.now())
                    await in_db(lease.release, claim.run, claim.owner, active_seconds=spent.active_seconds)
                    return
                else:
                    snapshot = await self._think(drive, snapshot, step)
        except Fenced:
            raise
        except Exception as error:
            if is_away(error):
                raise  # what that interrupts is no fault of the run: `look_after` gives it back
            partial = drive.call.text if drive.call else ""
            await in_db(writes.end_early, claim, DEFECT, partial=partial, spent=drive.spend(timezone.now()))
            raise
        finally:
            del self._drives[claim.run.id]

    async def _think(self, drive: _Drive, snapshot: Snapshot, step: Think) -> Snapshot | None:
        claim, started_at = drive.claim, timezone.now()
        drive.live.begin(step.step, reset=drive.reset)
        drive.reset = ""
        try:
            # As a rule it is open by now: through the database door it would wait behind other runs' writes.
            provider = registry.find_open(claim.provider)
            if provider is None:
                provider = await in_db(registry.open_provider, claim.provider)
            request = build_request(claim, snapshot, may_call_tools=step.may_call_tools)
            drive.call = ModelCall(provider, request, drive.live)
            if self._time_is_up:
                drive.call.stop("drained")
            outcome = await drive.call.run(
                seconds_left=snapshot.limits.active_seconds - snapshot.active_seconds - drive.elapsed
            )
        except ProviderError as error:
            await self._after_error(drive, snapshot, error, started_at)
            return None
        partial, drive.call = drive.call.text, None
        await drive.live.flush()
        spent = drive.spend(started_at)
        if isinstance(outcome, Interrupted):
            await self._after_interruption(claim, snapshot, outcome.why, partial, spent)
            return None
        drive.tries = 0
        return await self._persist(writes.record_and_decide, claim, snapshot, step.step, outcome, spent)

    async def _after_interruption(self, claim: Claim, snapshot: Snapshot, why: str, partial: str, spent: Spent) -> None:
        match why:
            case "cancelled":
                await self._persist(writes.end_early, claim, CANCELLED, partial=partial, spent=spent)
            case "stopped":
                why = await in_db(emergency_stop.why_stopped, claim.run.agent.agent_id) or "Stopped by an operator."
                await self._persist(writes.end_early, claim, stopped(why), partial=partial, spent=spent)
            case "time_limit":
                await self._persist(writes.end_early, claim, out_of_time(snapshot), partial=partial, spent=spent)
            case "drained":
                await in_db(lease.release, claim.run, claim.owner, active_seconds=spent.active_seconds)
            case _:
                raise Fenced

    async def _after_error(self, drive: _Drive, snapshot: Snapshot, error: ProviderError, started_at: datetime) -> None:
        partial, drive.call = drive.call.text if drive.call else "", None
        spent = drive.spend(started_at)
        delay = retry_delay(
            snapshot.limits, drive.tries + 1, retryable=error.retryable, retry_after_seconds=error.retry_after_seconds
        )
        logger.warning("model call failed (%s, try %d): %s", error.code, drive.tries + 1, error.message)
        if delay is None:
            failure = End(RunStatus.FAILED, error.code, error.message)
            await self._persist(writes.end_early, drive.claim, failure, partial=partial, spent=spent)
            return
        await self._persist(writes.park_for_retry, drive.claim, delay, error, partial=partial, spent=spent)
        self._loop.call_later(delay + 0.02, self.offer, drive.claim.run.id)

    async def _persist(self, write: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A write that must not be lost: while the database is away, wait and try again; the fence decides then."""
        tries = 0

        def attempt() -> T:
            nonlocal tries
            tries += 1
            return write(*args, **kwargs)

        try:
            return await run_until_stored(attempt, gives_up=lambda: self._draining)
        except IntegrityError:
            if tries == 1:
                raise
            # It is there already: an earlier try was stored, and the database went away before it said so. Whoever
            # claims the run next reads it.
            raise Fenced from None
