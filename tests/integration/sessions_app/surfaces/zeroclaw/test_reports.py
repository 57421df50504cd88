"""Memories, schedules, costs, channels and events over the calls of the surface. Access: objects of strangers."""

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest

from agents_app.providers.kinds.scripted import Reply
from agents_app.types import Usage
from audit_app.kernel.database import in_db
from audit_app.models import AuditEntry
from komand import asgi
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import ChannelAccount, Schedule
from sessions_app.surfaces.zeroclaw import waiting_calls
from tests.integration.sessions_app.surfaces.zeroclaw.gateway_client import call
from tests.support.conditions import happens
from tests.support.engine import EngineRig
from tests.support.rest import LiveCaller, make_agent, make_user
from tools_app.models import Memory
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

SUM = ToolCall("c1", "calculator", '{"expression": "6*7"}')
JOB = {
    "agent": "default",
    "schedule": "0 9 * * 1-5",
    "prompt": "Report.",
    "name": "Daily report",
    "tz": "Europe/Berlin",
}


@pytest.fixture
def key(alice: Any) -> str:
    return create_api_key(alice, "k", scopes=["zeroclaw"]).key


@pytest.fixture
def stranger(db: None) -> str:
    bob = make_user("bob", is_superuser=True)
    return create_api_key(bob, "k", scopes=["zeroclaw", "rights"]).key


async def test_memories_are_stored_found_and_forgotten_by_their_key(rig: EngineRig, key: str, stranger: str) -> None:
    await in_db(rig.agent)
    for content in ("It is red.", "It is blue."):
        status, stored = await call(
            key, "POST", "/api/memory", {"key": "car/main", "content": content, "category": None}
        )
        assert (status, stored) == (200, {"stored": True})
    await call(key, "POST", "/api/memory", {"key": "pet", "content": "x" * 5000})
    [pet, car] = (await call(key, "GET", "/api/memory"))[1]["entries"]
    assert (car["key"], car["content"], car["category"], car["pinned"]) == ("car/main", "It is blue.", "core", False)
    assert (car["agent_alias"], car["source_kind"], car["is_trusted"]) == ("default", "person", True)
    assert len(pet["content"]) == 4096
    assert [one["key"] for one in (await call(key, "GET", "/api/memory?query=blue"))[1]["entries"]] == ["car/main"]
    for nothing in ("agent=other", "category=daily", "until=2020-01-01T00:00:00Z"):
        assert (await call(key, "GET", f"/api/memory?{nothing}"))[1] == {"entries": []}
    assert (await call(stranger, "GET", "/api/memory"))[1] == {"entries": []}
    assert (await call(stranger, "DELETE", "/api/memory/car%2Fmain"))[1] == {"deleted": False}
    assert (await call(key, "DELETE", "/api/memory/car/main"))[1] == {"deleted": True}
    assert (await call(key, "DELETE", "/api/memory/car/main"))[1] == {"deleted": False}
    assert await in_db(Memory.objects.count) == 1
    actions = await in_db(lambda: list(AuditEntry.objects.values_list("action", flat=True)))
    assert actions.count("MemoryChanged") == 3 and actions.count("MemoryDeleted") == 1


@pytest.mark.parametrize(
    "body",
    [
        {"key": "a"},
        {"key": "", "content": "x"},
        {"key": "a" * 121, "content": "x"},
        {"key": "a", "content": "ä" * 60_000},
        {"key": "a", "content": "x", "category": "daily"},
        {"key": "a", "content": "x", "agent": "nobody"},
    ],
)
async def test_memories_that_do_not_fit_are_refused(rig: EngineRig, key: str, body: dict[str, str]) -> None:
    await in_db(rig.agent)
    assert (await call(key, "POST", "/api/memory", body))[0] in (400, 404) and not await in_db(Memory.objects.exists)


async def test_a_schedule_is_created_changed_run_and_deleted(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(("All is well.",)))
    job = (await call(key, "POST", "/api/cron", JOB))[1]["job"]
    assert (job["name"], job["expression"], job["enabled"]) == ("daily-report", "0 9 * * 1-5", True) and job["next_run"]
    assert job["schedule"] == {"kind": "cron", "expr": "0 9 * * 1-5", "tz": "Europe/Berlin"}
    assert (await call(key, "POST", "/api/cron", JOB))[0] == 409
    path = f"/api/cron/{job['id']}"
    changed = (await call(key, "PATCH", path, {"enabled": False, "clear_tz": True, "prompt": "Report all."}))[1]["job"]
    assert (changed["enabled"], changed["schedule"]["tz"], changed["prompt"]) == (False, "UTC", "Report all.")
    for fixed in ({"name": "x"}, {"agent": "other"}, {"schedule": "no cron"}, {"command": "rm -rf /"}):
        assert (await call(key, "PATCH", path, fixed))[0] == 400
    status, result = await call(key, "POST", f"{path}/run")
    assert status == 200 and result["success"] and result["output"] == "All is well." and result["duration_ms"] >= 0
    [run] = (await call(key, "GET", f"{path}/runs?limit=5"))[1]["runs"]
    assert (run["status"], run["output"], run["job_id"]) == ("ok", "All is well.", job["id"])
    assert [one["id"] for one in (await call(key, "GET", "/api/cron"))[1]["jobs"]] == [job["id"]]
    assert (await call(key, "DELETE", path))[1] == {"deleted": True}
    assert (await call(key, "DELETE", path))[0] == 404


@pytest.mark.parametrize(
    "change",
    [
        {"agent": "nobody"},
        {"schedule": "every day"},
        {"tz": "Mars"},
        {"prompt": None},
        {"command": "ls"},
        {"job_type": "shell"},
        {"allowed_tools": []},
        {"model": "big"},
        {"uses_memory": False},
        {"delete_after_run": True},
        {"session_target": "main"},
        {"delivery": {"mode": "announce", "channel": "telegram.main", "to": "1"}},
        {"unknown": 1},
    ],
)
async def test_jobs_that_no_schedule_can_be_are_refused(rig: EngineRig, key: str, change: dict[str, Any]) -> None:
    await in_db(rig.agent)
    status, error = await call(key, "POST", "/api/cron", {**JOB, **change})
    assert status in (400, 404) and error["error"] and not await in_db(Schedule.objects.exists)


async def test_schedules_of_strangers_are_not_found_by_any_right(rig: EngineRig, key: str, stranger: str) -> None:
    await in_db(rig.agent)
    job = (await call(key, "POST", "/api/cron", JOB))[1]["job"]
    for name in (job["id"], str(uuid4()), "x"):
        for method, path, body in (
            ("PATCH", "", {"enabled": False}),
            ("DELETE", "", None),
            ("GET", "/runs", None),
            ("POST", "/run", None),
        ):
            assert (await call(stranger, method, f"/api/cron/{name}{path}", body))[0] == 404
    assert (await call(stranger, "GET", "/api/cron"))[1] == {"jobs": []}
    assert await in_db(Schedule.objects.filter(is_paused=False).count) == 1
    for method in ("GET", "PATCH"):
        assert (await call(key, method, "/api/cron/settings", {}))[1]["code"] == "not_served"


async def test_costs_are_ones_own_and_channels_take_their_right(rig: EngineRig, key: str, stranger: str) -> None:
    await in_db(rig.agent, Reply(("One.",), usage=Usage(7, 3)))
    await call(key, "POST", "/webhook", {"message": "1"})
    cost = (await call(key, "GET", "/api/cost"))[1]["cost"]
    assert (cost["total_tokens"], cost["request_count"], cost["daily_cost_usd"]) == (10, 1, 0.0)
    assert cost["by_agent"]["default"]["input_tokens"] == 7 and len(cost["by_model"]) == 1
    assert (await call(key, "GET", "/api/cost?agent=other"))[1]["cost"]["total_tokens"] == 0
    assert (await call(key, "GET", "/api/cost?from=2020-01-01T00:00:00Z&to=2020-02-01T00:00:00Z"))[1]["cost"][
        "request_count"
    ] == 0
    assert (await call(key, "GET", "/api/cost?from=yesterday"))[0] == 400
    carol = await in_db(make_user, "carol")
    other = (await in_db(create_api_key, carol, "k", scopes=["zeroclaw", "rights"])).key
    assert (await call(other, "GET", "/api/cost"))[1]["cost"]["total_tokens"] == 0
    await in_db(lambda: ChannelAccount.objects.create(channel="telegram", account_id="main", last_error="no"))
    assert (await call(other, "GET", "/api/channels"))[0] == (await call(key, "GET", "/api/channels"))[0] == 403
    [channel] = (await call(stranger, "GET", "/api/channels"))[1]["channels"]
    assert (channel["name"], channel["status"], channel["health"]) == ("telegram.main", "error", "degraded")
    assert (await call(stranger, "POST", "/api/channels/telegram.main/relink"))[0] == 501


async def test_events_are_streamed_as_they_come_and_kept_for_a_day(
    rig: EngineRig, key: str, stranger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_calls, "_LOOK_SECONDS", 0.05)
    await in_db(rig.agent, Reply(("Before.",)))
    await call(key, "POST", "/webhook", {"message": "0"})
    await in_db(rig.agent, Reply(tool_calls=(SUM,)), Reply(("It is 42.",)), Reply(error="model_bad_request"))
    callers = [LiveCaller(asgi.application, bearer=one) for one in (key, stranger)]
    streams = [asyncio.create_task(one.ask("GET", "/zeroclaw/api/events")) for one in callers]
    for caller in callers:
        await happens(lambda caller=caller: len(caller.sent) >= 2)
    for text in ("1", "2"):
        await call(key, "POST", "/webhook", {"message": text}, X_Session_Id="trip")
    await happens(lambda: b"".join(part.get("body", b"") for part in callers[0].sent).count(b"agent_end") == 2)
    for caller in callers:
        caller.leave()
    await asyncio.gather(*streams)
    lines = b"".join(part.get("body", b"") for part in callers[0].sent).decode().splitlines()
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    run = ["agent_start", "tool_call_start", "tool_call", "agent_end"]
    assert [one["type"] for one in events] == [*run, "agent_start", "error", "agent_end"]
    assert events[2]["tool"] == "calculator" and events[2]["success"] and events[3]["success"]
    assert {one["agent_alias"] for one in events} == {"default"} and len({one["turn_id"] for one in events}) == 2
    assert not any(part.get("body", b"").startswith(b"data") for part in callers[1].sent), "of strangers"
    history = (await call(key, "GET", "/api/events/history"))[1]["events"]
    assert [one["type"] for one in history] == ["agent_start", "agent_end", *[one["type"] for one in events]]
    assert (await call(stranger, "GET", "/api/events/history"))[1] == {"events": []}


async def test_memories_of_an_agent_that_one_may_not_use_cannot_be_stored(rig: EngineRig, key: str, alice: Any) -> None:
    await in_db(rig.agent)
    await in_db(lambda: make_agent("bobs", owner_id=make_user("bob").pk, is_shared_with_everyone=False))
    status, error = await call(key, "POST", "/api/memory", {"key": "a", "content": "b", "agent": "bobs"})
    assert (status, error["code"]) == (404, "unknown_agent")
    only = (await in_db(create_api_key, alice, "k", scopes=["zeroclaw", "agent:other"])).key
    assert (await call(only, "POST", "/api/memory", {"key": "a", "content": "b"}))[1]["code"] == "missing_scope"
