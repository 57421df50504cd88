"""Schedules that start networks: checked when they are set, at each of their times, and for the caller's key."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User

from agents_app.models import Agent, Run
from agents_app.network_runs import library
from audit_app.kernel.errors import InvalidInput
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import Schedule
from sessions_app.schedules import plans, ticks
from tests.support.rest import RestCaller, make_agent, make_session
from tests.support.schedules import make_schedule

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

DEFINITION = "name: digest\ntasks:\n- name: write\n"
REPORT = {"taskId": "report", "prompt": "Report.", "cron": "0 9 * * 1-5", "network": "digest"}


@pytest.fixture(autouse=True)
def _network(default_agent: Agent, alice: User) -> None:
    library.create(DEFINITION, Agent.objects.all(), owner_id=alice.pk)


@pytest.fixture
def caller(alice: User) -> RestCaller:
    return RestCaller(alice)


def handle_once(schedule: Schedule) -> Any:
    """Let the schedule's next time be due. Return its tick."""
    Schedule.objects.filter(pk=schedule.pk).update(next_at=datetime(2026, 5, 4, 10, tzinfo=UTC))
    found = Schedule.objects.select_related("agent", "owner", "session__agent").get(pk=schedule.pk)
    ticks.handle_due(found, datetime(2026, 5, 4, 10, 30, tzinfo=UTC))
    return schedule.ticks.latest("due_at")


def test_a_due_time_starts_the_network_with_the_prompt_and_its_values(alice: User) -> None:
    session = make_session(alice)
    schedule = make_schedule(alice, session=session, network="digest", network_context={"tone": "dry"})
    tick = handle_once(schedule)
    run = Run.objects.get(pk=tick.run_id)
    assert (run.conversation_id, run.actor) == (session.pk, f"user:{alice.pk}")
    shown = {"name": "digest", "version": 1, "definition": DEFINITION, "context": {"tone": "dry"}}
    assert run.options["network"] == shown


@pytest.mark.parametrize("lost", ["agent", "network"])
def test_rights_are_checked_at_each_time(alice: User, lost: str) -> None:
    make_agent("writer")
    network = library.create("name: own\ntasks:\n- name: a\n  agent: writer\n", Agent.objects.all(), owner_id=None)
    library.change(network, Agent.objects.all(), is_shared=True)
    schedule = make_schedule(alice, network="own")
    if lost == "agent":
        Agent.objects.filter(agent_id="writer").update(is_shared_with_everyone=False)
    else:
        library.delete(network)
    tick = handle_once(schedule)
    assert (tick.status, Run.objects.count()) == ("failed", 0)
    assert ("there is no agent 'writer'" if lost == "agent" else "no such network") in tick.error
    schedule.refresh_from_db()
    assert schedule.next_at == datetime(2026, 5, 4, 11, tzinfo=UTC) + schedule.delay and schedule.network == "own"


def test_a_schedule_of_a_sender_has_no_network(alice: User) -> None:
    with pytest.raises(InvalidInput) as refusal:
        make_schedule(None, session=make_session(alice), network="digest")
    assert refusal.value.code == "network_needs_user"


def test_pausing_keeps_the_network(alice: User) -> None:
    schedule = make_schedule(alice, network="digest", network_context={"a": 1})
    plans.pause(schedule, is_paused=True, actor="user:1")
    schedule.refresh_from_db()
    assert (schedule.is_paused, schedule.network, schedule.network_context) == (True, "digest", {"a": 1})


def test_over_rest_it_is_set_changed_and_taken_away(caller: RestCaller) -> None:
    made = caller.post("cron", {**REPORT, "networkContext": {"tone": "dry"}}).data
    assert (made["network"], made["networkContext"]) == ("digest", {"tone": "dry"})
    run_id = caller.post("cron/default/report/run").data["runId"]
    assert caller.get(f"networks/runs/{run_id}").data["network"] == "digest"
    assert caller.put("cron/default/report", {"prompt": "Other."}).data["network"] == "digest"
    assert caller.put("cron/default/report", {"network": ""}).data["network"] is None


def test_over_rest_only_networks_that_the_caller_may_run(caller: RestCaller) -> None:
    make_agent("secret", is_shared_with_everyone=False)
    library.create("name: other\ntasks:\n- name: a\n", Agent.objects.all(), owner_id=None)
    shared = library.create("name: both\ntasks:\n- name: a\n  agent: secret\n", Agent.objects.all(), owner_id=None)
    library.change(shared, Agent.objects.all(), is_shared=True)
    assert caller.post("cron", {**REPORT, "network": "other"}).meta["code"] == "unknown_network"
    refused = caller.post("cron", {**REPORT, "network": "both"})
    assert refused.status == 400 and "there is no agent 'secret'" in refused.error
    assert not Schedule.objects.exists()


def test_a_key_for_one_agent_starts_no_network_with_others(alice: User) -> None:
    make_agent("writer")
    two = "name: two\ntasks:\n- name: a\n  agent: writer\n"
    library.create(two, Agent.objects.all(), owner_id=alice.pk)
    make_schedule(alice, network="two")
    key = RestCaller(bearer=create_api_key(alice, "script", scopes=["all", "agent:default"]).key)
    assert key.post("cron/default/report/run").status == 400
    assert key.put("cron/default/report", {"prompt": "Other."}).status == 400
    assert not Run.objects.exists()
