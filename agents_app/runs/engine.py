"""The engine: executes many runs on one event loop. It claims a run, calls its model and records the response.

All state is in the database: a crash at any point loses the open model call only.
"""

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from datetime import datetime
from typing import ParamSpec, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError
from django.utils import timezone

from agents_app.configuration.fallbacks import model_name
from agents_app.errors import Fenced
from agents_app.models import Run
from agents_app.prompt import context_size
from agents_app.providers import registry
from agents_app.providers.base import ProviderError
from agents_app.runs import compaction_step, hooks, lease, network_step, run_policy, transcription_step, turns, writes
from agents_app.runs.claims import Claim, HeldBack
from agents_app.runs.drive import Drive, bound, end_after
from agents_app.runs.lease import Held
from agents_app.runs.live_text import LiveText, NoLiveText
from agents_app.runs.model_call import Interrupted, ModelCall, build_request, chunks_of
from agents_app.runs.next_step import DEFECT, Compact, End, ModelStep, Think, Transcribe, next_step
from agents_app.runs.question_step import advance_question
from agents_app.runs.reservations import reserve
from agents_app.runs.writes import Spent
from agents_app.types import ModelChunk, ModelResponse, RunStatus, Snapshot
from agents_app.types.context import ContextOverflow
from agents_app.types.run_cost import Fallback
from audit_app import live_copies
from audit_app.kernel import valkey
from audit_app.kernel.database import in_db, is_away, run_until_stored
from audit_app.stream import StreamWriter

logger = logging.getLogger(__name__)

_STOPPED_SECONDS = 2.0  # for runs to handle that their model calls were stopped

P = ParamSpec("P")
T = TypeVar("T")


class Engine:
    """The runs of one worker process. Only `nudge` may be called from outside its event loop."""

    def __init__(self, owner: UUID) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._valkey = valkey.async_client()
        self._writer = StreamWriter(self._valkey)
        self._sending = self._loop.create_task(self._writer.run())
        self._drives: dict[UUID, Drive] = {}
        self._claims: list[float] = []  # start times of unfinished claims, by the loop's clock
        self._offered: dict[UUID, bool] = {}  # runs with an unfinished claim, and whether they were offered again
        self._orphans: dict[tuple[UUID, int], float] = {}  # (run, fence): time when it was first found without a drive
        self._failed_drives = self._failures_checked = 0  # each failed drive may have left an orphaned claim
        self._held_back, self._last_actor = set[str](), ""  # users with too many runs; the user of the last claim
        self._tasks: set[asyncio.Task[bool]] = set()
        self._draining = False
        self._drain_expired = False  # no model call may continue

    def nudge(self, run_id: UUID) -> None:
        """Try to claim this run. Ignored while all slots are taken: a freed slot looks for a claimable run."""
        self._loop.call_soon_threadsafe(self.offer, run_id)

    def offer(self, run_id: UUID | None = None, actor: str = "") -> None:
        """Start to claim the run, or the next one, of one user or of all, if a slot is free.

        A run whose claim is not answered yet has no second one: if it cannot be claimed, it is offered again.
        """
        if run_id in self._offered:
            self._offered[run_id] = True
            return
        if self._draining or len(self._tasks) >= settings.KOMAND_RUN_SLOTS or run_id in self._drives:
            return
        if run_id:
            self._offered[run_id] = False
        task = self._loop.create_task(self._work(run_id, actor))
        self._tasks.add(task)
        task.add_done_callback(self._free)

    def _free(self, task: asyncio.Task[bool]) -> None:
        """Free a slot. If all were taken, a nudge may have been ignored: claim the next claimable run.

        A slot that found no run does not look again.
        """
        were_full = len(self._tasks) >= settings.KOMAND_RUN_SLOTS
        self._tasks.discard(task)
        if were_full and not task.cancelled() and task.result():
            self.offer()

    async def look_after(self) -> None:
        """Stop the calls of runs that were cancelled, stopped or claimed elsewhere; release orphaned claims."""
        failed_drives = self._failed_drives
        if not (self._drives or self._tasks or self._orphans) and failed_drives == self._failures_checked:
            return
        drives = list(self._drives.items())  # before the read: a drive that starts meanwhile may not be in its result
        held = await in_db(lease.list_held, self._owner)
        self._failures_checked = failed_drives
        for run_id, drive in drives:
            reason = lease.reason_to_stop(drive.claim, held.get(run_id))
            if drive.call and reason:
                drive.call.stop(reason)
        for run in self._orphaned_claims(held):
            await in_db(lease.release, run, self._owner, active_seconds=0.0)

    async def look_after_turns(self) -> None:
        """Show the waits of users that were held back, who may have got a free place in another process."""
        for actor in list(self._held_back):
            self.offer(actor=actor)
            await in_db(turns.show_waits, actor)

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

    async def _work(self, run_id: UUID | None, actor: str) -> bool:
        """Claim and execute a run. Return whether there may be another run to claim."""
        try:
            claim = await self._claim(run_id, actor)
            if claim is None:
                self._held_back.discard(actor)
                return bool(run_id or actor)  # another nudge may have been ignored meanwhile
            self._last_actor = claim.run.actor
            for notify in hooks.on_claim if claim.run.parent_id is None else ():
                notify(claim.run.id, claim.run.conversation_id, claim.run.session_key)
            with bound(claim.run):
                await self._execute(claim)
        except HeldBack as held_back:
            self._held_back.add(held_back.actor)
        except Fenced:
            self._failed_drives += 1
            logger.info("run %s was claimed by another process; this claim stops", run_id)
        except Exception:
            self._failed_drives += 1
            logger.exception("executing run %s failed", run_id)
        return True

    async def _claim(self, run_id: UUID | None, actor: str) -> Claim | None:
        began = self._loop.time()
        self._claims.append(began)
        try:
            claim = await in_db(lease.claim, self._owner, run_id, actor=actor, after=self._last_actor)
            if claim is None and run_id and self._offered[run_id]:
                self._loop.call_soon(self.offer, run_id)  # it may have become claimable after the read
            return claim
        finally:
            self._claims.remove(began)
            if run_id:
                del self._offered[run_id]

    async def _execute(self, claim: Claim) -> None:
        """Execute a run until it waits, ends or is released."""
        live = LiveText(self._writer, claim.run.id, claim.fence)
        reset = "" if not claim.resumes else "retry" if claim.run.tries or claim.run.fallback else "resumed"
        drive = self._drives[claim.run.id] = Drive(claim, live, claim.run.tries, reset)
        snapshot: Snapshot | None = claim.snapshot
        try:
            if claim.run.options.get("network"):
                await self._persist(network_step.advance, claim)
                self._loop.call_soon(self.offer, claim.run.id)  # a task may have ended meanwhile
                return
            while snapshot is not None:
                step = next_step(snapshot)
                if not isinstance(step, ModelStep):
                    snapshot = await self._persist(writes.decide_and_apply, claim, snapshot)
                elif self._draining:
                    spent = drive.spend(timezone.now())
                    await in_db(lease.release, claim.run, claim.owner, active_seconds=spent.active_seconds)
                    return
                elif isinstance(step, Think) and claim.run.options.get("question"):
                    snapshot = await self._persist(advance_question, claim, snapshot)
                elif isinstance(step, Think):
                    snapshot = await self._think(drive, snapshot, step)
                else:
                    snapshot = await self._prepare(drive, snapshot, step)
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
            if claim.run.actor in self._held_back:
                self.offer(actor=claim.run.actor)

    async def _think(self, drive: Drive, snapshot: Snapshot, step: Think) -> Snapshot | None:
        claim, started_at = drive.claim, timezone.now()
        most = await self._persist(reserve, claim, snapshot) if claim.run.may_have_budget else 0
        if most is None:
            return None
        drive.live.begin(step.step, reset=drive.reset)
        drive.reset = ""
        try:
            provider = await registry.opened(claim.provider)
            request = build_request(claim, snapshot, provider, may_call_tools=step.may_call_tools, answer_limit=most)
            outcome = await self._call(drive, snapshot, chunks_of(provider, request), drive.live)
        except ProviderError as error:
            if error.code == "model_context_overflow":
                overflow = ContextOverflow(error.limit_tokens, error.request_tokens, error.message, drive.overflowed)
                drive.call, drive.overflowed = None, True
                return context_size.after_overflow(snapshot, overflow)
            await self._after_error(drive, snapshot, error, started_at)
            return None
        partial, drive.call = drive.call.text if drive.call else "", None
        await drive.live.flush()
        spent = drive.spend(started_at)
        if isinstance(outcome, Interrupted):
            await self._after_interruption(claim, snapshot, outcome.why, partial, spent)
            return None
        drive.tries, drive.overflowed = 0, False
        spent = replace(spent, estimated_tokens=context_size.sent_tokens(snapshot))
        return await self._persist(writes.record_and_decide, claim, snapshot, step.step, outcome, spent)

    async def _call(
        self,
        drive: Drive,
        snapshot: Snapshot,
        chunks: AsyncGenerator[ModelChunk, None],
        live: LiveText | NoLiveText = NoLiveText(),  # noqa: B008 - without state
    ) -> ModelResponse | Interrupted:
        """Make a call of a run. Raises ProviderError."""
        drive.call = ModelCall(chunks, live)
        if self._drain_expired:
            drive.call.stop("drained")
        seconds_left = snapshot.limits.active_seconds - snapshot.active_seconds - drive.elapsed
        return await drive.call.run(seconds_left=seconds_left)

    async def _prepare(self, drive: Drive, snapshot: Snapshot, step: Compact | Transcribe) -> Snapshot | None:
        """Make the call that prepares the next one. A failure is recorded, and the run continues without its result."""
        claim, started_at, failure = drive.claim, timezone.now(), None
        if isinstance(step, Compact):
            preparation = compaction_step.begin(claim, snapshot, step)
        else:
            preparation = transcription_step.begin(claim, snapshot, step)
        outcome: ModelResponse | Interrupted = ModelResponse()
        try:
            outcome = await self._call(drive, snapshot, preparation.chunks)
        except ProviderError as error:
            failure, drive.call = error, None
            delay = drive.retry_delay(snapshot.limits, error) if preparation.is_retried else None
            logger.warning("preparing a model call failed (%s): %s", error.code, error.message)
            if delay is not None:
                await self._park(drive, delay, error, partial="", spent=drive.spend(started_at, error.usage))
                return None
        drive.call, spent = None, drive.spend(started_at)
        if isinstance(outcome, Interrupted):
            await self._after_interruption(claim, snapshot, outcome.why, "", spent)
            return None
        drive.tries = 0
        drive.claim, following = await self._persist(preparation.record, outcome, spent, failure)
        return following

    async def _after_interruption(self, claim: Claim, snapshot: Snapshot, why: str, partial: str, spent: Spent) -> None:
        if why == "drained":
            await in_db(lease.release, claim.run, claim.owner, active_seconds=spent.active_seconds)
            return
        end = await in_db(end_after, why, claim, snapshot)
        if end is None:
            raise Fenced
        await self._persist(writes.end_early, claim, end, partial=partial, spent=spent)

    async def _after_error(self, drive: Drive, snapshot: Snapshot, error: ProviderError, started_at: datetime) -> None:
        partial, drive.call = drive.call.text if drive.call else "", None
        spent = drive.spend(started_at, error.usage)
        delay = drive.retry_delay(snapshot.limits, error)
        logger.warning("model call failed (%s, try %d): %s", error.code, drive.tries + 1, error.message)
        if to := self._next_model(drive.claim, snapshot, error, delay):
            await self._persist(writes.fall_back, drive.claim, to, error, partial=partial, spent=spent)
            self._loop.call_soon(self.offer, drive.claim.run.id)
            return
        if delay is None:
            failure = End(RunStatus.FAILED, error.code, error.message)
            await self._persist(writes.end_early, drive.claim, failure, partial=partial, spent=spent)
            return
        await self._park(drive, delay, error, partial=partial, spent=spent)

    async def _park(self, drive: Drive, delay: float, error: ProviderError, *, partial: str, spent: Spent) -> None:
        await self._persist(writes.park_for_retry, drive.claim, delay, error, partial=partial, spent=spent)
        self._loop.call_later(delay + 0.02, self.offer, drive.claim.run.id)

    @staticmethod
    def _next_model(claim: Claim, snapshot: Snapshot, error: ProviderError, delay: float | None) -> Fallback | None:
        """Return the model to call instead, or None to retry with this one or to fail. delay: until the retry."""
        if not error.another_model_helps:
            return None
        if delay is not None and (error.retry_after_seconds or 0.0) <= snapshot.limits.retry_max_seconds:
            return None
        failed = model_name(claim.provider.name, claim.model)
        return run_policy.next_fallback(claim.run, failed=failed, reason=error.message)

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
