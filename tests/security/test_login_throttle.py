"""Failed logins: many addresses against one account, one network against many accounts, and the real user meanwhile."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from audit_app.models import AuditEntry
from sessions_app.identity import login_throttle
from tests.support.rest import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

RIGHT = "secret-enough"
PATHS = {"rest": "/api/auth/login", "threads": "/v1/auth/pw/signin", "page": "/login"}


@pytest.fixture(autouse=True)
def _long_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin with a delay that lasts longer than a test on a busy machine."""
    monkeypatch.setattr(login_throttle, "FIRST_SECONDS", 60)


def log_in(address: str, password: str, name: str = "alice", by: str = "rest") -> Any:
    """Log in from an address and return the response."""
    form = {"email": name, "username": name, "password": password}
    media_type = {} if by == "page" else {"content_type": "application/json"}
    return Client().post(PATHS[by], form, REMOTE_ADDR=address, **media_type)


def statuses(attempts: int, name: str = "alice", by: str = "rest", network: str = "203.0.{}.9") -> list[int]:
    return [log_in(network.format(number), "wrong", name, by).status_code for number in range(attempts)]


@pytest.mark.parametrize("by", PATHS)
def test_many_addresses_against_one_account_are_delayed(alice, by):
    free = login_throttle.FREE_FAILURES
    # The first after the free ones starts the delay, and those that follow wait for it.
    assert statuses(free + 3, by=by) == [401] * (free + 1) + [429] * 2


def test_the_surfaces_share_the_delay(alice):
    statuses(login_throttle.FREE_FAILURES + 1, by="page")
    for by in PATHS:
        assert log_in("198.51.100.1", RIGHT, by=by).status_code == 429


def test_the_delay_grows_and_has_a_limit(alice, valkey):
    statuses(login_throttle.FREE_FAILURES)
    waits = []
    for number in range(12):
        assert log_in(f"198.51.{number}.1", "wrong").status_code == 401
        waits.append(int(log_in("192.0.2.1", "wrong").headers["Retry-After"]))
        valkey.delete(*valkey.keys("*login:hold:*"))
    assert login_throttle.LONGEST_SECONDS == 300
    assert [round(wait / 60) for wait in waits] == [1, 2, 4] + [5] * 9


@pytest.mark.parametrize("address", ["203.0.113.5", "2001:db8:1:2::5"])
def test_the_user_logs_in_from_the_usual_address_during_an_attack(alice, address):
    assert log_in(address, RIGHT).status_code == 200
    statuses(login_throttle.FREE_FAILURES + 5)
    assert log_in("198.51.100.1", RIGHT).status_code == 429
    for by in PATHS:
        assert log_in(address, RIGHT, by=by).status_code in (200, 302)
    assert log_in(address.replace("::5", "::77"), RIGHT).status_code == 200


def test_the_usual_address_of_one_user_is_not_that_of_another(alice):
    make_user("bob")
    assert log_in("203.0.113.5", RIGHT, "bob").status_code == 200
    statuses(login_throttle.FREE_FAILURES + 2)
    assert log_in("203.0.113.5", RIGHT).status_code == 429


def test_a_right_password_ends_the_count(alice):
    statuses(login_throttle.FREE_FAILURES)
    assert log_in("198.51.100.1", RIGHT).status_code == 200
    assert statuses(login_throttle.FREE_FAILURES) == [401] * login_throttle.FREE_FAILURES


@pytest.mark.parametrize(("name", "other"), [("alice", "ALICE"), ("alice", "alice@example.org")])
def test_spellings_of_a_name_share_the_delay(alice, name, other):
    User.objects.filter(pk=alice.pk).update(email="alice@example.org")
    statuses(login_throttle.FREE_FAILURES + 1, name)
    assert log_in("198.51.100.1", "wrong", other).status_code == 429


def test_unknown_names_get_the_same_answers(alice):
    def answers(name: str) -> list[tuple[int, Any]]:
        found = [log_in(f"203.0.{number}.9", "wrong", name) for number in range(login_throttle.FREE_FAILURES + 2)]
        return [(answer.status_code, answer.json()["error"]) for answer in found]

    assert answers("alice") == answers("nobody")


@pytest.mark.parametrize("network", ["203.0.113.{}", "2001:db8:1:{}::9"])
def test_one_network_against_many_accounts_is_limited(alice, settings, network):
    settings.KOMAND_NETWORK_LIMIT = 6
    found = [log_in(network.format(number), "wrong", f"user-{number}") for number in range(8)]
    assert [answer.status_code for answer in found] == [401] * 6 + [429] * 2
    assert int(found[-1].headers["Retry-After"]) > 0
    assert log_in("198.51.100.1", RIGHT).status_code == 200


def test_right_passwords_do_not_count_against_their_network(alice, settings):
    settings.KOMAND_NETWORK_LIMIT = 3
    assert [log_in(f"203.0.113.{number}", RIGHT).status_code for number in range(6)] == [200] * 6


def test_addresses_of_one_ipv6_network_are_locked_out_together(alice, settings):
    settings.AXES_FAILURE_LIMIT = 3
    found = [log_in(f"2001:db8:1:2::{number}", "wrong", f"user-{number}").status_code for number in range(4)]
    assert found == [401, 401, 429, 429]


def test_the_start_of_a_delay_is_audited_once(alice):
    statuses(login_throttle.FREE_FAILURES + 4)
    assert AuditEntry.objects.get(action="LoginsDelayed").details["user"] == "alice"
