"""The webhook and the calls of the surface: answers, idempotency, sessions, refusals. Access: objects of strangers."""

from typing import Any
from uuid import uuid4

import pytest

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel.database import in_db
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import Session
from tests.integration.sessions_app.surfaces.zeroclaw.gateway_client import call
from tests.support.approvals import Launch, wants_to_launch
from tests.support.engine import EngineRig
from tests.support.rest import make_agent, make_session, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.fixture
def key(alice: Any) -> str:
    return create_api_key(alice, "k", scopes=["zeroclaw"]).key


async def test_the_webhook_returns_the_answer_and_keeps_a_conversation(rig: EngineRig, key: str) -> None:
    script = await in_db(rig.agent, Reply(("One.",)), Reply(("Two.",)), Reply(("Three.",)))
    status, first = await call(key, "POST", "/webhook?agent=default", {"message": "1"}, X_Session_Id="trip")
    assert (status, first["response"], first["model"]) == (200, "One.", "script")
    status, second = await call(key, "POST", "/webhook", {"message": "2"}, X_Session_Id="trip")
    assert second["session_id"] == first["session_id"]
    assert [str(one.content) for one in script.requests[1].messages[1:]] == ["1", "One.", "2"]
    _, third = await call(key, "POST", "/webhook", {"message": "3"})
    assert third["session_id"] != first["session_id"]
    _, listed = await call(key, "GET", "/api/sessions/gw_trip/messages")
    assert [(one["role"], one["content"]) for one in listed["messages"]] == [
        ("user", "1"),
        ("assistant", "One."),
        ("user", "2"),
        ("assistant", "Two."),
    ]


async def test_a_repeated_key_runs_nothing_whatever_became_of_the_first(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(("One.",)))
    for session in ({}, {"X_Session_Id": "trip"}):
        sent = {"X_Idempotency_Key": f"k{len(session)}", **session}
        status, first = await call(key, "POST", "/webhook", {"message": "1"}, **sent)
        assert status == 200 and first["response"] == "One."
        status, again = await call(key, "POST", "/webhook", {"message": "1"}, **sent)
        assert (status, again["status"], again["idempotent"]) == (200, "duplicate", True)
        assert again["run_id"] == first["run_id"] and "response" not in again
        status, other = await call(key, "POST", "/webhook", {"message": "2"}, **sent)
        assert status == 422, other
    assert await in_db(Run.objects.count) == 2 and await in_db(Session.objects.count) == 2


async def test_the_webhook_says_when_the_answer_takes_long_or_failed(
    rig: EngineRig, key: str, launch: type[Launch], settings: Any
) -> None:
    settings.KOMAND_WAIT_SECONDS = 1
    await in_db(wants_to_launch, rig)
    status, late = await call(key, "POST", "/webhook", {"message": "Go"}, X_Session_Id="trip")
    assert (status, late["code"]) == (504, "timeout") and late["run_id"]
    settings.KOMAND_WAIT_SECONDS = 30
    await in_db(rig.agent, Reply(error="model_bad_request"))
    status, failed = await call(key, "POST", "/webhook", {"message": "Hi"})
    assert status == 502 and failed["error"] and failed["code"].startswith("model_")


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ({}, {}, 400),
        ({"message": ""}, {}, 400),
        ({"message": {}}, {}, 400),
        ({"message": "x" * 10_001}, {}, 400),
        ([], {}, 400),
        ({"message": "x"}, {"X_Session_Id": "a b"}, 400),
        ({"message": "x"}, {"X_Session_Id": "a" * 129}, 400),
        ({"message": "x"}, {"X_Idempotency_Key": "a" * 201}, 400),
        ({"message": "x"}, {"X_Idempotency_Key": "a\0"}, 400),
    ],
)
async def test_requests_that_do_not_fit_are_refused_and_store_nothing(
    rig: EngineRig, key: str, body: Any, headers: dict[str, str], status: int
) -> None:
    await in_db(rig.agent)
    found, error = await call(key, "POST", "/webhook", body, **headers)
    assert found == status and error["error"] and not await in_db(Session.objects.exists)


async def test_an_unknown_agent_or_another_than_that_of_the_session_is_refused(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(("One.",)))
    await in_db(make_agent, "other")
    bob = await in_db(make_user, "bob")
    await in_db(lambda: make_agent("bobs", owner_id=bob.pk, is_shared_with_everyone=False))
    await call(key, "POST", "/webhook", {"message": "1"}, X_Session_Id="trip")
    for agent, expected in (("bobs", 404), ("nobody", 404), ("other", 409)):
        status, error = await call(key, "POST", f"/webhook?agent={agent}", {"message": "1"}, X_Session_Id="trip")
        assert (status, bool(error["code"])) == (expected, True)
    assert (await call(key, "POST", "/webhook?agent=nobody", {"message": "1"}))[0] == 404


async def test_sessions_are_listed_renamed_and_deleted(rig: EngineRig, key: str, alice: Any) -> None:
    await in_db(rig.agent, Reply(("One.",)))
    await call(key, "POST", "/webhook", {"message": "1"}, X_Session_Id="trip")
    other = await in_db(make_session, alice)
    _, listed = await call(key, "GET", "/api/sessions")
    by_id = {one["session_id"]: one for one in listed["sessions"]}
    assert set(by_id) == {"trip", str(other.pk)} and by_id["trip"]["session_key"] == "gw_trip"
    assert by_id["trip"]["agent_alias"] == "default" and by_id["trip"]["message_count"] >= 1
    _, own = await call(key, "GET", "/api/sessions/running")
    assert [one["session_id"] for one in own["sessions"]] == ["trip"]
    assert await call(key, "PUT", "/api/sessions/trip", {"name": "Paris"}) == (200, {"renamed": True})
    assert (await call(key, "PUT", "/api/sessions/trip", {"name": ""}))[0] == 400
    assert (await call(key, "GET", "/api/sessions/running"))[1]["sessions"][0]["name"] == "Paris"
    assert (await call(key, "GET", "/api/sessions/trip/state"))[1]["state"] == "idle"
    assert (await call(key, "DELETE", "/api/sessions/trip"))[0] == 200
    assert (await call(key, "GET", "/api/sessions/trip/messages"))[0] == 404


async def test_sessions_of_strangers_are_not_found_by_any_name_or_right(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(("One.",)))
    bob = await in_db(make_user, "bob", is_superuser=True)
    stranger = (await in_db(create_api_key, bob, "k", scopes=["zeroclaw", "rights"])).key
    await call(key, "POST", "/webhook", {"message": "1"}, X_Session_Id="trip")
    session = await in_db(Session.objects.get)
    missing = (str(uuid4()), "nothing")
    for name in ("trip", "gw_trip", str(session.pk), session.key, *missing):
        for method, path, body in (
            ("GET", "/messages", None),
            ("GET", "/state", None),
            ("POST", "/abort", None),
            ("PUT", "", {"name": "x"}),
            ("DELETE", "", None),
        ):
            status, error = await call(stranger, method, f"/api/sessions/{name}{path}", body)
            assert (status, error) == (404, {"error": "There is no such session.", "code": "not_found"})
    assert (await call(stranger, "GET", "/api/sessions"))[1] == {"sessions": []}
    await in_db(session.refresh_from_db)
    assert session.deleted_at is None


async def test_a_key_of_another_surface_or_for_reading_is_limited_to_that(rig: EngineRig, key: str, alice: Any) -> None:
    await in_db(rig.agent, Reply(("One.",)))
    other = (await in_db(create_api_key, alice, "k", scopes=["rest"])).key
    reader = (await in_db(create_api_key, alice, "k", scopes=["zeroclaw:read"])).key
    assert (await call(other, "GET", "/api/sessions"))[0] == 403
    assert (await call(reader, "GET", "/api/sessions"))[0] == 200
    assert (await call(reader, "POST", "/webhook", {"message": "1"}))[1]["code"] == "read_only_key"
    assert (await call("", "GET", "/api/sessions"))[0] == 401
    only = (await in_db(create_api_key, alice, "k", scopes=["zeroclaw", "agent:other"])).key
    await call(key, "POST", "/webhook", {"message": "1"}, X_Session_Id="trip")
    assert (await call(only, "GET", "/api/sessions/trip/messages"))[1]["code"] == "missing_scope"


async def test_the_state_of_the_gateway_is_shown(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent)
    assert (await call("", "GET", "/health"))[1] == {
        "status": "ok",
        "paired": True,
        "require_pairing": True,
        "runtime": None,
    }
    status, state = await call(key, "GET", "/api/status?agent=default")
    assert status == 200 and state["agent_alias"] == "default" and state["health"]["uptime_seconds"] >= 0
    assert (await call(key, "GET", "/api/status?agent=nobody"))[0] == 404
    assert (await call(key, "GET", "/api/health"))[1]["health"]["components"] == {}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/a2a/default"),
        ("GET", "/a2a/default/.well-known/agent-card.json"),
        ("POST", "/admin/shutdown"),
        ("PATCH", "/api/config"),
        ("GET", "/api/sops"),
        ("GET", "/api/agents/default/workspace/read"),
        ("GET", "/metrics"),
    ],
)
async def test_what_clients_call_besides_is_501_for_users_alone(key: str, method: str, path: str) -> None:
    status, error = await call(key, method, path, {})
    assert (status, error["code"]) == (501, "not_served") and "docs/zeroclaw.md" in error["error"]
    assert (await call("", method, path, {}))[0] == 401


async def test_what_is_no_call_of_the_protocol_is_404(key: str) -> None:
    assert (await call(key, "GET", "/nothing"))[0] == 404
    assert (await call(key, "POST", "/api/sessions/trip/messages", {"content": "x"}))[0] == 405
