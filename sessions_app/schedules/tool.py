"""`schedule`: sends a prompt to this conversation at times, for the person of the conversation."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from agents_app.models import Agent
from audit_app.kernel.errors import AppError
from sessions_app.models import Schedule, Session
from sessions_app.schedules import plans
from sessions_app.schedules.plans import Plan
from sessions_app.schedules.times import Rhythm
from tools_app.parameters import parameters, text
from tools_app.policy import readings
from tools_app.types import Effect, Reads, Risk, Tool, ToolContext, ToolError, ToolSpec
from tools_app.types.authors import Author


class ScheduleTool(Tool):
    """Creates, lists and deletes the schedules that the agent has for this person.

    Of high risk: what is scheduled now will act later, when nobody may be watching.
    """

    needs_run = True
    spec = ToolSpec(
        name="schedule",
        description="Remind the person, or do something for them, at a time or regularly; list or delete that.",
        parameters=parameters(
            "action",
            action={"type": "string", "enum": ["create", "list", "delete"]},
            name=text("Short id, such as `daily-report`.", pattern=r"^[A-Za-z0-9_-]{1,120}$"),
            prompt=text("What you will be asked to do then, complete in itself.", minLength=1, maxLength=4_000),
            at=text("Once: ISO 8601, in time_zone if it has no offset."),
            cron=text("Regularly: five cron fields, instead of `at`."),
            time_zone=text("The person's, such as Europe/Berlin. Default UTC."),
        ),
        effect=Effect.KEYED,  # by its name: a second creation is refused, a second deletion finds nothing
        risk=Risk.HIGH,
        timeout_seconds=10,
        reads=Reads.NOTHING,
        sends=(),
    )

    def risk_of(self, arguments: dict[str, Any]) -> Risk:
        return Risk.LOW if arguments.get("action") == "list" else Risk.HIGH

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"schedules": [...]}: those that there are after the call. Raises ToolError."""
        among = Schedule.objects.filter(agent__agent_id=context.agent_id, session_id=context.session_id)
        try:
            match arguments["action"]:
                case "create":
                    _create(arguments, context)
                case "delete":
                    schedule = plans.find(among, context.agent_id, arguments.get("name", ""))
                    plans.delete(schedule, actor=context.actor)
        except AppError as error:
            raise ToolError(error.message) from None
        return {"schedules": [_shown(schedule) for schedule in among]}


def _create(arguments: dict[str, Any], context: ToolContext) -> None:
    """Create the schedule that the arguments describe, once. Raises ToolError and AppError."""
    if not arguments.get("name") or not arguments.get("prompt"):
        raise ToolError("A new schedule needs `name` and `prompt`.")
    zone = arguments.get("time_zone") or "UTC"
    Rhythm("0 0 * * *", zone)  # raises for an unknown zone before `at` is read in it
    moment = _moment(arguments.get("at"), ZoneInfo(zone))
    author = Author(readings.list_origins(context.session_id))
    plan = Plan(arguments["prompt"], arguments.get("cron", ""), moment, time_zone=zone, author=author)
    plan.next_at(timezone.now())
    session = Session.objects.select_related("owner").filter(pk=context.session_id).first()
    agent = Agent.objects.filter(agent_id=context.agent_id).first()
    if session is None or agent is None:
        raise ToolError("The session or the agent was deleted.")
    same = Schedule.objects.filter(agent=agent, session=session, task_id=arguments["name"], prompt=plan.prompt.strip())
    if not same.exists():  # otherwise this call is repeated after a crash
        plans.create(arguments["name"], plan, agent=agent, owner=session.owner, session=session, actor=context.actor)


def _moment(value: str | None, zone: ZoneInfo) -> datetime | None:
    if not value:
        return None
    try:
        if moment := parse_datetime(value):
            return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ToolError(f"{value!r} is not a valid time. Write it as 2026-11-30T09:00.")


def _shown(schedule: Schedule) -> dict[str, Any]:
    next_at = schedule.due_at.isoformat() if schedule.due_at else None
    return {
        "name": schedule.task_id,
        "prompt": schedule.prompt,
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "next": next_at,
    }
