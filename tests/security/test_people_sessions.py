"""The page of a user's sessions: what it lists, and what can be ended from it."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from sessions_app.identity import access_tokens, logins
from sessions_app.identity.devices import describe
from sessions_app.models import Login
from tests.support.rest import RestCaller, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
PHONE = "Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0 Mobile Safari/537.36"


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    logins._seen.clear()


def browse(user: User, agent: str) -> Client:
    """Return a browser that has logged in on the page."""
    browser = Client(headers={"User-Agent": agent})
    browser.post("/login", {"username": user.username, "password": "secret-enough"})
    return browser


def is_in(browser: Client) -> bool:
    return browser.get("/account").status_code == 200


def test_each_device_is_listed_and_the_own_one_marked(alice: User) -> None:
    browse(alice, PHONE)
    page = browse(alice, FIREFOX).get("/account").content.decode()
    assert page.count("<strong>") == 2 and page.count("this device") == 1
    assert "Firefox on Linux" in page and "Chrome on Android" in page and "127.0.0.1" in page


def test_one_device_is_signed_out(alice: User) -> None:
    phone, laptop = browse(alice, PHONE), browse(alice, FIREFOX)
    row = Login.objects.get(session_key=phone.session.session_key)
    assert laptop.post(f"/account/logins/{row.pk}/sign-out").status_code == 302
    assert not is_in(phone) and is_in(laptop)


def test_everything_else_is_signed_out_with_tokens(alice: User) -> None:
    phone, laptop = browse(alice, PHONE), browse(alice, FIREFOX)
    pair = RestCaller().post("auth/login", {"email": "alice", "password": "secret-enough"}).data
    assert "An unknown program" in laptop.get("/account").content.decode()
    laptop.post("/account/sign-out-elsewhere")
    assert not is_in(phone) and is_in(laptop)
    with pytest.raises(access_tokens.TokenRefused):
        access_tokens.rotate(pair["refreshToken"])
    assert RestCaller(bearer=pair["token"]).get("sessions").status == 401


def test_the_logins_of_others_are_neither_listed_nor_ended(alice: User) -> None:
    phone = browse(alice, PHONE)
    bob = browse(make_user("bob"), FIREFOX)
    assert "Chrome on Android" not in bob.get("/account").content.decode()
    row = Login.objects.get(session_key=phone.session.session_key)
    assert bob.post(f"/account/logins/{row.pk}/sign-out").status_code == 404
    assert is_in(phone)


def test_what_a_program_says_about_itself_is_escaped(alice: User) -> None:
    page = browse(alice, "<script>alert(1)</script>\u202e").get("/account").content.decode()
    assert "<script>alert" not in page and "\u202e" not in page


def test_administrators_see_the_devices_of_a_user(alice: User) -> None:
    browse(alice, PHONE)
    pages = Client()
    pages.force_login(make_user("ada", is_staff=True, is_superuser=True))
    page = pages.get(reverse("admin:auth_user_change", args=[alice.pk])).content.decode()
    assert "Chrome on Android · 127.0.0.1" in page


@pytest.mark.parametrize(
    ("agent", "device"),
    [(FIREFOX, "Firefox on Linux"), ("python-httpx/1.0", "A Python program"), ("x", "x"), ("", "An unknown program")],
)
def test_a_device_is_described(agent: str, device: str) -> None:
    assert describe(agent) == device
