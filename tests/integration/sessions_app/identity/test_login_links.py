"""Login links: one use, expiry, what voids them, and the second factor."""

import json
import re
import time
from io import StringIO

import pyotp
import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from sessions_app.identity import login_links, second_factor
from sessions_app.identity.login_links import LoginLinkRefused
from tests.support.rest import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.fixture
def ada() -> User:
    return make_user("ada")


def refused(token: str) -> bool:
    page = Client().get(f"/login/link/{token}")
    return page.status_code == 403 and "Log in with your password" in page.content.decode()


def test_a_link_logs_in_once_by_a_button(ada: User) -> None:
    token, browser = login_links.make(ada), Client(enforce_csrf_checks=True)
    page = browser.get(f"/login/link/{token}")
    assert "Log in as ada" in page.content.decode() and not browser.session.get("_auth_user_id"), (
        "looking logs in nobody"
    )
    assert browser.post(f"/login/link/{token}").status_code == 403, "without the page's token"
    given = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.content.decode())
    assert given
    answer = browser.post(f"/login/link/{token}", {"csrfmiddlewaretoken": given[1]})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/")
    assert browser.session["_auth_user_id"] == str(ada.pk)
    assert refused(token)


def test_of_two_uses_at_the_same_time_one_counts(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    token = login_links.make(ada)
    seen = login_links.find_user(token)
    login_links.use(token)
    monkeypatch.setattr(login_links, "find_user", lambda token: seen)
    with pytest.raises(LoginLinkRefused):
        login_links.use(token)


def test_a_login_a_new_password_and_time_void_a_link(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    by_login, browser = login_links.make(ada), Client()
    browser.force_login(ada)
    assert refused(by_login)
    ada.refresh_from_db()
    by_password = login_links.make(ada)
    ada.set_password("another good phrase 8")
    ada.save()
    assert refused(by_password)
    by_time, now = login_links.make(ada), time.time()
    monkeypatch.setattr(time, "time", lambda: now + 60 * login_links.MINUTES + 1)
    assert refused(by_time)


def test_links_of_nobody_of_others_and_of_inactive_users_are_refused(ada: User) -> None:
    token = login_links.make(ada)
    eve = make_user("eve")
    for wrong in ("", "x", ":::", "9" * 30 + ":a:b", token.replace(f"{ada.pk}:", f"{eve.pk}:", 1), token[:-1] + "A-"):
        with pytest.raises(LoginLinkRefused):
            login_links.find_user(wrong)
    ada.is_active = False
    ada.save()
    assert refused(token)


def test_a_second_factor_is_asked_for(ada: User) -> None:
    key = second_factor.begin_enrolment(ada).text.replace(" ", "")
    second_factor.confirm_enrolment(ada, pyotp.TOTP(key).now())
    browser = Client()
    answer = browser.post(f"/login/link/{login_links.make(ada)}")
    assert answer.headers["Location"] == "/login/code" and not browser.session.get("_auth_user_id")


def test_prepare_makes_a_link_if_it_is_asked_to() -> None:
    for options, has_link in (({"login_link": True}, True), ({}, False)):
        out = StringIO()
        call_command("prepare", stdout=out, stderr=StringIO(), **options)
        path = json.loads(out.getvalue().splitlines()[-1])["login_link"]
        assert bool(path) == has_link
        if path:
            assert "Log in as admin" in Client().get(path).content.decode()
