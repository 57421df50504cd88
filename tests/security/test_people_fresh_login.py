"""Fresh login: what takes one, where it is asked for, and that it cannot be had without a password."""

from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents_app.models import Step
from agents_app.types import RunStatus
from audit_app import fresh_login
from audit_app.models import AuditEntry
from sessions_app.identity import access_tokens
from sessions_app.identity.principal import Principal
from sessions_app.identity.stream_tickets import issue_ticket, redeem_ticket
from sessions_app.surfaces.signalr import commands
from tests.support.rest import RestCaller, make_execution, make_run, make_session
from tools_app.executions.approvals import digest_of
from tools_app.models import Approval

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

OLD = datetime.now(UTC) - timedelta(minutes=11)


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


def test_api_keys_are_created_after_a_fresh_login_only(alice: User) -> None:
    """Refuse an old token a key, which would outlive every fresh login."""
    old = access_tokens.open_login(alice, authenticated_at=OLD).access
    refused = RestCaller(bearer=old).post("api-keys", {"name": "mine", "scopes": ["rest"]})
    assert (refused.status, refused.meta["code"]) == (403, "fresh_login_required")
    assert RestCaller(alice).post("api-keys", {"name": "mine", "scopes": ["rest"]}).status == 200
    threads = Client().post(
        "/v1/api-keys", {"name": "mine"}, content_type="application/json", headers={"Authorization": f"Bearer {old}"}
    )
    assert threads.status_code == 403


def test_an_api_key_does_without(alice: User) -> None:
    assert Principal(alice, "api_key").has_fresh_login
    assert not Principal(alice, "session").has_fresh_login


def approval_of(owner: User, risk: str = "high") -> Approval:
    """Return a pending request in a session of the owner."""
    run = make_run(make_session(owner), RunStatus.WAITING, waiting_on="approval")
    Step.objects.create(run=run, index=0, fence=1, text="", started_at=timezone.now(), ended_at=timezone.now())
    row = make_execution(run, status="Pending", tool="launch", arguments={"target": "moon"}, risk=risk)
    return Approval.objects.create(
        execution=row,
        run_id=run.pk,
        digest=digest_of(row),
        reason="The call is of high risk.",
        created_at=timezone.now(),
        expires_at=timezone.now() + timedelta(minutes=15),
    )


@pytest.fixture
def operator(alice: User) -> User:
    User.objects.filter(pk=alice.pk).update(is_superuser=True, is_staff=True)
    return User.objects.get(pk=alice.pk)


@pytest.mark.django_db(transaction=True)
class TestHighRisk:
    def test_an_old_token_may_not_allow_but_may_deny(self, operator: User) -> None:
        approval = approval_of(operator)
        rest = RestCaller(bearer=access_tokens.open_login(operator, authenticated_at=OLD).access)
        refused = rest.post(f"approvals/{approval.pk}/decide", {"decision": "allow_once"})
        assert (refused.status, refused.meta["code"]) == (403, "fresh_login_required")
        assert "log in again" in (refused.error or "")
        assert AuditEntry.objects.get(action="FreshLoginRequired").actor == f"user:{operator.pk}"
        assert rest.post(f"approvals/{approval.pk}/decide", {"decision": "deny"}).status == 200

    def test_low_risk_takes_no_fresh_login(self, operator: User) -> None:
        approval = approval_of(operator, "medium")
        rest = RestCaller(bearer=access_tokens.open_login(operator, authenticated_at=OLD).access)
        assert rest.post(f"approvals/{approval.pk}/decide", {"decision": "allow_once"}).status == 200

    def test_the_page_sends_to_the_confirmation(self, operator: User, browser: Client) -> None:
        approval = approval_of(operator)
        make_old(browser)
        here = f"/chat/{approval.execution.session_id}"
        headers = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{here}"}
        path = f"/chat/approvals/{approval.pk}/decide"
        response = browser.post(path, {"decision": "allow_once"}, headers=headers)
        assert response.headers["HX-Redirect"] == "/login/confirm?" + urlencode({"next": here})
        approval.refresh_from_db()
        assert approval.status == "pending"

    def test_the_hub_refuses(self, operator: User) -> None:
        approval = approval_of(operator)
        with pytest.raises(fresh_login.FreshLoginRequired):
            commands.decide(Principal(operator, "jwt", authenticated_at=OLD), str(approval.pk), "allow_once")
        assert commands.decide(
            Principal(operator, "api_key", frozenset({"all", "rights"})), str(approval.pk), "allow_once"
        )["decision"]
