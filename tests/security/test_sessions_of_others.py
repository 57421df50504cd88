"""Sessions of channels and of other users over REST and in the admin, for holders of the rights over them."""

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from audit_app.models import AuditEntry
from sessions_app.conversation.session_key import parse_key
from sessions_app.conversation.sessions import open_new
from sessions_app.models import Session
from sessions_app.rights import CHANGE_SESSIONS, VIEW_SESSIONS
from tests.support.rest import RestCaller, make_agent, make_session, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

KEY = "Telegram:bot-456:user-789"
READS = [
    ("GET", "", None),
    ("GET", "/history", None),
    ("GET", "/policy", None),
    ("GET", "/branches", None),
    ("GET", "/context", None),
]
WRITES = [
    ("POST", "/bind", {"agentId": "other"}),
    ("PUT", "/policy", {"readonly": True, "deniedTools": []}),
    ("POST", "/cancel", {}),
]


@pytest.fixture(autouse=True)
def session() -> Session:
    agent = make_agent()
    make_agent("other")
    return open_new(parse_key(KEY), None, "Zoe", agent)[0]


def holder(name: str, *rights: Any, **fields: Any) -> User:
    user = make_user(name, **fields)
    names = [right.permission.partition(".")[2] for right in rights]
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    return user


def statuses(user: User, calls: list[Any], key: str = KEY) -> list[int]:
    caller = RestCaller(user)
    return [caller(method, f"sessions/{key}{path}", body).status for method, path, body in calls]


def test_holders_of_the_rights_read_bind_limit_and_cancel_sessions_of_channels(session):
    operator = holder("olga", VIEW_SESSIONS, CHANGE_SESSIONS)
    assert statuses(operator, [*READS, *WRITES]) == [200] * 8
    session.refresh_from_db()
    assert session.agent.agent_id == "other" and session.policy["readonly"] is True


def test_each_access_is_audited(session):
    operator = holder("olga", VIEW_SESSIONS, CHANGE_SESSIONS)
    statuses(operator, [READS[1], WRITES[0]])
    found = AuditEntry.objects.filter(action="SessionAccessed", session_id=session.pk).order_by("id")
    assert [entry.details["right"] for entry in found] == [VIEW_SESSIONS.permission, CHANGE_SESSIONS.permission]
    assert {entry.actor for entry in found} == {f"user:{operator.pk}"}


def test_the_right_to_see_is_not_the_right_to_change():
    viewer = holder("vera", VIEW_SESSIONS)
    assert statuses(viewer, [*READS, *WRITES]) == [200] * 5 + [403] * 3
    answer = RestCaller(viewer).post(f"sessions/{KEY}/cancel")
    assert answer.meta["right"] == CHANGE_SESSIONS.permission


@pytest.mark.parametrize("fields", [{}, {"is_staff": True}])
def test_nobody_else_learns_that_the_session_exists(fields):
    user = make_user("alice", **fields)
    assert statuses(user, [*READS, *WRITES]) == statuses(user, [*READS, *WRITES], "Telegram:bot-456:none") == [404] * 8


def test_the_owner_needs_no_right_and_leaves_no_access_entry():
    alice = make_user("alice")
    own = make_session(alice)
    assert statuses(alice, [*READS, *WRITES], own.key) == [200] * 8
    assert not AuditEntry.objects.filter(action="SessionAccessed").exists()


def test_operators_bind_a_session_in_the_admin(session):
    page, url = Client(), f"/admin/sessions_app/session/{session.pk}/bind/"
    form = {"_form_submitted": "True", "agent": "other"}
    page.force_login(holder("vera", VIEW_SESSIONS, is_staff=True))
    assert page.post(url, form).status_code == 403
    page.force_login(holder("olga", VIEW_SESSIONS, CHANGE_SESSIONS, is_staff=True))
    assert page.post(url, {**form, "agent": "nobody"}).status_code == 302
    assert Session.objects.get(pk=session.pk).agent.agent_id == "default"
    assert page.post(url, form).status_code == 302
    assert Session.objects.get(pk=session.pk).agent.agent_id == "other"
    assert AuditEntry.objects.filter(action="SessionBound", session_id=session.pk).count() == 1
