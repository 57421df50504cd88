"""The list of a user's logins, and signing out everywhere."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from audit_app.kernel.errors import NotFound
from audit_app.models import AuditEntry
from sessions_app.identity import api_keys, logins
from sessions_app.models import Login
from tests.support.rest import RestCaller, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "default_agent"), pytest.mark.one_database]


def browser(user: User, agent: str = "Firefox") -> Client:
    client = Client(HTTP_USER_AGENT=agent)
    form = {"username": user.username, "password": "secret-enough"}
    assert client.post("/login", form).status_code == 302
    assert client.get("/chat/new").status_code == 200
    return client


def rest_login(name: str = "alice") -> dict[str, Any]:
    body = {"email": name, "password": "secret-enough"}
    answer = Client(HTTP_USER_AGENT="script").post("/api/auth/login", body, content_type="application/json")
    found: dict[str, Any] = answer.json()["data"]
    return found


def is_logged_in(client: Client) -> bool:
    return client.get("/chat/new").status_code == 200


def test_logins_of_browsers_and_programs_are_listed_with_their_device(alice):
    browser(alice), rest_login(), browser(make_user("bob"), "Safari")
    found = {(login.user_agent, login.address) for login in logins.list_logins(alice)}
    assert found == {("Firefox", "127.0.0.1"), ("script", "127.0.0.1")}


def test_the_use_of_a_browser_session_is_written_once_in_five_minutes(alice, django_assert_num_queries, monkeypatch):
    client = browser(alice)
    first = Login.objects.get().last_seen_at
    is_logged_in(client)
    assert Login.objects.get().last_seen_at == first
    monkeypatch.setattr(logins, "_seen", {})
    is_logged_in(client)
    assert Login.objects.get().last_seen_at > first


def test_ended_logins_are_not_listed(alice):
    client, tokens = browser(alice), rest_login()
    client.post("/logout")
    Client().post("/api/auth/logout", {"refreshToken": tokens["refreshToken"]}, content_type="application/json")
    assert logins.list_logins(alice) == []


def test_renewing_a_token_keeps_its_login_in_the_list(alice):
    tokens = rest_login()
    Login.objects.update(last_seen_at=timezone.now() - timedelta(days=1))
    Client().post("/api/auth/refresh", {"refreshToken": tokens["refreshToken"]}, content_type="application/json")
    (found,) = logins.list_logins(alice)
    assert found.last_seen_at > timezone.now() - timedelta(hours=1)


def test_one_login_is_ended_and_no_other(alice):
    kept, tokens = browser(alice, "kept"), rest_login()
    ended = next(login for login in logins.list_logins(alice) if login.user_agent == "script")
    logins.end_login(alice, ended.pk)
    assert is_logged_in(kept)
    assert RestCaller(bearer=tokens["token"]).get("sessions").status == 401
    with pytest.raises(NotFound):
        logins.end_login(make_user("bob"), logins.list_logins(alice)[0].pk)


def test_signing_out_everywhere_ends_every_session_and_token_of_this_user_alone(alice):
    bob = make_user("bob")
    clients, tokens = [browser(alice), browser(alice)], rest_login()
    Login.objects.all().delete()  # as for sessions of the release before
    others = browser(bob)
    logins.sign_out_everywhere(alice)
    assert [is_logged_in(client) for client in (*clients, others)] == [False, False, True]
    assert RestCaller(bearer=tokens["token"]).get("sessions").status == 401
    renewal = Client().post(
        "/api/auth/refresh", {"refreshToken": tokens["refreshToken"]}, content_type="application/json"
    )
    assert renewal.status_code == 401
    assert logins.list_logins(alice) == []
    assert AuditEntry.objects.get(action="SignedOutEverywhere").details["user"] == "alice"


def test_the_session_that_asks_may_stay_and_keys_do(alice):
    mine, other = browser(alice), browser(alice)
    key = api_keys.create_api_key(alice, "k", scopes=["rest"]).key
    logins.sign_out_everywhere(alice, keep_session=mine.session.session_key)
    assert [is_logged_in(mine), is_logged_in(other)] == [True, False]
    assert len(logins.list_logins(alice)) == 1
    assert RestCaller(bearer=key).get("sessions").status == 200


def test_operators_sign_users_out_in_the_admin(alice):
    client = browser(alice)
    operator = make_user("sam", is_staff=True)
    page = Client()
    page.force_login(operator)
    url = f"/admin/auth/user/{alice.pk}/sign-out/"
    operator.user_permissions.add(Permission.objects.get(codename="view_user"))
    assert page.post(url, {"_form_submitted": "True"}).status_code == 403
    assert is_logged_in(client)
    operator.user_permissions.add(Permission.objects.get(codename="change_user"))
    assert page.post(url, {"_form_submitted": "True"}).status_code == 302
    assert not is_logged_in(client)
    admin = make_user("root", is_staff=True, is_superuser=True)
    assert page.post(f"/admin/auth/user/{admin.pk}/sign-out/", {"_form_submitted": "True"}).status_code == 403
