"""Schedules and their ticks."""

from datetime import datetime, timedelta

from django.conf import settings
from django.core.validators import MaxLengthValidator
from django.db import models
from django.db.models import Q

from agents_app.models import Agent
from audit_app.kernel.ids import new_id
from audit_app.kernel.rules import CheckedJSONField, check_object
from sessions_app.models.sessions import Session
from tools_app.types.authors import Author

# The times of schedules spread over so many seconds of their minute; the rest is left for starting them in it.
SPREAD_SECONDS = 50


class Schedule(models.Model):
    """A prompt that is sent to a session at times, by a cron expression or once, and may start a network.

    `next_at` is the next start that has not been handled; null: there is none. `task_id` is unique for an agent and an
    owner, and for an agent and a session if there is no owner.
    """

    MISSED = [("skip", "skip what was missed"), ("latest", "make up for the latest only"), ("all", "make up for each")]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    task_id = models.SlugField(max_length=120, help_text="Public id, used in the API.")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        help_text="User it acts for. Empty: the sender of its channel.",
    )
    session = models.ForeignKey(
        Session,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="Session that the prompt is sent to. Empty: a new session, created at the first run.",
    )
    destination = models.JSONField(
        default=dict,
        blank=True,
        help_text="Chat of a channel, {account, chatId, metadata}: stored here, because messages are deleted "
        "after their retention.",
    )
    prompt = models.TextField(validators=[MaxLengthValidator(10_000)])
    origins = models.TextField(  # noqa: DJ001 - null and empty differ
        null=True,
        blank=True,
        editable=False,
        help_text="Origins of what the run had read that wrote the prompt, one a line. Null: a person wrote it.",
    )
    network = models.CharField(
        max_length=60,
        blank=True,
        default="",
        db_default="",
        help_text="Name of a network that the prompt starts. Empty: the agent answers it.",
    )
    network_context = CheckedJSONField(
        rule=check_object,
        default=dict,
        db_default=models.Value({}, models.JSONField()),
        blank=True,
        help_text="Values for the prompts of the network, a JSON object.",
    )
    cron = models.CharField(
        max_length=120, blank=True, help_text="Cron expression of five fields, such as 0 9 * * 1-5. Empty: run once."
    )
    time_zone = models.CharField(max_length=64, default="UTC", help_text="IANA name, such as Europe/Berlin.")
    missed = models.CharField(
        max_length=8, choices=MISSED, default="latest", help_text="Handling of times at which Komand was not running."
    )
    is_paused = models.BooleanField(default=False)
    next_at = models.DateTimeField(null=True, blank=True)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        db_table = "komand_schedule"
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["agent", "owner", "task_id"], name="schedule_of_owner"),
            models.UniqueConstraint(
                fields=["agent", "session", "task_id"], name="schedule_of_sender", condition=Q(owner=None)
            ),
        ]
        indexes = [models.Index(fields=["next_at"], name="schedule_due", condition=Q(is_paused=False))]  # sweeper

    def __str__(self) -> str:
        return self.task_id

    @property
    def delay(self) -> timedelta:
        """Return how long after the times of its cron expression it starts: always the same, within the minute.

        A single time has no delay.
        """
        return timedelta(seconds=self.id.int % SPREAD_SECONDS if self.cron else 0)

    @property
    def due_at(self) -> datetime | None:
        """Return the time of the cron expression, or the single time, that is started at `next_at`."""
        return self.next_at.replace(second=0, microsecond=0) if self.next_at and self.cron else self.next_at

    @property
    def author(self) -> Author:
        """Return the author of the prompt."""
        return Author.of(self.origins)


class ScheduleTick(models.Model):
    """A time of a schedule that was handled: its message was sent, could not be sent, or was left out."""

    STATUSES = [("sent", "sent"), ("failed", "failed"), ("skipped", "skipped")]

    id = models.BigAutoField(primary_key=True)
    schedule = models.ForeignKey(Schedule, on_delete=models.CASCADE, related_name="ticks", db_index=False)
    due_at = models.DateTimeField()
    handled_at = models.DateTimeField()
    status = models.CharField(max_length=8, choices=STATUSES)
    is_manual = models.BooleanField(default=False, help_text="Started by hand, outside of the schedule.")
    run_id = models.UUIDField(null=True)
    error = models.TextField(blank=True)

    class Meta:
        db_table = "komand_schedule_tick"
        ordering = ["-due_at"]
        constraints = [models.UniqueConstraint(fields=["schedule", "due_at"], name="schedule_tick_once")]

    def __str__(self) -> str:
        return f"{self.due_at:%Y-%m-%d %H:%M} {self.status}"
