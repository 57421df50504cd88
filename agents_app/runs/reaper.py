"""Reaper and sweeper: one pass a second of guarded, idempotent updates, in every runs and web process.

It frees what dead processes hold, rings for what nobody rang for, and lets conversations store what they missed.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from time import monotonic
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from agents_app import conversation_port, selectors
from agents_app.models import IS_OPEN, Run
from agents_app.runs import emergency_stop, hooks, lease, transitions
from audit_app import services as audit
from audit_app.kernel import nudges
from audit_app.kernel.database import in_db, is_away
from audit_app.liveness import Observer
from tools_app import services as tools

logger = logging.getLogger(__name__)

_LOST_NUDGE_SECONDS = 2
_AT_ONCE = 100
# How long what could not be told is left alone: twice as long each time, so that it keeps nothing else waiting.
_FIRST_REST_SECONDS, _LONGEST_REST_SECONDS = 2.0, 600.0

Ring = Callable[[UUID], None]


def _ring_by_broker(run_id: UUID) -> None:
    if not nudges.is_backed_up(transitions.QUEUE):
        nudges.send(transitions.ADVANCE, (str(run_id),), queue=transitions.QUEUE)


@dataclass(frozen=True)
class _Rest:
    seconds: float
    until: float


class Reaper:
    """One process's reaper. `sweep` is synchronous and safe to run in any number of processes at once."""

    def __init__(self, ring: Ring = _ring_by_broker, *, clock: Callable[[], float] = monotonic) -> None:
        """ring: tells whoever may claim it of a run that nobody rang for."""
        self._observer = Observer()
        self._ring = ring
        self._clock = clock
        self._rests: dict[UUID, _Rest] = {}  # of ended runs whose conversation could not store the end

    def sweep(self) -> None:
        """A part that fails keeps no other from its work. Raises when the database is away: then none can work."""
        parts: list[Callable[[], object]] = [
            self._free_dead,
            emergency_stop.end_stopped,
            self._sweep_tools,
            self._renudge,
            self._store_missed_ends,
            *(partial(sweep, self._observer) for sweep in hooks.sweeps),
        ]
        for part in parts:
            try:
                part()
            except Exception as error:
                if is_away(error):
                    raise
                logger.exception("a part of a sweep failed; again in a second")

    def _free_dead(self) -> None:
        # Unordered: in the order of its ids the planner would walk through all the runs there are.
        held = list(Run.objects.select_related("agent").filter(IS_OPEN, owner__isnull=False).order_by())
        dead = self._observer.dead({run.owner for run in held if run.owner})
        for run in held:
            if run.owner in dead and lease.recover_crashed(run):
                logger.warning("run %s lost its worker %s; it goes on elsewhere", run.id, run.owner)

    def _sweep_tools(self) -> None:
        for run_id in tools.sweep(self._observer):
            transitions.refresh_waiting_on(run_id)

    def _renudge(self) -> None:
        """Runs that could go on for longer than a nudge takes: the nudge or its worker was lost. What has begun goes
        first."""
        due = Now() - timedelta(seconds=_LOST_NUDGE_SECONDS)
        begun = lease.claimable().filter(ready_at=None).order_by()
        waiting = lease.claimable().filter(ready_at__lte=due).order_by("ready_at")
        for forgotten in (begun, waiting):
            for run_id in forgotten.values_list("id", flat=True)[:_AT_ONCE]:
                self._ring(run_id)

    def _store_missed_ends(self) -> None:
        now, due = self._clock(), Now() - timedelta(seconds=_LOST_NUDGE_SECONDS)
        resting = [run_id for run_id, rest in self._rests.items() if rest.until > now]
        untold = Run.objects.filter(end_stored=False, ended_at__lt=due).exclude(pk__in=resting)
        found = list(untold.order_by("ended_at").values_list("id", flat=True)[:_AT_ONCE])
        for run_id in found:
            try:
                _tell(run_id)
            except Exception as error:
                if is_away(error):
                    raise
                self._let_rest(run_id)
            else:
                self._rests.pop(run_id, None)
        if len(found) < _AT_ONCE:  # all there are: what should have been among them was told by others, or is gone
            self._rests = {run_id: rest for run_id, rest in self._rests.items() if rest.until > now}

    def _let_rest(self, run_id: UUID) -> None:
        before = self._rests.get(run_id)
        seconds = min(before.seconds * 2, _LONGEST_REST_SECONDS) if before else _FIRST_REST_SECONDS
        self._rests[run_id] = _Rest(seconds, self._clock() + seconds)
        logger.exception("the end of run %s could not be stored; again in %d s", run_id, seconds)


def _tell(run_id: UUID) -> None:
    """Have the conversation store the end of a run, once."""
    with transaction.atomic():
        if Run.objects.filter(pk=run_id, end_stored=False).update(end_stored=True):
            audit.emit(conversation_port.get().run_ended(selectors.get_transcript(run_id)))


async def loop(ring: Ring = _ring_by_broker) -> None:
    """Sweep each second until cancelled. A failed pass is logged and the next one tries again.

    ring: in a process that claims runs itself, its own bell, so that work goes on without a broker.
    """
    reaper = Reaper(ring)
    while True:
        try:
            await in_db(reaper.sweep)
        except Exception:
            logger.exception("a sweep failed; the next one is in a second")
        await asyncio.sleep(1)
