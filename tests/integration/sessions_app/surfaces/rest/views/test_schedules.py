"""Schedules over REST: create, read, change, run and delete."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from agents_app.models import Run
from sessions_app.models import Schedule
from tests.support.rest import RestCaller, make_session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "default_agent"), pytest.mark.one_database]

REPORT = {"taskId": "report", "prompt": "Report.", "cron": "0 9 * * 1-5", "timeZone": "Europe/Berlin"}


def test_a_schedule_tells_its_times_in_words_and_figures(caller: RestCaller) -> None:
    made = caller.post("cron", REPORT).data
    assert made["explained"] == "At 09:00 on Monday through Friday"
    assert len(made["upcoming"]) == 5 and made["nextAt"] == made["upcoming"][0]
    assert (made["agentId"], made["missed"], made["history"]) == ("default", "latest", [])
    assert [row["taskId"] for row in caller.get("cron").data] == ["report"]
    assert caller.get("cron/default/report").data["timeZone"] == "Europe/Berlin"


def test_a_change_keeps_what_it_leaves_out(caller: RestCaller) -> None:
    caller.post("cron", REPORT)
    changed = caller.put("cron/default/report", {"isPaused": True}).data
    assert (changed["isPaused"], changed["cron"], changed["upcoming"]) == (True, REPORT["cron"], [])
    once = caller.put("cron/default/report", {"at": "2199-01-01T08:00:00Z", "isPaused": False}).data
    assert (once["cron"], once["nextAt"]) == ("", "2199-01-01T08:00:00.000Z")


def test_it_can_be_sent_now_and_its_history_tells_so(caller: RestCaller, alice: User) -> None:
    session = make_session(alice)
    caller.post("cron", {**REPORT, "sessionId": session.key})
    run_id = caller.post("cron/default/report/run", {}).data["runId"]
    assert str(Run.objects.get().pk) == run_id
    [tick] = caller.get("cron/default/report").data["history"]
    assert (tick["status"], tick["isManual"], tick["runId"]) == ("sent", True, run_id)


def test_it_is_deleted(caller: RestCaller) -> None:
    caller.post("cron", REPORT)
    assert caller.delete("cron/default/report").status == 200
    assert caller.get("cron/default/report").status == 404 and not Schedule.objects.exists()


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"cron": "every day"}, 400, "bad_cron"),
        ({"timeZone": "Berlin"}, 400, "bad_time_zone"),
        ({"cron": ""}, 400, "bad_time"),
        ({"agentId": "unknown"}, 404, "unknown_agent"),
        ({"sessionId": "WebChat:default:nobody"}, 404, "not_found"),
    ],
)
def test_what_cannot_work_is_refused(caller: RestCaller, change: dict[str, str], status: int, code: str) -> None:
    answer = caller.post("cron", {**REPORT, **change})
    assert (answer.status, answer.meta["code"]) == (status, code)
    assert not Schedule.objects.exists()


def test_running_a_schedule_counts_as_a_message(caller: RestCaller, settings: Any) -> None:
    settings.KOMAND_CHAT_LIMIT = 1
    caller.post("cron", {"taskId": "often", "prompt": "Report.", "cron": "0 9 * * *"})
    statuses = [caller.post("cron/default/often/run", {}).status for _ in range(2)]
    assert statuses == [200, 429]
