"""Login by OpenID Connect: users by issuer and subject, roles by groups, and forged or replayed answers."""

import time
from collections.abc import Iterator
from importlib import reload
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import clear_url_caches

from audit_app.models import AuditEntry
from komand import urls as root_urls
from sessions_app.identity import oidc
from sessions_app.models import ExternalIdentity
from sessions_app.surfaces.account import urls as account_urls
from tests.fakes.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider
from tests.support.rest import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.fixture
def provider(settings) -> Iterator[OidcProvider]:
    with OidcProvider() as running:
        settings.KOMAND_OIDC_ISSUER = running.issuer
        settings.KOMAND_OIDC_CLIENT_ID, settings.KOMAND_OIDC_CLIENT_SECRET = CLIENT_ID, CLIENT_SECRET
        load_routes()
        yield running
    settings.KOMAND_OIDC_ISSUER = ""
    load_routes()


def load_routes() -> None:
    """Load the routes again: they depend on whether a provider is set."""
    reload(account_urls)
    reload(root_urls)
    clear_url_caches()


def log_in(browser: Client, provider: OidcProvider, start: str = "/login/oidc") -> Any:
    """Log in at the provider, and return the response to the browser that comes back."""
    callback = urlsplit(provider.log_in(browser.get(start).headers["Location"]))
    return browser.get(f"{callback.path}?{callback.query}")


def is_logged_in(browser: Client) -> bool:
    return browser.get("/account").status_code == 200


def test_without_a_provider_there_are_no_routes() -> None:
    assert Client().get("/login/oidc").status_code == 404
    assert b"/login/oidc" not in Client().get("/login").content


def test_a_first_login_creates_a_user_without_a_password(provider: OidcProvider) -> None:
    provider.user |= {"email": "ada@example.org", "email_verified": True, "given_name": "Ada"}
    browser = Client()
    assert b"Log in with your organization" in browser.get("/login").content
    response = log_in(browser, provider, "/login/oidc?next=/chat/new")
    assert (response.status_code, response.headers["Location"]) == (302, "/chat/new")
    user = User.objects.get()
    assert (user.username, user.email, user.first_name) == ("ada", "ada@example.org", "Ada")
    assert not user.has_usable_password() and not user.is_staff and not user.is_superuser
    assert is_logged_in(browser)
    assert AuditEntry.objects.get(action="LoggedIn").details["method"] == "oidc"


def test_the_request_has_state_nonce_and_pkce(provider: OidcProvider) -> None:
    asked = parse_qs(urlsplit(Client().get("/login/oidc").headers["Location"]).query)
    assert asked["code_challenge_method"] == ["S256"] and asked["response_type"] == ["code"]
    assert all(len(asked[name][0]) >= 20 for name in ("state", "nonce", "code_challenge"))


def test_a_user_is_known_by_issuer_and_subject_alone(provider: OidcProvider) -> None:
    log_in(Client(), provider)
    provider.user["preferred_username"] = "lovelace"
    log_in(Client(), provider)
    assert User.objects.get().username == "ada"
    provider.user["sub"] = "u-2"
    log_in(Client(), provider)
    assert User.objects.count() == 2


@pytest.mark.parametrize("verified", [True, False])
def test_a_local_user_with_the_same_address_is_not_taken_over(provider: OidcProvider, verified: bool) -> None:
    alice = make_user("alice")
    provider.user |= {"preferred_username": "alice@example.org", "email": "alice@example.org"}
    provider.user |= {"email_verified": verified}
    log_in(Client(), provider)
    other = User.objects.exclude(pk=alice.pk).get()
    assert other.username.lower() != "alice@example.org" and other.email == ""


@pytest.mark.parametrize(("verified", "users"), [(True, 1), (False, 2), ("true", 2)])
def test_matching_by_address_takes_the_setting_and_a_verified_one(
    provider: OidcProvider, settings, verified: Any, users: int
) -> None:
    settings.KOMAND_OIDC_MATCH_EMAIL = True
    make_user("alice")
    provider.user |= {"email": "Alice@example.org", "email_verified": verified}
    log_in(Client(), provider)
    assert User.objects.count() == users


def test_a_name_of_digits_is_not_taken_for_the_id_of_a_user(provider: OidcProvider) -> None:
    provider.user["preferred_username"] = "3"
    log_in(Client(), provider)
    assert User.objects.get().username == "user-3"


def test_groups_give_roles_and_take_them_away(provider: OidcProvider, settings) -> None:
    settings.KOMAND_OIDC_ROLES = [("ops", "Operator"), ("boss", "Administrator"), ("x", "Unknown here")]
    settings.KOMAND_OIDC_STAFF_GROUPS = ["boss"]
    for name in ("Operator", "Administrator", "Own"):
        Group.objects.get_or_create(name=name)
    provider.user["groups"] = ["ops", "boss", "x", "Administrator-not"]
    log_in(Client(), provider)
    user = User.objects.get()
    user.groups.add(Group.objects.get(name="Own"))
    assert set(user.groups.values_list("name", flat=True)) == {"Operator", "Administrator", "Own"} and user.is_staff
    provider.user["groups"] = ["ops"]
    log_in(Client(), provider)
    user = User.objects.get()
    assert set(user.groups.values_list("name", flat=True)) == {"Operator", "Own"} and not user.is_staff
    del provider.user["groups"]
    log_in(Client(), provider)
    assert set(user.groups.values_list("name", flat=True)) == {"Own"}
    assert AuditEntry.objects.filter(action="RolesChanged").count() == 3


def test_only_members_of_the_allowed_groups_are_admitted(provider: OidcProvider, settings) -> None:
    settings.KOMAND_OIDC_ALLOWED_GROUPS = ["komand"]
    browser = Client()
    assert log_in(browser, provider).status_code == 403
    assert not is_logged_in(browser) and not User.objects.exists()
    assert AuditEntry.objects.filter(action="NotAdmitted").exists()


def test_a_deactivated_user_stays_out(provider: OidcProvider) -> None:
    log_in(Client(), provider)
    User.objects.update(is_active=False)
    browser = Client()
    assert log_in(browser, provider).status_code == 403
    assert not is_logged_in(browser)


@pytest.mark.parametrize(
    "spoil",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another-client"},
        {"aud": ["another-client"]},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"sub": None},
        {"exp": int(time.time()) - 3600},
        {"azp": "another-client", "aud": [CLIENT_ID, "another-client"]},
    ],
)
def test_a_wrong_claim_logs_nobody_in(provider: OidcProvider, spoil: dict[str, Any]) -> None:
    provider.spoil = spoil
    browser = Client()
    response = log_in(browser, provider)
    assert response.status_code == 401 and b"failed" in response.content
    assert not is_logged_in(browser) and not User.objects.exists()
    assert AuditEntry.objects.filter(action="ProviderLoginRefused").exists()


@pytest.mark.parametrize("forgery", ["key", "none", "HS256"])
def test_a_forged_signature_logs_nobody_in(provider: OidcProvider, forgery: str) -> None:
    if forgery == "key":
        provider.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    else:
        provider.algorithm, provider.key = forgery, CLIENT_SECRET * 2
    browser = Client()
    assert log_in(browser, provider).status_code == 401
    assert not is_logged_in(browser)


def test_an_answer_belongs_to_the_browser_that_asked_and_works_once(provider: OidcProvider) -> None:
    attacker, victim = Client(), Client()
    callback = urlsplit(provider.log_in(attacker.get("/login/oidc").headers["Location"]))
    path = f"{callback.path}?{callback.query}"
    assert victim.get(path).status_code == 401, "login of the victim as the attacker"
    assert attacker.get(path).status_code == 302
    assert attacker.post("/logout").status_code == 302
    assert attacker.get(path).status_code == 401


def test_an_error_of_the_provider_is_shown_without_its_text(provider: OidcProvider) -> None:
    browser = Client()
    browser.get("/login/oidc")
    response = browser.get("/login/oidc/callback", {"error": "access_denied", "error_description": "<b>send money</b>"})
    assert response.status_code == 401 and b"send money" not in response.content


def test_a_provider_that_is_away_is_no_server_error(provider: OidcProvider, settings) -> None:
    settings.KOMAND_OIDC_ISSUER = "http://127.0.0.1:9"
    response = Client().get("/login/oidc")
    assert response.status_code == 401 and b"login with your organization failed" in response.content


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example"])
def test_the_login_leads_back_to_this_host_only(provider: OidcProvider, target: str) -> None:
    assert log_in(Client(), provider, f"/login/oidc?next={target}").headers["Location"] == "/"


def test_logging_out_ends_the_session_here_and_at_the_provider(provider: OidcProvider) -> None:
    browser = Client()
    log_in(browser, provider)
    assert browser.post("/logout").headers["Location"] == "/login/oidc/logout"
    assert not is_logged_in(browser)
    target = urlsplit(browser.get("/login/oidc/logout").headers["Location"])
    asked = parse_qs(target.query)
    assert f"{target.scheme}://{target.netloc}{target.path}" == f"{provider.issuer}/logout"
    assert asked["post_logout_redirect_uri"] == ["http://testserver/login"] and asked["id_token_hint"]


@pytest.mark.parametrize(
    ("spoil", "is_renewed"),
    [
        ({"auth_time": int(time.time())}, True),
        ({"auth_time": int(time.time()) - 3600}, False),
        ({}, False),
        ({"auth_time": int(time.time()), "sub": "u-2"}, False),
    ],
)
def test_a_confirmation_needs_a_new_login_of_the_same_user(
    provider: OidcProvider, spoil: dict[str, Any], is_renewed: bool
) -> None:
    browser = Client()
    log_in(browser, provider)
    session = browser.session
    session["authenticated_at"] = 0
    session.save()
    assert b"/login/oidc/confirm?next=" in browser.get("/login/confirm", {"next": "/account"}).content
    provider.spoil = spoil
    response = log_in(browser, provider, "/login/oidc/confirm?next=/account")
    assert provider.requests[-1]["prompt"] == "login" and provider.requests[-1]["max_age"] == "0"
    assert (response.headers.get("Location") == "/account") == is_renewed
    assert (browser.session["authenticated_at"] > 0) == is_renewed
    assert ExternalIdentity.objects.count() == 1


def test_a_user_without_an_account_there_confirms_with_the_password(provider: OidcProvider) -> None:
    browser = Client()
    browser.force_login(make_user("alice"))
    page = browser.get("/login/confirm").content
    assert b"/login/oidc/confirm" not in page and b"Password of alice" in page


def test_the_client_secret_is_in_no_page_and_no_audit_entry(provider: OidcProvider) -> None:
    browser = Client()
    shown = b"".join(response.content for response in (browser.get("/login"), log_in(browser, provider)))
    assert CLIENT_SECRET.encode() not in shown
    assert CLIENT_SECRET not in str(list(AuditEntry.objects.values_list("details", flat=True)))
    oidc._client_of.cache_clear()
