"""Scopes of API keys: per surface, read or write, per agent; rights only in words; nothing by an empty list."""

from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from agents_app.models import Run
from audit_app import rights
from audit_app.models import AuditEntry
from audit_app.rights import READ_AUDIT
from sessions_app import services
from sessions_app.identity import access_tokens, api_keys
from sessions_app.identity.authentication import authenticate
from sessions_app.identity.scopes import MissingScope, described
from sessions_app.models import ApiKey, Session
from sessions_app.surfaces.mcp.offers import runs as mcp
from tests.support.rest import RestCaller, make_agent, make_execution, make_run, make_session, make_user
from tools_app.models import Approval

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "default_agent"), pytest.mark.one_database]

PATHS = {"rest": "/api/agents", "openai": "/v1/models", "threads": "/v1/threads", "agent_messages": "/api/v1/agents"}


def key_of(user: User, *scopes: str) -> str:
    return api_keys.create_api_key(user, "k", scopes=scopes).key


def old_key(user: User, scopes: list[str]) -> str:
    """Return a key with a list of scopes with which no key can be created."""
    made = api_keys.create_api_key(user, "k", scopes=["all"])
    ApiKey.objects.filter(pk=made.row.pk).update(scopes=scopes)
    return made.key


def ask(path: str, key: str, method: str = "GET", body: Any = None) -> Any:
    client = Client(raise_request_exception=False)
    headers = {"Authorization": f"Bearer {key}"}
    return client.generic(method, path, body or "{}", content_type="application/json", headers=headers)


@pytest.mark.parametrize("surface", PATHS)
def test_a_scope_opens_its_surface_and_no_other(alice, surface):
    for scope in (surface, f"{surface}:read"):
        key = key_of(alice, scope)
        assert {name: ask(path, key).status_code for name, path in PATHS.items()} == {
            name: 200 if name == surface else 403 for name in PATHS
        }


@pytest.mark.parametrize("path", PATHS.values())
def test_an_empty_list_of_scopes_grants_nothing(alice, path):
    key = old_key(alice, [])
    assert ask(path, key).status_code == ask(path, key, "POST").status_code == 403


def test_the_refusal_names_the_scope_and_is_audited(alice):
    answer = RestCaller(bearer=key_of(alice, "openai")).get("sessions")
    assert (answer.status, answer.meta["code"]) == (403, "missing_scope")
    assert "`rest`" in answer.error
    entry = AuditEntry.objects.get(action="ScopeRefused")
    assert (entry.actor, entry.details) == (f"user:{alice.pk}", {"scope": "rest"})


@pytest.mark.parametrize("scopes", [["read"], ["rest:read"], ["rest:read", "openai"]])
def test_reading_scopes_do_not_write(alice, scopes):
    caller = RestCaller(bearer=key_of(alice, *scopes))
    assert caller.get("sessions").status == 200
    answer = caller.post("agents", {"agentId": "x", "name": "X"})
    assert (answer.status, answer.meta["code"]) == (403, "read_only_key")


@pytest.mark.parametrize("exchange", ["/api/auth/ticket", "/token/issue"])
def test_exchanged_credentials_have_the_scopes_of_their_key(alice, exchange, rf):
    answer = ask(exchange, key_of(alice, "signalr:read"), "POST").json()
    token = answer.get("token") or answer["data"]["ticket"]
    hub = authenticate(rf.get(f"/hubs/chat?access_token={token}"), from_query="token")
    assert hub is not None and hub.scopes == {"signalr:read"} and not hub.can_write
    token = ask("/token/issue", key_of(alice, "signalr:read"), "POST").json()["token"]
    assert ask("/api/sessions", token).status_code == 403


def test_a_session_token_has_the_scopes_that_its_key_has_now(alice):
    """Tokens of the release before name no scopes, and are valid for an hour after the upgrade."""
    key = old_key(alice, [])
    token = ask("/token/issue", key, "POST").json()["token"]
    assert ask("/api/sessions", token).status_code == 403
    for scopes, status in (["all"], 200), (["openai"], 403):
        ApiKey.objects.filter(user=alice).update(scopes=scopes)
        assert ask("/api/sessions", token).status_code == status


def test_a_key_of_an_administrator_uses_rights_only_with_that_scope():
    admin = make_user("root", is_superuser=True)
    for scopes, holds in [(["all"], False), (["read"], False), (["all", "rights"], True)]:
        found = api_keys.authenticate_key(key_of(admin, *scopes))
        assert found.holds(READ_AUDIT) is rights.holds(found.user, READ_AUDIT) is holds


def test_a_key_for_one_agent_reaches_no_other(alice):
    other = make_agent("other")
    mine, theirs = make_session(alice), services.open_session(owner=alice, agent_id=other.agent_id)
    caller = RestCaller(bearer=key_of(alice, "all", "agent:default"))
    assert [row["sessionId"] for row in caller.get("sessions").data] == [mine.key]
    assert caller.get(f"sessions/{mine.key}").status == caller.get("agents/default").status == 200
    for refused in (
        caller.get(f"sessions/{theirs.key}"),
        caller.get("agents/other"),
        caller.post(f"sessions/{mine.key}/bind", {"agentId": "other"}),
    ):
        assert (refused.status, refused.meta["code"]) == (403, "missing_scope"), refused
        assert "`agent:other`" in refused.error


def test_a_key_for_one_agent_lists_no_other(alice):
    make_agent("other")
    key = key_of(alice, "all", "agent:default")
    assert [row["agentId"] for row in RestCaller(bearer=key).get("agents").data] == ["default"]
    assert [row["id"] for row in ask("/v1/models", key).json()["data"]] == ["default"]


def test_a_key_for_one_agent_lists_no_approvals_of_others_whatever_its_rights(alice):
    admin = make_user("root", is_superuser=True)
    execution = make_execution(make_run(make_session(alice)))
    now = timezone.now()
    Approval.objects.create(execution=execution, run_id=execution.run_id, created_at=now, expires_at=now)
    for scopes, found in [(["all", "rights"], 1), (["all", "rights", "agent:default"], 0)]:
        assert len(RestCaller(bearer=key_of(admin, *scopes)).get("approvals").data) == found


def test_a_message_of_a_key_starts_only_its_agent(alice):
    make_agent("other")
    user = api_keys.authenticate_key(key_of(alice, "all", "agent:other")).user
    message = services.NewMessage(services.WEB_CHAT, "default", str(alice.pk), "Alice", "hello")
    with pytest.raises(MissingScope, match="agent:default"):
        services.receive(message, owner=user)
    assert services.receive(message, owner=user, agent_id="other")


def test_keys_expire_after_the_days_of_the_setting_unless_asked_otherwise(alice, settings):
    settings.KOMAND_API_KEY_DAYS = 7
    caller, week = RestCaller(alice), timezone.now() + timedelta(days=7)
    body = {"name": "k", "scopes": ["all"]}
    caller.post("api-keys", body), caller.post("api-keys", {**body, "neverExpires": True})
    call_command("create_api_key", user="alice", name="k")
    call_command("create_api_key", user="alice", name="k", expires_days="never")
    ends = ApiKey.objects.order_by("id").values_list("expires_at", flat=True)
    assert [end and abs(end - week) < timedelta(minutes=5) for end in ends] == [True, None, True, None]


def test_a_key_of_threads_is_for_threads(alice):
    login = access_tokens.open_login(alice).access
    key = ask("/v1/api-keys", login, "POST", '{"name": "laptop"}').json()["key"]
    row = ApiKey.objects.get()
    assert row.scopes == ["threads"] and row.expires_at
    assert ask("/v1/threads", key).status_code == 200


def test_foreign_senders_take_the_right(alice):
    body = {"name": "k", "scopes": ["all", "senders:any"]}
    assert RestCaller(alice).post("api-keys", body).meta["code"] == "missing_right"
    alice.user_permissions.add(Permission.objects.get(codename="send_as_anyone"))
    assert RestCaller(alice).post("api-keys", body).status == 200


def test_every_surface_has_its_scopes():
    assert {"rest", "rest:read", "openai", "threads", "agent_messages", "signalr", "mcp"} <= set(described())


def test_the_migration_gives_keys_in_words_what_they_had(alice):
    staff = make_user("sam", is_staff=True)
    before = [(alice, []), (alice, ["read"]), (staff, []), (staff, ["read", "senders:any"]), (alice, ["rest:read"])]
    for user, scopes in before:
        old_key(user, scopes)
    migration = import_module("sessions_app.migrations.0013_api_key_scopes")
    migration.name_scopes(apps, None)
    assert list(ApiKey.objects.order_by("id").values_list("scopes", flat=True)) == [
        ["all"],
        ["read"],
        ["all", "rights"],
        ["read", "rights", "senders:any"],
        ["rest:read"],
    ]


def test_the_prompt_of_a_workstream_takes_the_scope_of_its_agent(alice):
    other = make_agent("other", owner_id=alice.pk)
    parent = make_run(make_session(alice))
    child = make_run(Session.objects.get(), parent=parent, root_id=parent.pk, depth=1)
    Run.objects.filter(pk=child.pk).update(agent=other)
    limited, wide = (RestCaller(bearer=key_of(alice, *scopes)) for scopes in (["all", "agent:default"], ["all"]))
    refused = limited.get(f"runs/{child.pk}/prompt")
    assert (refused.status, refused.meta["code"]) == (403, "missing_scope")
    assert wide.get(f"runs/{child.pk}/prompt").status == 200


def test_an_mcp_client_continues_a_session_of_the_agent_of_its_key(alice):
    make_agent("other")
    key = api_keys.authenticate_key(key_of(alice, "all", "agent:other"))
    session = services.open_session(owner=key.user, agent_id="other")
    accepted = mcp._accept(key, {"message": "hello", "session": session.key})
    assert accepted.session_id == session.pk
    with pytest.raises(MissingScope, match="agent:default"):
        mcp._accept(key, {"message": "hello"})
