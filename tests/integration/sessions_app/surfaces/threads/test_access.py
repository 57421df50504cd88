"""Access to objects of other users, on every route of the Threads API with an id."""

import json
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from sessions_app.identity import access_tokens
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import Feedback
from sessions_app.surfaces.threads import urls
from tests.support.rest import make_run, make_session, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

# Every route with the id of an object that has an owner.
OWNED = {
    "thread-detail": ("threads/{thread}", ["GET", "PATCH", "DELETE"]),
    "user-message": ("threads/{thread}/user_message", ["POST"]),
    "message-list": ("threads/{thread}/messages", ["GET", "POST"]),
    "message-detail": ("threads/{thread}/messages/{run}", ["GET"]),
    "job": ("system-jobs/agent-{thread}", ["GET", "DELETE"]),
    "workflow": ("workflows/agent-{thread}", ["GET", "DELETE"]),
    "diagnostics": ("diagnostics/threads/{thread}", ["POST"]),
    "feedback-detail": ("feedback/{feedback}", ["DELETE"]),
    "api-key-detail": ("api-keys/{key}", ["GET", "DELETE"]),
}
CASES = [(name, method) for name, (_, methods) in OWNED.items() for method in methods]
BODIES = {
    "user-message": {"input_text": "hi"},
    "message-list": {"role": "USER", "content": {"text": "hi"}},
    "thread-detail": {"title": "x"},
}


def call(user: Any, method: str, path: str, body: Any = None) -> Any:
    headers = {"Authorization": f"Bearer {access_tokens.open_login(user).access}"} if user else {}
    return Client().generic(method, f"/v1/{path}", _json(body), content_type="application/json", headers=headers)


def _json(body: Any) -> str:
    return json.dumps({} if body is None else body)


@pytest.fixture
def alices() -> dict[str, Any]:
    alice = make_user("alice")
    session = make_session(alice, turns=2)
    run = make_run(session)
    now = session.created_at
    opinion = Feedback.objects.create(
        user=alice,
        session=session,
        target_type="THREAD",
        target_id=session.pk,
        rating="UP",
        created_at=now,
        updated_at=now,
    )
    key = create_api_key(alice, "script", scopes=["all"]).row
    return {"user": alice, "thread": session.pk, "run": run.pk, "feedback": opinion.pk, "key": key.pk}


def test_every_route_with_an_id_is_covered_here() -> None:
    assert {pattern.name for pattern in urls.urlpatterns if "<" in str(pattern.pattern)} == set(OWNED)


@pytest.mark.parametrize(("name", "method"), CASES)
def test_the_object_of_another_user_is_404_and_no_credential_401(
    alices: dict[str, Any], name: str, method: str
) -> None:
    path = OWNED[name][0].format(**alices)
    foreign = call(make_user("bob"), method, path, BODIES.get(name))
    missing = call(
        make_user("carol"), method, OWNED[name][0].format(**dict.fromkeys(alices, uuid4())), BODIES.get(name)
    )
    assert foreign.status_code == missing.status_code == 404
    assert foreign.json()["detail"] == missing.json()["detail"] and foreign.json()["code"] == "not_found"
    assert call(None, method, path, BODIES.get(name)).status_code == 401


@pytest.mark.parametrize("target", ["thread", "run"])
def test_feedback_on_objects_of_other_users_is_404(alices: dict[str, Any], target: str) -> None:
    kind = {"thread": "THREAD", "run": "MESSAGE"}[target]
    body = {"target_type": kind, "target_id": str(alices[target]), "rating": "DOWN"}
    assert call(make_user("bob"), "POST", "feedback", body).status_code == 404
    assert call(alices["user"], "POST", "feedback", body).status_code in (200, 201)


def test_unknown_fields_and_odd_values_are_422(alices: dict[str, Any]) -> None:
    for body in ({"titel": "x"}, {"title": ""}, {"title": "x" * 256}, {"title": "a", "message_for_title": "b"}, [1], 7):
        answer = call(alices["user"], "POST", "threads", body)
        assert (answer.status_code, answer.json()["code"]) == (422, "unprocessable_entity"), body
    assert call(alices["user"], "GET", "threads?limit=0").status_code == 422


def test_the_cookie_of_the_sign_in_authenticates_until_sign_out() -> None:
    make_user("alice")
    client = Client()
    body = _json({"email": "alice@example.org", "password": "secret-enough"})
    signed = client.post("/v1/auth/pw/signin", body, content_type="application/json")
    assert signed.status_code == 200 and set(signed.cookies) == {"ks_uat"} and signed.cookies["ks_uat"]["httponly"]
    assert client.get("/v1/threads").status_code == 200
    token = client.cookies["ks_uat"].value
    assert client.post("/v1/auth/signout", content_type="application/json").status_code == 204
    assert Client().get("/v1/threads", headers={"Cookie": token}).status_code == 401
