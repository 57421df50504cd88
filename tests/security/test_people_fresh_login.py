"""Fresh login: what takes one, where it is asked for, and that it cannot be had without a password."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from audit_app import fresh_login
from audit_app.models import AuditEntry
from sessions_app.identity import access_tokens
from sessions_app.identity.principal import Principal
from sessions_app.identity.stream_tickets import issue_ticket, redeem_ticket
from tests.support.rest import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]

OLD = datetime.now(UTC) - timedelta(minutes=11)


@pytest.fixture
def alice() -> User:
    return make_user("alice")


@pytest.fixture
def browser(alice: User) -> Client:
    client = Client()
    client.post("/login", {"username": "alice", "password": "secret-enough"})
    return client


def make_old(browser: Client) -> None:
    session = browser.session
    session["authenticated_at"] = int(OLD.timestamp())
    session.save()


def is_fresh(browser: Client) -> bool:
    return fresh_login.is_fresh(fresh_login.time_of_session(browser.session))


def test_a_login_on_the_page_is_fresh_for_ten_minutes(browser: Client) -> None:
    assert is_fresh(browser)
    make_old(browser)
    assert not is_fresh(browser)


def test_an_old_login_is_sent_to_the_confirmation_and_back(browser: Client) -> None:
    make_old(browser)
    response = browser.get("/account/second-factor")
    assert response.headers["Location"] == "/login/confirm?next=%2Faccount%2Fsecond-factor"
    entry = AuditEntry.objects.get(action="FreshLoginRequired")
    assert entry.details == {"action": "set up a second factor"}
    before = browser.session.session_key
    response = browser.post("/login/confirm", {"password": "secret-enough", "next": "/account/second-factor"})
    assert response.headers["Location"] == "/account/second-factor"
    assert is_fresh(browser) and browser.session.session_key != before


def test_a_form_that_was_too_late_leads_back_to_its_page(browser: Client) -> None:
    make_old(browser)
    response = browser.post("/account/recovery-codes", headers={"Referer": "http://testserver/account"})
    assert response.headers["Location"] == "/login/confirm?next=%2Faccount"
    response = browser.post("/account/recovery-codes", headers={"Referer": "https://evil.example/x"})
    assert response.headers["Location"] == "/login/confirm"


def test_the_confirmation_takes_the_right_password_of_the_same_user(browser: Client) -> None:
    make_old(browser)
    response = browser.post("/login/confirm", {"password": "wrong"})
    assert response.status_code == 401 and b"Wrong password." in response.content
    assert not is_fresh(browser)


def test_the_confirmation_redirects_only_to_this_host(browser: Client) -> None:
    make_old(browser)
    response = browser.post("/login/confirm", {"password": "secret-enough", "next": "https://evil.example/"})
    assert response.headers["Location"] == "/"


def test_zero_minutes_switch_it_off(browser: Client, settings) -> None:
    make_old(browser)
    settings.KOMAND_FRESH_LOGIN_MINUTES = 0
    assert is_fresh(browser)


def test_tokens_carry_the_time_of_the_login_through_every_refresh(alice: User) -> None:
    pair = access_tokens.open_login(alice, authenticated_at=OLD)
    for token in (pair.access, access_tokens.rotate(pair.refresh).access):
        principal = access_tokens.authenticate_token(token)
        assert principal.authenticated_at == OLD.replace(microsecond=0)
        assert not principal.has_fresh_login
    assert access_tokens.authenticate_token(access_tokens.open_login(alice).access).has_fresh_login


def test_tickets_and_session_tokens_are_no_fresher_than_the_login(alice: User) -> None:
    principal = Principal(alice, "jwt", authenticated_at=OLD)
    assert redeem_ticket(issue_ticket(principal)).authenticated_at == OLD.replace(microsecond=0)
    assert not redeem_ticket(issue_ticket(Principal(alice, "jwt"))).has_fresh_login


def test_the_refreshed_cookie_of_threads_is_no_fresher_than_the_login(alice: User) -> None:
    client = Client()
    old = access_tokens.open_login(alice, authenticated_at=OLD).access
    client.post("/v1/auth/uat", headers={"Authorization": f"Bearer {old}"})
    cookie = client.cookies["ks_uat"].value
    assert not access_tokens.authenticate_token(cookie).has_fresh_login


def test_an_api_key_does_without(alice: User) -> None:
    assert Principal(alice, "api_key").has_fresh_login
    assert not Principal(alice, "session").has_fresh_login
