"""Operations on schedules: create, change, delete. The caller has checked access to agent, session and network.

Each operation owns its transaction and is audited.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from agents_app.models import Agent
from audit_app import services as audit
from audit_app.kernel.errors import Conflict, InvalidInput, found
from audit_app.kernel.rules import check_row
from sessions_app.models import InboundMessage, Schedule, Session
from sessions_app.schedules.times import Rhythm
from tools_app.types.authors import PERSON, Author

_UNKNOWN = "There is no such schedule."
MOST_OF_ONE = 50  # schedules of one user, or of one session of a channel
_COMPARED = ("prompt", "origins", "network", "network_context", "cron", "time_zone", "missed", "is_paused", "next_at")


@dataclass(frozen=True)
class Plan:
    """The content of a schedule.

    cron: five fields, or empty for a single time.
    at: that time, aware.
    missed: skip | latest | all.
    network: name of the network that the prompt starts; empty if the agent answers it.
    network_context: values for the prompts of the network.
    author: of the prompt.
    """

    prompt: str
    cron: str = ""
    at: datetime | None = None
    time_zone: str = "UTC"
    missed: str = "latest"
    is_paused: bool = False
    network: str = ""
    network_context: Mapping[str, Any] = field(default_factory=dict)
    author: Author = PERSON

    def next_at(self, now: datetime) -> datetime | None:
        """Return the first time after now. Raises InvalidInput (bad_cron, bad_time_zone, bad_time, prompt_length)."""
        if not self.prompt.strip():
            raise InvalidInput("The prompt is empty. Write what the agent gets.", code="prompt_length")
        rhythm = Rhythm(self.cron or "0 0 * * *", self.time_zone)  # checks the time zone in any case
        if bool(self.cron) == (self.at is not None):
            raise InvalidInput("Give either a cron expression or a single time.", code="bad_time")
        if self.at is not None and self.at <= now:
            raise InvalidInput("The time is in the past. Choose a later one.", code="bad_time")
        return rhythm.next_after(now) if self.cron else self.at


def create(
    task_id: str, plan: Plan, *, agent: Agent, owner: User | None, session: Session | None = None, actor: str
) -> Schedule:
    """Create a schedule.

    owner: the user it acts for; None for the sender of a channel's session.
    session: where the prompt is sent to; None for a session of its own, which takes an owner.
    Raises InvalidInput (see `Plan.next_at`, network_needs_user), Conflict (schedule_exists, too_many_schedules).
    """
    if plan.network and owner is None:
        raise InvalidInput(
            "Networks cannot be scheduled for channel senders. Create the schedule as a user.",
            code="network_needs_user",
        )
    now = timezone.now()
    schedule = Schedule(
        task_id=task_id,
        agent=agent,
        owner=owner,
        session=session,
        destination=_destination(session),
        created_by=actor,
        created_at=now,
    )
    _apply(schedule, plan, now)
    siblings = Schedule.objects.filter(owner=owner, **({} if owner else {"session": session}))
    if siblings.count() >= MOST_OF_ONE:
        raise Conflict(f"There are {MOST_OF_ONE} schedules already. Delete some first.", code="too_many_schedules")
    try:
        with transaction.atomic():
            schedule.save(force_insert=True)
            _record("ScheduleCreated", schedule, actor)
    except IntegrityError:
        problem = f"There is a schedule {task_id!r} of this agent already. Change it, or choose another id."
        raise Conflict(problem, code="schedule_exists") from None
    return schedule


def change(schedule: Schedule, plan: Plan, *, actor: str) -> Schedule:
    """Replace what a schedule does and when. Raises InvalidInput as `Plan.next_at`, and NotFound (unknown_schedule).

    A changed prompt is the caller's, unless the plan has another author than before.
    """
    if plan.prompt.strip() != schedule.prompt and plan.author == schedule.author:
        plan = replace(plan, author=PERSON)
    before = {name: getattr(schedule, name) for name in _COMPARED}
    _apply(schedule, plan, timezone.now())
    changed = [name for name in _COMPARED if getattr(schedule, name) != before[name]]
    with transaction.atomic():
        _lock(schedule)
        schedule.save(update_fields=[*_COMPARED, "updated_at"])
        _record("ScheduleChanged", schedule, actor, changed=changed)
    return schedule


def pause(schedule: Schedule, *, is_paused: bool, actor: str) -> Schedule:
    """Pause or resume. A resumed schedule goes on with the next time from now on; what it missed is left out."""
    return change(schedule, replace(plan_of(schedule), is_paused=is_paused), actor=actor)


def plan_of(schedule: Schedule) -> Plan:
    """Return the present content of a schedule."""
    values = {name: getattr(schedule, name) for name in Plan.__annotations__ if name != "at"}
    return Plan(**values, at=None if schedule.cron else schedule.next_at)


def delete(schedule: Schedule, *, actor: str) -> None:
    with transaction.atomic():
        _record("ScheduleDeleted", schedule, actor)
        Schedule.objects.filter(pk=schedule.pk).delete()


def upcoming(schedule: Schedule, count: int) -> list[datetime]:
    """Return the next times at which a schedule starts; empty if it is paused or over."""
    if schedule.is_paused or schedule.due_at is None:
        return []
    rhythm = Rhythm(schedule.cron, schedule.time_zone) if schedule.cron else None
    times = [schedule.due_at, *(rhythm.upcoming(schedule.due_at, count - 1) if rhythm else ())]
    return [moment + schedule.delay for moment in times]


def find(schedules: QuerySet[Schedule], agent_id: str, task_id: str) -> Schedule:
    """Return the schedule of an agent by its public id. Raises NotFound (unknown_schedule)."""
    rows = schedules.select_related("agent", "session").filter(agent__agent_id=agent_id, task_id=task_id)
    return found(rows.first(), _UNKNOWN, code="unknown_schedule")


def _lock(schedule: Schedule) -> None:
    """Lock the row, in the caller's transaction. Raises NotFound if it was deleted meanwhile."""
    rows = Schedule.objects.select_for_update(no_key=True).filter(pk=schedule.pk)
    found(rows.values_list("pk").first(), _UNKNOWN, code="unknown_schedule")


def _apply(schedule: Schedule, plan: Plan, now: datetime) -> None:
    next_at = plan.next_at(now)
    schedule.origins = plan.author.stored
    schedule.prompt, schedule.cron, schedule.time_zone = plan.prompt.strip(), plan.cron, plan.time_zone
    schedule.missed, schedule.is_paused, schedule.updated_at = plan.missed, plan.is_paused, now
    schedule.network, schedule.network_context = plan.network, plan.network_context
    schedule.next_at = next_at and next_at + schedule.delay
    check_row(schedule)


def _destination(session: Session | None) -> dict[str, Any]:
    """Return the chat of a channel's session, as its newest message has it; empty for other sessions."""
    rows = InboundMessage.objects.filter(session=session, reason="").order_by("-id") if session else None
    newest = rows.first() if rows is not None else None
    if newest is None:
        return {}
    kept = ("chatType", "threadId", "reference")
    return {
        "account": str(newest.account_id),
        "chatId": newest.chat_id,
        "metadata": {name: newest.metadata[name] for name in kept if newest.metadata.get(name)},
    }


def _record(action: str, schedule: Schedule, actor: str, **details: Any) -> None:
    details |= {"schedule": schedule.task_id, "cron": schedule.cron, "time_zone": schedule.time_zone}
    audit.record(action, details=details, actor=actor, agent_id=schedule.agent.agent_id, session_id=schedule.session_id)
