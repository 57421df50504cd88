"""Turns of users: which waiting run gets a place that has become free.

A user is the actor of a run: the owner of its session, or a sender of a channel, who has no user. Child runs have the
actor of their root. A run has a place while a process holds it, so one that waits for tools, for people or for other
runs has none, and every place becomes free without another one.
"""

from uuid import UUID

from django.db import transaction

from agents_app import events, hot_queries
from agents_app.models import Run
from agents_app.runs.claims import Candidate, most_running
from agents_app.runs.run_events import event_of
from agents_app.types import RunStatus, WaitingOn
from agents_app.types.runs import waits_for_place
from audit_app import services as audit


def find_next(*, actor: str = "", after: str = "") -> Candidate | None:
    """Return the run that gets a free place: one that had started, or else the oldest one of a user.

    actor: the user whose place became free; empty: the place is one of the worker.
    after: users get the worker's places in turn, in the order of their names; this one had the last.
    """
    if actor:
        started = Candidate.of(hot_queries.FIND_STARTED_OF_USER.first(actor=actor))
        return started or Candidate.of(hot_queries.FIND_OLDEST_OF_USER.first(actor=actor))
    return Candidate.of(hot_queries.FIND_STARTED.first(most=most_running())) or _next_users(after)


def _next_users(after: str) -> Candidate | None:
    """Return the oldest run of the next user who has one and may run it. One statement for each user who may not."""
    for start in (after, "") if after else ("",):
        while candidate := Candidate.of(hot_queries.FIND_NEXT_USERS.first(after=start)):
            if not candidate.is_held_back:
                return candidate
            start = candidate.run.actor
    return None


def show_waits(actor: str) -> None:
    """Store and emit that some queued runs of a user wait for a place. Idempotent; owns its transactions."""
    for run_id, running in hot_queries.LIST_UNMARKED.rows(actor=actor):
        if (running or 0) >= most_running():
            with transaction.atomic():
                _show_wait(run_id)


def _show_wait(run_id: UUID) -> None:
    unmarked = Run.objects.filter(pk=run_id, status=RunStatus.QUEUED.value, owner=None, waiting_on="")
    if unmarked.update(waiting_on=WaitingOn.PLACE.value) and (run := hot_queries.GET_RUN.first(run_id=run_id)):
        text = waits_for_place(most_running())
        payload = events.RunWaiting(waiting_on=WaitingOn.PLACE.value, reason=text, until=None)
        audit.emit([event_of(run, events.RUN_WAITING, payload)])
