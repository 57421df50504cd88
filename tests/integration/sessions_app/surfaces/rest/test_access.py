"""Access over REST: each route that names an object, with foreign, unknown and malformed ids."""

from uuid import uuid4

import pytest
from django.urls import get_resolver

from sessions_app.attachments.uploads import upload
from sessions_app.identity.api_keys import create_api_key
from sessions_app.surfaces.rest import urls
from tests.support.rest import RestCaller, make_execution, make_run, make_session, make_user
from tests.support.rights import make_operator
from tests.support.schedules import make_schedule
from tools_app.secrets.credentials import store_credential
from tools_app.storage.artifacts import Writer, write_artifact

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

# Every route with an id of something that has an owner. A new one must be listed here or in OPEN.
OWNED = {
    "session-detail": ("session", "sessions/{}", ["GET", "DELETE"]),
    "session-history": ("session", "sessions/{}/history", ["GET"]),
    "session-regenerate": ("session", "sessions/{}/regenerate", ["POST"]),
    "session-edit": ("session", "sessions/{}/edit", ["POST"]),
    "session-branches": ("session", "sessions/{}/branches", ["GET", "POST"]),
    "session-compact": ("session", "sessions/{}/compact", ["POST"]),
    "session-context": ("session", "sessions/{}/context", ["GET"]),
    "session-pin": ("session", "sessions/{}/pins/00000000-0000-0000-0000-000000000001", ["PUT", "DELETE"]),
    "session-bind": ("session", "sessions/{}/bind", ["POST"]),
    "session-workstreams": ("session", "sessions/{}/workstreams", ["GET"]),
    "session-artifacts": ("session", "sessions/{}/artifacts", ["GET", "POST"]),
    "attachment-detail": ("attachment", "attachments/{}", ["GET", "DELETE"]),
    "artifact-detail": ("artifact", "artifacts/{}", ["GET", "DELETE"]),
    "session-messages": ("session", "sessions/{}/messages", ["GET"]),
    "session-export": ("session", "sessions/{}/export", ["GET"]),
    "session-fork": ("session", "sessions/{}/fork", ["POST"]),
    "session-shares": ("session", "sessions/{}/shares", ["GET", "POST"]),
    "session-policy": ("session", "sessions/{}/policy", ["GET", "PUT"]),
    "session-cancel": ("session", "sessions/{}/cancel", ["POST"]),
    "run-detail": ("run", "runs/{}", ["GET"]),
    "run-retry": ("run", "runs/{}/retry", ["POST"]),
    "run-cancel": ("run", "runs/{}/cancel", ["POST"]),
    "run-message": ("run", "runs/{}/messages", ["POST"]),
    "run-steer": ("run", "runs/{}/steer", ["POST"]),
    "run-workstreams": ("run", "runs/{}/workstreams", ["GET"]),
    "execution-detail": ("execution", "tools/executions/{}", ["GET"]),
    "execution-cancel": ("execution", "tools/executions/{}/cancel", ["POST"]),
    "credential-detail": ("credential", "credentials/{}", ["GET", "DELETE"]),
    "api-key-detail": ("api_key", "api-keys/{}", ["DELETE"]),
    "schedule-detail": ("schedule", "cron/default/{}", ["GET", "PUT", "DELETE"]),
    "schedule-run": ("schedule", "cron/default/{}/run", ["POST"]),
}
# Everybody may read agents and skills, operators every approval and MCP server; who may change them: the tests of
# `views`. Of prompts, versions, memories and links of senders: test_route_walk.
OPEN = {
    "agent-detail",
    "agent-draft",
    "agent-draft-publish",
    "agent-export",
    "agent-prompt",
    "agent-version",
    "agent-version-diff",
    "agent-version-list",
    "agent-version-rollback",
    "memory-approve",
    "memory-detail",
    "network-detail",
    "network-run",
    "network-run-detail",
    "run-prompt",
    "run-shared-memory",
    "run-shared-value",
    "session-shared-memory",
    "session-shared-value",
    "template-detail",
    "template-preview",
    "template-rollback",
    "template-version",
    "template-version-list",
    "agent-grant",
    "agent-skill",
    "agent-skill-list",
    "approval-decide",
    "attachment-content",
    "channel-detail",
    "delivery-list",
    "delivery-send-again",
    "link-detail",
    "route-detail",
    "route-list",
    "approval-detail",
    "mcp-server-approve",
    "mcp-server-authorization",
    "mcp-server-detail",
    "mcp-server-refresh",
    "price-detail",
    "skill-detail",
    "share-detail",
    "user-caps",
}
# What holders of a right may do with sessions of others: `tests/security/test_sessions_of_others.py`.
BY_RIGHT = {
    ("session-detail", "GET"),
    ("session-history", "GET"),
    ("session-branches", "GET"),
    ("session-context", "GET"),
    ("session-messages", "GET"),
    ("session-export", "GET"),
    ("session-workstreams", "GET"),
    ("session-artifacts", "GET"),
    ("artifact-detail", "GET"),
    ("run-detail", "GET"),
    ("run-workstreams", "GET"),
    ("execution-detail", "GET"),
    ("session-bind", "POST"),
    ("session-policy", "GET"),
    ("session-policy", "PUT"),
    ("session-cancel", "POST"),
}
CASES = [(name, method) for name, (_, _, methods) in OWNED.items() for method in methods]


@pytest.fixture
def alices():
    """Return one object of each kind that alice owns, by kind."""
    alice = make_user("alice")
    session = make_session(alice, turns=2)
    run = make_run(session)
    execution = make_execution(run)
    key = create_api_key(alice, "script", scopes=["all"]).row
    file = write_artifact(Writer(session.pk), "files/a.txt", b"hello")
    credential, _ = store_credential("weather", "a-key-of-alice", owner_id=alice.pk, hosts=["api.example.com"])
    return {
        "user": alice,
        "session": session.key,
        "run": run.pk,
        "execution": execution.pk,
        "api_key": key.pk,
        "schedule": make_schedule(alice).task_id,
        "credential": credential.name,
        "artifact": file.id,
        "attachment": upload(alice, "a.txt", b"hello").pk,
    }


def _call(caller: RestCaller, name: str, method: str, object_id: object):
    return caller(method, OWNED[name][1].format(object_id), {"agentId": "default"} if method == "POST" else None)


def test_every_route_with_an_id_is_covered_here():
    (api,) = urls.urlpatterns
    named = {pattern.name for pattern in api.url_patterns if "<" in str(pattern.pattern)}
    assert named == set(OWNED) | OPEN
    assert get_resolver(urls).url_patterns == urls.urlpatterns


@pytest.mark.parametrize(("name", "method"), CASES)
def test_an_object_of_another_user_is_404(alices, name, method):
    object_id = alices[OWNED[name][0]]
    strangers = [RestCaller(make_user("bob")), RestCaller(make_operator("carol"))]
    for stranger in strangers[:1] if (name, method) in BY_RIGHT else strangers:
        foreign = _call(stranger, name, method, object_id)
        missing = _call(stranger, name, method, uuid4())
        assert foreign.status == missing.status == 404
        assert foreign.error.replace(str(object_id), "") == missing.error.replace(str(object_id), "")


@pytest.mark.parametrize(("name", "method"), CASES)
def test_requests_without_a_credential_are_401(alices, name, method):
    assert _call(RestCaller(), name, method, alices[OWNED[name][0]]).status == 401


@pytest.mark.parametrize(("name", "method"), CASES)
def test_the_owner_has_access(alices, name, method):
    answer = _call(RestCaller(alices["user"]), name, method, alices[OWNED[name][0]])
    assert answer.status != 404 or "message" in answer.error  # of a route that names a message of the session, too


@pytest.mark.parametrize(("name", "method"), CASES)
def test_odd_ids_are_404(alices, name, method):
    caller = RestCaller(alices["user"])
    odd = ("0", "x" * 600, "WebChat:default", "..", "a%00b", "%F0%9F%98%80", "1 OR 1=1", "None")
    assert {value: _call(caller, name, method, value).status for value in odd} == dict.fromkeys(odd, 404)


def test_a_foreign_session_is_404_by_uuid_and_by_public_id(alices):
    session = make_session(alices["user"], key="WebChat:default:second")
    assert RestCaller(alices["user"]).get(f"sessions/{session.pk}").status == 200
    assert RestCaller(make_user("bob")).get(f"sessions/{session.pk}").status == 404


def test_runs_of_a_deleted_session_are_404(alices):
    caller = RestCaller(alices["user"])
    assert caller.delete(f"sessions/{alices['session']}").status == 200
    assert caller.get(f"sessions/{alices['session']}").status == 404
    assert caller.get(f"runs/{alices['run']}").status == 404
    assert caller.get(f"tools/executions/{alices['execution']}").status == 404


def test_lists_contain_only_the_callers_objects(alices):
    bob = RestCaller(make_user("bob"))
    for path in ("sessions", "api-keys"):
        assert bob.get(path).data == []
        assert len(RestCaller(alices["user"]).get(path).data) == 1
