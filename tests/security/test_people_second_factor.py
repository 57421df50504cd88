"""Second factor: enrolment, logins on every surface that takes a password, recovery codes, throttling, replay."""

import re
from datetime import timedelta

import pyotp
import pytest
from django.contrib.auth.models import User
from django.db.models import F
from django.test import Client

from audit_app.models import AuditEntry
from sessions_app.identity import second_factor
from sessions_app.models import RecoveryCode, SecondFactor
from tests.support.rest import RestCaller, make_user
from tools_app.secrets import vault

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

LOGIN = {"username": "alice", "password": "secret-enough"}
REST = {"email": "alice", "password": "secret-enough"}


def enrolled(name: str = "alice", **fields: bool) -> tuple[User, tuple[str, ...]]:
    """Create a user with a second factor. Its codes are unused: the clock of the enrolment was earlier."""
    user = make_user(name)
    User.objects.filter(pk=user.pk).update(**fields)
    second_factor.begin_enrolment(user)
    recovery_codes = second_factor.confirm_enrolment(user, code_of(user))
    SecondFactor.objects.update(last_step=0)
    return User.objects.get(pk=user.pk), recovery_codes


def code_of(user: User) -> str:
    return pyotp.TOTP(vault.unseal(SecondFactor.objects.get(user=user).secret_sealed)).now()


def wrong_code_of(user: User) -> str:
    return f"{(int(code_of(user)) + 500_000) % 1_000_000:06}"


def is_logged_in(browser: Client) -> bool:
    return browser.get("/account").status_code == 200


def actions() -> list[str]:
    return list(AuditEntry.objects.order_by("id").values_list("action", flat=True))


def test_the_page_asks_for_the_code_after_the_password() -> None:
    user, _ = enrolled()
    browser = Client()
    response = browser.post("/login", {**LOGIN, "next": "/chat/new"})
    assert response.headers["Location"] == "/login/code?next=%2Fchat%2Fnew"
    assert not is_logged_in(browser) and "LoggedIn" not in actions()
    assert b'autocomplete="one-time-code"' in browser.get("/login/code").content
    response = browser.post("/login/code", {"code": code_of(user), "next": "/chat/new"})
    assert (response.status_code, response.headers["Location"]) == (302, "/chat/new")
    assert is_logged_in(browser) and actions().count("LoggedIn") == 1


def test_a_wrong_code_shows_the_form_again_and_is_audited() -> None:
    user, _ = enrolled()
    browser = Client()
    browser.post("/login", LOGIN)
    response = browser.post("/login/code", {"code": wrong_code_of(user)})
    assert response.status_code == 401 and b"Wrong code" in response.content
    assert not is_logged_in(browser) and "SecondFactorRefused" in actions()


def test_the_page_of_the_code_needs_a_password_before() -> None:
    user, _ = enrolled()
    browser = Client()
    assert browser.post("/login/code", {"code": code_of(user)}).headers["Location"] == "/login"
    assert not is_logged_in(browser)


def test_a_changed_password_ends_a_pending_login() -> None:
    user, _ = enrolled()
    browser = Client()
    browser.post("/login", LOGIN)
    user.set_password("another-secret")
    user.save()
    assert browser.post("/login/code", {"code": code_of(user)}).headers["Location"] == "/login"


def test_a_code_is_good_for_one_login() -> None:
    user, _ = enrolled()
    code = code_of(user)
    assert RestCaller().post("auth/login", {**REST, "code": code}).status == 200
    assert RestCaller().post("auth/login", {**REST, "code": code}).status == 401


def test_rest_needs_the_code_and_names_it() -> None:
    user, _ = enrolled()
    refused = RestCaller().post("auth/login", REST)
    assert (refused.status, refused.meta["code"]) == (401, "second_factor_required")
    assert "`code`" in (refused.error or "")
    refused = RestCaller().post("auth/login", {**REST, "code": wrong_code_of(user)})
    assert (refused.status, refused.meta["code"]) == (401, "second_factor_refused")
    assert RestCaller().post("auth/login", {**REST, "code": code_of(user)}).status == 200


def test_a_wrong_password_is_refused_before_the_code_is_looked_at() -> None:
    user, _ = enrolled()
    refused = RestCaller().post("auth/login", {**REST, "password": "wrong", "code": code_of(user)})
    assert refused.meta["code"] == "login_refused"
    assert SecondFactor.objects.get().failures == 0


def test_threads_needs_the_code() -> None:
    user, _ = enrolled()
    sign_in = {"username": "alice", "password": "secret-enough"}
    refused = Client().post("/v1/auth/pw/signin", sign_in, content_type="application/json")
    assert refused.status_code == 401 and "as `code`" in refused.json()["detail"]
    sign_in["code"] = code_of(user)
    assert Client().post("/v1/auth/pw/signin", sign_in, content_type="application/json").status_code == 200


def test_a_recovery_code_replaces_the_app_once() -> None:
    _, codes = enrolled()
    assert len(set(codes)) == 10 and all(re.fullmatch("[a-z2-7]{4}(-[a-z2-7]{4}){3}", code) for code in codes)
    assert RestCaller().post("auth/login", {**REST, "code": codes[3].upper()}).status == 200
    assert RestCaller().post("auth/login", {**REST, "code": codes[3]}).status == 401
    assert RecoveryCode.objects.count() == 9 and "RecoveryCodeUsed" in actions()


def test_recovery_codes_belong_to_one_user() -> None:
    _, codes = enrolled()
    enrolled("bob")
    assert RestCaller().post("auth/login", {**REST, "email": "bob", "code": codes[0]}).status == 401


def test_neither_secret_nor_recovery_codes_are_stored_as_text() -> None:
    user, codes = enrolled()
    row = SecondFactor.objects.get()
    assert vault.unseal(row.secret_sealed) not in row.secret_sealed
    stored = "".join(RecoveryCode.objects.values_list("digest", flat=True))
    assert codes[0] not in stored and codes[0].replace("-", "") not in stored


def test_wrong_codes_are_throttled_by_user_and_longer_each_time() -> None:
    user, codes = enrolled()
    wrong = wrong_code_of(user)
    for _ in range(5):
        assert RestCaller().post("auth/login", {**REST, "code": wrong}).status == 401
    refused = RestCaller().post("auth/login", {**REST, "code": code_of(user)})
    assert (refused.status, refused.meta["code"]) == (429, "too_many_codes")
    assert 1 <= int(refused.headers["Retry-After"]) <= 30
    SecondFactor.objects.update(failures=F("failures") + 3)
    assert int(RestCaller().post("auth/login", {**REST, "code": codes[0]}).headers["Retry-After"]) > 200
    SecondFactor.objects.update(failed_at=F("failed_at") - timedelta(minutes=20))
    assert RestCaller().post("auth/login", {**REST, "code": codes[0]}).status == 200
    assert SecondFactor.objects.get().failures == 0


def test_attempts_at_the_same_time_count() -> None:
    """Refuse an attempt whose count changed since it was read: parallel guesses are not free."""
    user, _ = enrolled()
    row = SecondFactor.objects.get(user=user)
    SecondFactor.objects.update(failures=F("failures") + 1)
    with pytest.raises(second_factor.TooManyCodes):
        second_factor._count_attempt(row)


def test_required_sends_staff_to_the_enrolment_before_they_are_logged_in(settings) -> None:
    settings.KOMAND_STAFF_SECOND_FACTOR = "required"
    alice = make_user("alice")
    User.objects.filter(pk=alice.pk).update(is_staff=True)
    browser = Client()
    assert browser.post("/login", LOGIN).headers["Location"] == "/login/code"
    assert browser.get("/login/code").headers["Location"] == "/login/enrol"
    page = browser.get("/login/enrol").content.decode()
    assert "<svg" in page and "//" not in page.partition("<main")[2] and not is_logged_in(browser)
    assert browser.post("/login/enrol", {"code": "000000"}).status_code == 401
    response = browser.post("/login/enrol", {"code": code_of(alice)})
    assert response.content.count(b"<li><code>") == 10
    assert is_logged_in(browser)


def test_required_refuses_other_logins_of_staff_without_a_second_factor(settings) -> None:
    settings.KOMAND_STAFF_SECOND_FACTOR = "required"
    alice = make_user("alice")
    assert RestCaller().post("auth/login", REST).status == 200, "an ordinary user"
    User.objects.filter(pk=alice.pk).update(is_superuser=True)
    refused = RestCaller().post("auth/login", REST)
    assert (refused.status, refused.meta["code"]) == (403, "second_factor_enrolment_required")


def test_off_asks_nobody(settings) -> None:
    enrolled()
    settings.KOMAND_STAFF_SECOND_FACTOR = "off"
    assert RestCaller().post("auth/login", REST).status == 200


def test_a_user_sets_it_up_and_removes_it() -> None:
    alice, browser = make_user("alice"), Client()
    browser.post("/login", LOGIN)
    page = browser.get("/account/second-factor").content
    assert vault.unseal(SecondFactor.objects.get().secret_sealed)[:4].encode() in page
    assert browser.post("/account/second-factor", {"code": code_of(alice)}).content.count(b"<li><code>") == 10
    assert b"10 recovery codes left" in browser.get("/account").content
    assert browser.post("/account/recovery-codes").content.count(b"<li><code>") == 10
    browser.post("/account/second-factor/remove")
    assert not SecondFactor.objects.exists() and not RecoveryCode.objects.exists()
    wanted = ["SecondFactorAdded", "RecoveryCodesRenewed", "SecondFactorRemoved"]
    assert [action for action in actions() if action in wanted] == wanted


def test_a_half_finished_enrolment_changes_nothing() -> None:
    alice, browser = make_user("alice"), Client()
    browser.post("/login", LOGIN)
    browser.get("/account/second-factor")
    assert not second_factor.is_asked(alice)
    assert RestCaller().post("auth/login", REST).status == 200


def test_a_second_enrolment_does_not_replace_the_first() -> None:
    alice, _ = enrolled()
    browser = Client()
    browser.force_login(alice)
    before = SecondFactor.objects.get().secret_sealed
    assert browser.get("/account/second-factor").status_code == 409
    assert SecondFactor.objects.get().secret_sealed == before
