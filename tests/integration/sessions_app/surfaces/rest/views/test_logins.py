"""Login, refresh and logout over REST, and invalid credentials of every kind."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from axes.models import AccessAttempt, AccessLog
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connections
from django.test import Client

from audit_app.models import AuditEntry
from sessions_app.identity import access_tokens
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import RefreshToken
from tests.support.rest import RestCaller, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]
NOBODY = RestCaller()


@pytest.fixture(autouse=True)
def _full_name(alice: User) -> None:
    alice.first_name, alice.last_name = "Alice", "Adams"
    alice.save()


def _login(name: str, password: str = "secret-enough", **headers: str):
    return NOBODY.post("auth/login", {"email": name, "password": password}, **headers)


@pytest.mark.parametrize("name", ["alice@example.org", "ALICE@example.org", "alice"])
def test_login_by_email_or_name_returns_a_valid_token(alice, name):
    answer = _login(name)
    assert answer.status == 200
    assert answer.data["user"] == {
        "id": str(alice.pk),
        "name": "Alice Adams",
        "email": "alice@example.org",
        "initials": "AA",
    }
    assert RestCaller(bearer=answer.data["token"]).get("sessions").status == 200


def test_login_is_audited_and_stored_on_the_user(alice):
    _login("alice")
    alice.refresh_from_db()
    assert alice.last_login is not None
    assert AuditEntry.objects.get(action="LoggedIn").actor == f"user:{alice.pk}"


def test_login_opens_no_session_and_sets_no_cookie(alice):
    """The tokens are the login. A cookie would be a second one that the logout does not end."""
    body = {"email": "alice", "password": "secret-enough"}
    answer = Client().post("/api/auth/login", body, content_type="application/json")
    assert answer.status_code == 200 and not answer.cookies and not Session.objects.exists()
    log = AccessLog.objects.get(username="alice")
    assert (log.ip_address, log.session_hash) == ("127.0.0.1", "")


def test_wrong_password_unknown_user_and_deactivated_user_get_the_same_answer(alice):
    make_user("carol", is_active=False)
    answers = [_login("alice", "wrong"), _login("nobody", "wrong"), _login("carol")]
    assert {(a.status, a.error, a.meta["code"]) for a in answers} == {
        (401, "Wrong user name or password.", "login_refused")
    }


def test_an_email_of_two_users_logs_in_neither(alice):
    User.objects.create_user("twin", "alice@example.org", "secret-enough")
    assert _login("alice@example.org").status == 401


def test_too_many_failures_lock_out_even_the_right_password(alice, settings):
    settings.AXES_FAILURE_LIMIT = 3
    answers = [_login("alice", "wrong") for _ in range(3)]
    assert [a.status for a in answers[:2]] == [401, 401]
    locked = _login("alice")
    assert (locked.status, locked.meta["code"]) == (429, "locked_out")
    assert int(locked.headers["Retry-After"]) > 0


def test_logins_from_one_address_are_limited(alice, settings):
    settings.KOMAND_LOGIN_LIMIT = 2
    assert [_login("alice").status for _ in range(3)] == [200, 200, 429]


def test_forwarded_addresses_do_not_escape_the_limit(alice, settings):
    settings.KOMAND_LOGIN_LIMIT = 2
    statuses = [_login("alice", X_Forwarded_For=f"203.0.113.{i}").status for i in range(3)]
    assert statuses == [200, 200, 429]


@pytest.mark.parametrize(
    "body", [{}, {"email": "alice"}, {"email": "", "password": "x"}, {"email": "a\0b", "password": "x"}, [], "text", 7]
)
def test_incomplete_login_is_a_bad_request(body):
    assert NOBODY.post("auth/login", body).status == 400


def test_refresh_rotates_and_reuse_ends_the_login(alice):
    first = _login("alice").data
    second = NOBODY.post("auth/refresh", {"refreshToken": first["refreshToken"]}).data
    assert set(second) == {"token", "refreshToken"}
    assert RestCaller(bearer=second["token"]).get("sessions").status == 200
    assert NOBODY.post("auth/refresh", {"refreshToken": first["refreshToken"]}).status == 401
    assert RestCaller(bearer=second["token"]).get("sessions").status == 401


@pytest.mark.django_db(transaction=True)
def test_concurrent_refreshes_with_one_token_return_at_most_one_pair(alice):
    token = access_tokens.open_login(alice).refresh
    both_ready = threading.Barrier(2)

    def rotate(_: int) -> bool:
        both_ready.wait(60)
        try:
            return bool(access_tokens.rotate(token))
        except access_tokens.TokenRefused:
            return False
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(rotate, range(2))) == [False, True]
    assert not RefreshToken.objects.filter(revoked_at=None).exists()


def test_a_password_is_not_logged_or_stored(alice, caplog):
    caplog.set_level("DEBUG")
    _login("alice", "canary-password")
    stored = [str(vars(row)) for row in AccessAttempt.objects.all()]
    assert stored
    assert "canary-password" not in " ".join([caplog.text, *stored])


def test_logout_ends_the_tokens(alice):
    pair = _login("alice").data
    caller = RestCaller(bearer=pair["token"])
    assert NOBODY.post("auth/logout", {"refreshToken": pair["refreshToken"]}).status == 200
    assert caller.get("sessions").status == 401


def test_logout_by_the_bearer_token_alone(alice):
    caller = RestCaller(alice)
    assert caller.post("auth/logout").status == 200
    assert caller.get("sessions").status == 401


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer x", "Basic YWxpY2U6c2VjcmV0", "bearer sk-user-abc", "Bearer a.b.c, Bearer a.b.c"]
)
def test_no_or_bad_credentials_are_401(header):
    answer = NOBODY.get("sessions", Authorization=header)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_tokens_in_the_query_are_ignored(alice):
    token = access_tokens.open_login(alice).access
    for name in ("access_token", "token", "api_key", "key"):
        assert NOBODY.get(f"sessions?{name}={token}").status == 401


def test_bad_tokens_from_one_address_are_limited(settings):
    settings.KOMAND_LOGIN_LIMIT = 2
    caller = RestCaller(bearer="sk-user-wrong")
    assert [caller.get("sessions").status for _ in range(3)] == [401, 401, 429]


def test_a_page_session_reads_and_changes_only_with_its_csrf_token(alice):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(alice)
    assert browser.get("/api/sessions").status_code == 200
    body = {"name": "script", "scopes": ["read"]}
    refused = browser.post("/api/api-keys", body, content_type="application/json")
    assert refused.status_code == 403
    assert refused.json()["meta"]["code"] == "csrf_failed"
    browser.cookies["komand_csrf"] = "a" * 32
    proof = {"X-CSRFToken": "a" * 32}
    assert browser.post("/api/api-keys", body, content_type="application/json", headers=proof).status_code == 200


def test_a_valid_cookie_does_not_replace_an_invalid_token(alice):
    browser = Client()
    browser.force_login(alice)
    assert browser.get("/api/sessions", headers={"Authorization": "Bearer x"}).status_code == 401


def test_a_read_only_key_reads_and_changes_nothing(alice):
    caller = RestCaller(bearer=create_api_key(alice, "reader", scopes=["read"]).key)
    assert caller.get("agents").status == 200
    for method, path in [("POST", "agents"), ("PUT", "agents/default"), ("DELETE", "sessions/WebChat:default:1")]:
        answer = caller(method, path, {})
        assert (answer.status, answer.meta["code"]) == (403, "read_only_key")
