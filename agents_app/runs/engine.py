"""The engine: executes many runs on one event loop. It claims a run, calls its model and records the response.

All state is in the database: a crash at any point loses the open model call only.
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
from agents_app.runs.next_step import CANCELLED, DEFECT, REPEATS, End, Think, next_step, out_of_time, stopped, too_long
from agents_app.runs.retry_policy import retry_delay
from agents_app.runs.writes import Spent
from agents_app.types import RunStatus, Snapshot
from audit_app import live_copies
from audit_app.kernel import context, valkey
from audit_app.kernel.database import in_db, is_away
from audit_app.kernel.durable_writes import run_until_stored
from audit_app.stream import StreamWriter
from tools_app.policy import emergency_stop

logger = logging.getLogger(__name__)

_STOPPED_SECONDS = 2.0  # for runs to handle that their model calls were stopped

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class _Drive:
    """The execution of one claimed run.

    tries: failed tries of the current model call
    reset: the reason why viewers must discard text of the first step; empty if they need not
    began: monotonic time up to which active seconds are accounted for
    """

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
        """Return the time since the last account, and start a new one."""
        seconds, self.began = self.elapsed, time.monotonic()
        return Spent(seconds, started_at)


class Engine:
    """The runs of one worker process. Only `nudge` may be called from outside its event loop."""

    def __init__(self, owner: UUID) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._valkey = valkey.async_client()
        self._writer = StreamWriter(self._valkey)
        self._sending = self._loop.create_task(self._writer.run())
        self._drives: dict[UUID, _Drive] = {}
        self._claims: list[float] = []  # start times of unfinished claims, by the loop's clock
        self._orphans: dict[tuple[UUID, int], float] = {}  # (run, fence): time when it was first found without a drive
        self._failed_drives = self._failures_checked = 0  # each failed drive may have left an orphaned claim
        self._tasks: set[asyncio.Task[bool]] = set()
        self._draining = False
        self._drain_expired = False  # no model call may continue

    def nudge(self, run_id: UUID) -> None:
        """Try to claim this run. Ignored while all slots are taken: a freed slot looks for a claimable run."""
        self._loop.call_soon_threadsafe(self.offer, run_id)

    def offer(self, run_id: UUID | None = None) -> None:
        """Start to claim the run, or the oldest claimable one, if a slot is free."""
        if self._draining or len(self._tasks) >= settings.KOMAND_RUN_SLOTS or run_id in self._drives:
            return
        task = self._loop.create_task(self._work(run_id))
        self._tasks.add(task)
        task.add_done_callback(self._free)

    def _free(self, task: asyncio.Task[bool]) -> None:
        """Free a slot. If all were taken, a nudge may have been ignored: claim the oldest claimable run.

        A slot that found no run does not look again.
        """
        were_full = len(self._tasks) >= settings.KOMAND_RUN_SLOTS
        self._tasks.discard(task)
        if were_full and not task.cancelled() and task.result():
            self.offer()

    async def look_after(self) -> None:
        """Stop the model calls of runs that were cancelled, stopped or claimed by another process; release orphaned
        claims."""
        failed_drives = self._failed_drives
        if not (self._drives or self._tasks or self._orphans) and failed_drives == self._failures_checked:
            return
        drives = list(self._drives.items())  # before the read: a drive that starts meanwhile may not be in its result
        held = await in_db(lease.list_held, self._owner)
        self._failures_checked = failed_drives
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

    async def copy_live_text(self) -> None:
        """Store the text of open steps that Valkey does not take, for viewers. No statement while it does."""
        copies = [copy for drive in self._drives.values() if (copy := drive.live.copy())]
        if copies:
            await in_db(live_copies.store, copies)

    def _orphaned_claims(self, held: dict[UUID, Held]) -> list[Run]:
        """Return the runs that were twice found without a drive, for example because the database went away.

        A run whose claim is still loading is not among them: its claim started before it could be found.
        """
        now, oldest_claim = self._loop.time(), min(self._claims, default=math.inf)
        before, self._orphans = self._orphans, {}
        for run_id, seen in held.items():
            if run_id not in self._drives:
                key = run_id, seen.run.fence
                self._orphans[key] = before.get(key, now)
        lost = [key for key, since in self._orphans.items() if key in before and since <= oldest_claim]
        return [held[run_id].run for run_id, _ in lost]

    async def drain(self, seconds: float) -> None:
        """Claim no more runs, let each reach the end of its step within the time, then release the others."""
        self._draining = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        self._drain_expired = True
        for drive in list(self._drives.values()):
            if drive.call:
                drive.call.stop("drained")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOPPED_SECONDS)
        self._sending.cancel()
        await asyncio.wait({self._sending})
        await self._valkey.aclose()

    async def _work(self, run_id: UUID | None) -> bool:
        """Claim and execute a run. Return whether there may be another run to claim."""
        try:
            claim = await self._claim(run_id)
            if claim is None:
                return run_id is not None  # another nudge may have been ignored meanwhile
            for notify in hooks.on_claim:
                notify(claim.run.id, claim.run.conversation_id, claim.run.session_key)
            with context.bind(
                request_id=claim.run.request_id,
                actor=f"agent:{claim.run.agent.agent_id}",
                session_id=str(claim.run.conversation_id),
                run_id=str(claim.run.id),
            ):
                await self._execute(claim)
        except Fenced:
            self._failed_drives += 1
            logger.info("run %s was claimed by another process; this claim stops", run_id)
        except Exception:
            self._failed_drives += 1
            logger.exception("executing run %s failed", run_id)
        return True

    async def _claim(self, run_id: UUID | None) -> Claim | None:
        began = self._loop.time()
        self._claims.append(began)
        try:
            return await in_db(lease.claim, self._owner, run_id)
        finally:
            self._claims.remove(began)

    async def _execute(self, claim: Claim) -> None:
        """Execute a run until it waits, ends or is released."""
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
                raise  # not a fault of the run: `look_after` releases it
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
            # Usually it is open already; `in_db` would queue behind the writes of other runs.
            provider = registry.find_open(claim.provider)
            if provider is None:
                provider = await in_db(registry.open_provider, claim.provider)
            request = build_request(claim, snapshot, may_call_tools=step.may_call_tools)
            drive.call = ModelCall(provider, request, drive.live)
            if self._drain_expired:
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
            case "too_long":
                end = too_long(settings.KOMAND_MAX_ANSWER_CHARACTERS)
                await self._persist(writes.end_early, claim, end, partial=partial, spent=spent)
            case "repeats":
                await self._persist(writes.end_early, claim, REPEATS, partial=partial, spent=spent)
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
        """Retry a write while the database is away. Raises Fenced if another process has claimed the run by then."""
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
            # An earlier try was committed, but the database went away before confirming it. The next claim reads it.
            raise Fenced from None
