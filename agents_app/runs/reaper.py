"""Reaper and sweeper: a pass of guarded, idempotent updates each second.

Releases the runs of dead processes, re-sends lost nudges, and stores run ends that a conversation has not stored yet.
One statement asks which parts have something to do. One process of the installation does it, the oldest of the live
runs and web processes; the others only nudge their own engine, which needs no broker.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any
from uuid import UUID

from django.db import transaction

from agents_app import conversation_port, hot_queries, selectors
from agents_app.models import Run
from agents_app.runs import claims, deadline_sweep, emergency_stop, hooks, lease, transitions
from agents_app.runs.hooks import Sweep
from agents_app.runs.isolation import isolated
from agents_app.types import RunStatus
from audit_app import services as audit
from audit_app.kernel import liveness, nudges
from audit_app.kernel.compiled_questions import CompiledQuestion
from audit_app.kernel.database import in_db, is_away
from audit_app.kernel.liveness import Observer
from audit_app.kernel.outage import outages
from tools_app import services as tools
from tools_app.policy.emergency_stop import STOPS

logger = logging.getLogger(__name__)

_AT_ONCE = hot_queries.REAPED_AT_ONCE
# Exponential back-off of run ends that cannot be stored, so that they do not crowd out others.
_FIRST_BACK_OFF_SECONDS, _MAX_BACK_OFF_SECONDS = 2.0, 600.0
_MAX_SECONDS_BETWEEN_NUDGES = 8.0

Nudge = Callable[[UUID], None]


def _nudge_by_broker(run_id: UUID) -> None:
    nudges.send(transitions.ADVANCE, (str(run_id),), queue=transitions.QUEUE)


def _has_nudges() -> bool:
    return nudges.has_waiting(transitions.QUEUE)


@dataclass(frozen=True)
class _BackOff:
    seconds: float
    until: float

    @classmethod
    def after(cls, before: "_BackOff | None", now: float, longest: float) -> "_BackOff":
        """Return the first back-off, or one twice as long as the one before."""
        seconds = min(before.seconds * 2, longest) if before else _FIRST_BACK_OFF_SECONDS
        return cls(seconds, now + seconds)


class _Parts:
    """Parts of sweeps, with the question which of them have something to do."""

    def __init__(self, parts: Sequence[Sweep]) -> None:
        self._parts = parts
        self._question = CompiledQuestion([query for part in parts for query in part.finds])

    def run(self, observer: Observer) -> None:
        values: dict[str, Any] = {}
        for part in self._parts:
            values |= part.values()
        answers = iter(self._question.answers(**values))
        for part in self._parts:
            found = [next(answers) for _ in part.finds]
            if any(found) or not found:
                with isolated("a part of a sweep"):
                    part.run(observer)


class Reaper:
    """The reaper of one process. Its methods are synchronous and safe to run in several processes at once."""

    def __init__(
        self,
        nudge: Nudge = _nudge_by_broker,
        *,
        has_nudges: Callable[[], bool] = _has_nudges,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """nudge: notifies the workers of a claimable run.
        has_nudges: returns whether earlier nudges still wait for the workers, so that none is lost.
        clock: monotonic seconds.
        """
        renudge = Sweep(lambda _: self._renudge(), (hot_queries.FIND_PERHAPS_CLAIMABLE,))
        self._all = _Parts([*self._parts(), renudge, *hooks.sweeps])
        self._own = None if nudge is _nudge_by_broker else _Parts([renudge])
        self._observer = Observer()
        self._nudge = nudge
        self._has_nudges = has_nudges
        self._clock = clock
        self._nudged: dict[UUID, _BackOff] = {}  # runs that were claimable at the last sweep
        self._back_offs: dict[UUID, _BackOff] = {}  # of ended runs whose conversation could not store the end

    def take_turn(self) -> None:
        """Sweep, or only nudge while an older process sweeps. Raises if the database is away."""
        if self._observer.comes_first(liveness.current()):
            self.sweep()
        elif self._own:
            self._own.run(self._observer)

    def sweep(self) -> None:
        """Run every part that has something to do, even if another one fails. Raises if the database is away."""
        self._all.run(self._observer)

    def _parts(self) -> list[Sweep]:
        return [
            Sweep(lambda _: self._recover_crashed(), (hot_queries.LIST_HELD_RUNS,)),
            Sweep(lambda _: emergency_stop.end_stopped(), STOPS),
            Sweep(lambda _: self._sweep_tools(), tools.SWEPT),
            Sweep(lambda _: deadline_sweep.sweep(), deadline_sweep.SWEPT),
            Sweep(lambda _: self._store_missed_ends(), (hot_queries.FIND_MISSED_END,)),
        ]

    def _recover_crashed(self) -> None:
        held = hot_queries.LIST_HELD_RUNS.fetch()
        dead = self._observer.dead({run.owner for run in held if run.owner})
        died_together = Counter(run.owner for run in held if run.owner in dead)
        for run in held:
            if run.owner in dead:
                with isolated(f"recovering run {run.id}"):
                    _recover(run, died_together[run.owner])

    def _sweep_tools(self) -> None:
        for run_id in tools.sweep(self._observer):
            lease.refresh_waiting_on(run_id)

    def _renudge(self) -> None:
        """Nudge for runs that have been claimable for longer than a nudge takes. Started runs go first.

        Not for those of users who have as many running runs as they may: they would hide those of others. A run that
        stays claimable, because the workers are slower than its messages, is nudged less and less often.
        """
        lists = (hot_queries.LIST_STARTED_CLAIMABLE, hot_queries.LIST_LATE_CLAIMABLE)
        forgotten = [run_id for rows in lists for (run_id,) in rows.rows(most=claims.most_running())]
        before, now = self._nudged, self._clock()
        self._nudged = {run_id: before[run_id] for run_id in forgotten if run_id in before}
        due = [run_id for run_id in forgotten if run_id not in before or before[run_id].until <= now]
        for run_id in due if due and not self._has_nudges() else ():
            self._nudge(run_id)
            self._nudged[run_id] = _BackOff.after(before.get(run_id), now, _MAX_SECONDS_BETWEEN_NUDGES)

    def _store_missed_ends(self) -> None:
        now = self._clock()
        waiting = {run_id: back_off for run_id, back_off in self._back_offs.items() if back_off.until > now}
        missed = hot_queries.missed_ends().exclude(pk__in=waiting)
        found = list(missed.order_by("ended_at").values_list("id", flat=True)[:_AT_ONCE])
        for run_id in found:
            if self._stores_end(run_id):
                self._back_offs.pop(run_id, None)
            else:
                waiting[run_id] = self._back_offs[run_id]
        if len(found) < _AT_ONCE:  # other ends that had a back-off were stored by other processes, or deleted
            self._back_offs = waiting

    def _stores_end(self, run_id: UUID) -> bool:
        """Store the end of a run. Return False if that failed and is put off, unless the database is away."""
        try:
            _store_end(run_id)
            return True
        except Exception as error:
            if is_away(error):
                raise
            back_off = _BackOff.after(self._back_offs.get(run_id), self._clock(), _MAX_BACK_OFF_SECONDS)
            logger.exception("the end of run %s could not be stored; retrying in %d s", run_id, back_off.seconds)
            self._back_offs[run_id] = back_off
            return False


def _recover(run: Run, held: int) -> None:
    status = lease.recover_crashed(run, held=held)
    if status == RunStatus.FAILED:
        logger.error("run %s failed: its worker died, as %d times before", run.id, run.crashes)
    elif status:
        logger.warning("the worker %s of run %s died; the run was released", run.owner, run.id)


def _store_end(run_id: UUID) -> None:
    """Have the conversation store the end of a run, unless it has been stored."""
    with transaction.atomic():
        if Run.objects.filter(pk=run_id, end_stored=False).update(end_stored=True):
            audit.emit(conversation_port.get().run_ended(selectors.get_transcript(run_id)).events)


async def loop(engine_nudge: Nudge | None = None) -> None:
    """Sweep each second until cancelled, if it is this process's turn. A failed pass is logged.

    engine_nudge: that of a process that claims runs, so that runs continue without a broker. The engine knows which of
        its nudges wait.
    """
    reaper = Reaper(engine_nudge, has_nudges=lambda: False) if engine_nudge else Reaper()
    liveness.set_sweeping(True)
    try:
        while True:
            try:
                await in_db(reaper.take_turn)
                outages.worked()
            except Exception as error:
                outages.failed(logger, error, "a sweep failed; retrying in a second")
            await asyncio.sleep(1)
    finally:
        liveness.set_sweeping(False)  # it may drain for long
