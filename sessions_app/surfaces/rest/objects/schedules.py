"""Schedules over REST: the fields of requests and answers."""

from functools import partial
from typing import Any

from rest_framework.serializers import BooleanField, CharField, ChoiceField, DateTimeField, DictField, ListField

from agents_app.models import Agent
from sessions_app.models import Schedule, ScheduleTick
from sessions_app.schedules import plans
from sessions_app.schedules.times import Rhythm
from sessions_app.surfaces.base.model_fields import model_field
from sessions_app.surfaces.base.serializers import (
    CamelCaseSerializer,
    NullableText,
    ObjectSerializer,
    Timestamp,
    check_storable,
)

_TIMES = 5
_POLICIES = [value for value, _ in Schedule.MISSED]


_column = partial(model_field, Schedule)


class ScheduleBody(CamelCaseSerializer):
    """A prompt and its times: `cron` or `at`. A change keeps what it leaves out."""

    prompt = _column("prompt", help_text="The message that the agent gets.")
    cron = _column("cron", default="", help_text="Five fields, such as 0 9 * * 1-5.")
    at = DateTimeField(default=None, allow_null=True, help_text="A single time, instead of cron.")
    time_zone = _column("time_zone", default="UTC", help_text="IANA name, such as Europe/Berlin.")
    missed = _column("missed", default="latest", help_text="Handling of times at which Komand was not running.")
    is_paused = BooleanField(default=False)
    network = _column("network", default="", help_text="Network that the prompt starts, instead of the agent.")
    network_context = DictField(
        default=dict, validators=[check_storable], help_text="Values for the prompts of the network."
    )


class NewScheduleBody(ScheduleBody):
    agent_id = model_field(Agent, "agent_id", default="default", help_text="")
    task_id = _column("task_id", help_text="")
    session_id = CharField(
        max_length=512,
        default="",
        allow_blank=True,
        help_text="Session that the prompt is sent to. Default: a new session.",
    )


class ScheduleTickOut(ObjectSerializer):
    due_at = Timestamp()
    handled_at = Timestamp()
    status = ChoiceField(choices=[value for value, _ in ScheduleTick.STATUSES])
    is_manual = BooleanField()
    run_id = CharField(allow_null=True)
    error = NullableText()


class ScheduleOut(ObjectSerializer):
    agent_id = CharField()
    task_id = CharField()
    session_id = CharField(allow_null=True)
    prompt = CharField()
    network = NullableText()
    network_context = DictField()
    cron = CharField()
    explained = CharField(help_text="Description of the expression; empty for a single time.")
    time_zone = CharField()
    missed = ChoiceField(choices=_POLICIES)
    is_paused = BooleanField()
    next_at = Timestamp(allow_null=True, help_text="The next start: a time, and the schedule's seconds in its minute.")
    upcoming = ListField(child=Timestamp(), help_text="The next five starts.")
    created_at = Timestamp()
    updated_at = Timestamp()

    @classmethod
    def of(cls, subject: Schedule, **given: Any) -> dict[str, Any]:
        explained = Rhythm(subject.cron, subject.time_zone).explained() if subject.cron else ""
        return super().of(
            subject,
            agent_id=subject.agent.agent_id,
            session_id=subject.session.key if subject.session else None,
            upcoming=plans.upcoming(subject, _TIMES),
            explained=explained,
            **given,
        )


class ScheduleInFullOut(ScheduleOut):
    history = ListField(child=ScheduleTickOut(), help_text="The newest 50 times that were handled.")


class StartedRunOut(ObjectSerializer):
    run_id = CharField()
