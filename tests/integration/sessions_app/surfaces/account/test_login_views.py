"""Login and logout on the page."""

import pytest
from django.conf import settings
from django.test import Client

from tests.support.rest import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.fixture
def browser() -> Client:
    make_user("alice")
    return Client()


def _log_in(browser: Client, password: str = "secret-enough", name: str = "alice", **fields: str):
    return browser.post("/login", {"username": name, "password": password, **fields})


@pytest.mark.parametrize("name", ["alice", "ALICE@example.org"])
def test_login_by_user_name_or_e_mail_address(browser: Client, name: str) -> None:
    response = _log_in(browser, name=name)
    assert (response.status_code, response.headers["Location"]) == (302, "/")
    assert browser.get("/chat/new").status_code == 200


@pytest.mark.parametrize(("name", "password"), [("alice", "wrong"), ("nobody", "secret-enough")])
def test_a_wrong_password_and_an_unknown_name_show_the_same_text(browser: Client, name: str, password: str) -> None:
    response = _log_in(browser, password, name)
    assert response.status_code == 401
    assert b"Wrong user name or password." in response.content
    assert password.encode() not in response.content


def test_an_empty_form_names_the_missing_fields(browser: Client) -> None:
    response = _log_in(browser, "")
    assert response.status_code == 400
    assert b"and your password" in response.content


def test_too_many_failures_lock_out_for_a_while(browser: Client, settings) -> None:
    settings.KOMAND_LOGIN_LIMIT = 0
    for number in range(settings.AXES_FAILURE_LIMIT):
        response = _log_in(browser, "wrong", f"user-{number}")
    assert response.status_code == 429
    assert b"Too many failed logins from your address. Try again in 5 min" in response.content
    assert int(response.headers["Retry-After"]) == 300
    assert _log_in(browser).status_code == 429


def test_the_lockout_and_the_rate_limit_have_messages_of_their_own(browser: Client, settings) -> None:
    settings.KOMAND_LOGIN_LIMIT = 1
    _log_in(browser, "wrong")
    response = _log_in(browser)
    assert response.status_code == 429
    assert b"Too many attempts from your address." in response.content


@pytest.mark.parametrize(
    ("wanted", "target"),
    [
        ("/chat/new?agent=a", "/chat/new?agent=a"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("/\\evil.example", "/"),
    ],
)
def test_login_redirects_only_to_this_host(browser: Client, wanted: str, target: str) -> None:
    assert _log_in(browser, next=wanted).headers["Location"] == target
    assert browser.get("/login", {"next": wanted}).headers["Location"] == target


def test_the_login_needs_the_forms_token() -> None:
    make_user("alice")
    assert _log_in(Client(enforce_csrf_checks=True)).status_code == 403


def test_logging_out_needs_a_post_and_forgets(browser: Client) -> None:
    _log_in(browser)
    assert browser.get("/logout").status_code == 405
    assert browser.get("/chat/new").status_code == 200
    assert browser.post("/logout").headers["Location"] == "/login"
    assert browser.get("/chat/new").status_code == 302


def test_a_login_gets_a_new_session_cookie(browser: Client) -> None:
    browser.cookies[settings.SESSION_COOKIE_NAME] = "planted"
    _log_in(browser)
    cookie = browser.cookies[settings.SESSION_COOKIE_NAME]
    assert cookie.value != "planted"
    assert cookie["httponly"] and cookie["samesite"] == "Lax"
