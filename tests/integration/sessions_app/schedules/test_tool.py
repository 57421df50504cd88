"""The tool `schedule`: reminders and regular tasks for the person of a session."""

from typing import Any
from uuid import uuid4

import pytest

from sessions_app.models import Schedule, Session
from sessions_app.schedules.tool import ScheduleTool
from tests.support.rest import make_agent, make_session, make_user
from tools_app.types import Risk, ToolContext, ToolError

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

DAILY = {"action": "create", "name": "daily", "prompt": "Greet me.", "cron": "0 7 * * *", "time_zone": "Asia/Tokyo"}


def call(session: Session, **arguments: Any) -> list[dict[str, Any]]:
    context = ToolContext(uuid4(), uuid4(), session.pk, "default", "user:1", "key", 10)
    schedules: list[dict[str, Any]] = ScheduleTool().run(arguments, context)["schedules"]
    return schedules


@pytest.fixture
def session() -> Session:
    make_agent()
    return make_session(make_user("alice"))


def test_it_creates_lists_and_deletes_for_the_person_of_the_session(session: Session) -> None:
    [made] = call(session, **DAILY)
    assert (made["name"], made["time_zone"]) == ("daily", "Asia/Tokyo") and made["next"].endswith("22:00:00+00:00")
    assert call(session, **DAILY) == [made]  # the same call again, after a crash
    assert Schedule.objects.get().owner == session.owner
    assert call(session, action="list") == [made]
    assert call(session, action="delete", name="daily") == []


def test_a_time_without_an_offset_is_in_the_given_zone(session: Session) -> None:
    [made] = call(session, action="create", name="x", prompt="Hi.", at="2199-07-01T09:00", time_zone="Europe/Berlin")
    assert made["next"] == "2199-07-01T07:00:00+00:00"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({**DAILY, "cron": "7 o'clock"}, "five fields"),
        ({**DAILY, "cron": "", "at": "tomorrow"}, "is not a valid time"),
        ({**DAILY, "cron": "", "at": "2001-01-01T00:00"}, "is in the past"),
        ({**DAILY, "cron": "", "at": "9999-12-31T23:59:00-10:00"}, "is not a valid time"),
        ({**DAILY, "name": ""}, "needs `name`"),
        ({"action": "delete", "name": "other"}, "no such schedule"),
    ],
)
def test_errors_tell_the_model_what_to_do(session: Session, arguments: dict[str, str], problem: str) -> None:
    with pytest.raises(ToolError, match=problem):
        call(session, **arguments)


def test_only_listing_is_of_low_risk() -> None:
    assert ScheduleTool().risk_of({"action": "list"}) is Risk.LOW
    assert ScheduleTool().risk_of({"action": "create"}) is Risk.HIGH
