"""Notices by web push: what reaches a browser, when, how often; bad subscriptions; the end of a subscription."""

import json
from collections.abc import Iterator
from datetime import datetime, time, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from sessions_app.models import Login, PushNotice, PushSubscription, Turn
from sessions_app.push import browsers, notices
from tests.fakes.http_server import Fault
from tests.fakes.push_service import PushBrowser, PushService
from tests.support.approvals import asked
from tests.support.engine import EngineRig, until
from tests.support.rest import make_user
from tests.support.rights import make_operator
from tools_app.rights import DECIDE_APPROVALS
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]

SECRET = "the-launch-code"
WRITE = ToolCall("c1", "memory_store", json.dumps({"key": "plan", "text": SECRET}))
ASK = ToolCall("c2", "ask_user", json.dumps({"question": f"Is {SECRET} right?", "options": ["yes", "no"]}))
PAGE = "/account/notifications"


@pytest.fixture
def service(settings: Any) -> Iterator[PushService]:
    with PushService() as started:
        settings.KOMAND_CALLBACK_ALLOW_PRIVATE = [started.address]
        notices._looked_at.clear()
        yield started


@pytest.fixture
def owner() -> User:
    """A user who decides what their own agents ask."""
    return make_operator("olga", DECIDE_APPROVALS)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch, owner: User) -> Iterator[EngineRig]:
    rig = EngineRig(monkeypatch, owner).start()
    yield rig
    rig.stop()


def logged_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    Login.objects.get_or_create(
        session_key=client.session.session_key,
        defaults={"user": user, "address": "127.0.0.1", "last_seen_at": timezone.now()},
    )
    return client


def add(client: Client, service: PushService, name: str = "phone", zone: str = "UTC") -> PushBrowser:
    browser = service.add(name)
    assert client.post(f"{PAGE}/add", {**browser.fields(service), "time_zone": zone}).status_code == 302
    return browser


def shown(browser: PushBrowser, count: int = 1) -> dict[str, Any]:
    """Return the newest notification once there are that many."""
    until(lambda: len(browser.shown) >= count)
    assert len(browser.shown) == count
    return browser.shown[-1]


def test_an_approval_and_a_question_reach_the_browser_without_what_is_in_them(
    rig: EngineRig, owner: User, service: PushService
) -> None:
    client = logged_in(owner)
    browser = add(client, service)
    rig.agent(Reply(tool_calls=(WRITE,)), Reply(tool_calls=(ASK,)), Reply(("Done.",)))
    accepted = rig.send("go")
    approval = asked()
    first = shown(browser)
    assert (first["title"], first["body"]) == ("Approval needed", "Assistant asks to use memory_store.")
    assert first["url"] == f"/chat/waiting#request-{approval.execution_id}"
    page = client.get("/chat/waiting").content.decode()
    assert f'id="request-{approval.execution_id}"' in page, "where the notification leads"
    assert client.post(f"/chat/approvals/{approval.id}/decide", {"decision": "allow_once"}).status_code < 400
    second = shown(browser, 2)
    assert (second["title"], second["body"]) == ("Question for you", "Assistant asks you something.")
    assert SECRET not in json.dumps(browser.shown)
    assert [sent["urgency"] for sent in browser.headers] == ["high", "high"]
    assert int(browser.headers[0]["ttl"]) > 0
    notices._looked_at.clear()
    notices.sweep()
    assert len(browser.shown) == 2, "once each"
    assert Run.objects.get(pk=accepted.run_id).status == "waiting"
    assert PushSubscription.objects.get().last_sent_at is not None


def test_who_may_not_decide_is_not_notified_but_those_who_may_are(
    rig: EngineRig, service: PushService, settings: Any
) -> None:
    plain = rig.owner = make_user("paul")
    own, other = add(logged_in(plain), service, "own"), add(logged_in(make_user("eve")), service, "other")
    operator = add(logged_in(make_operator("otto", DECIDE_APPROVALS)), service, "operator")
    rig.agent(Reply(tool_calls=(WRITE,)), Reply(("Done.",)))
    rig.send("go")
    asked()
    assert shown(operator)["url"] == "/admin/tools_app/approval/"
    assert own.shown == other.shown == []


def test_wishes_and_quiet_hours_hold(rig: EngineRig, owner: User, service: PushService) -> None:
    client = logged_in(owner)
    quiet, wakes = add(client, service, "quiet", "Asia/Tokyo"), add(client, service, "wakes")
    row = PushSubscription.objects.get(time_zone="Asia/Tokyo")
    changed = client.post(f"{PAGE}/{row.pk}/change", {"wants": ["questions"], "quiet_from": "", "quiet_until": ""})
    assert changed.status_code == 302
    rig.agent(Reply(tool_calls=(WRITE,)), Reply(("Done.",)))
    rig.send("go")
    shown(wakes)
    assert quiet.shown == []
    hours = {"wants": ["approvals"], "quiet_from": "00:00", "quiet_until": "23:59:59.9"}
    assert client.post(f"{PAGE}/{row.pk}/change", hours).status_code == 302
    notices._looked_at.clear()
    notices.sweep()
    assert not PushNotice.objects.filter(subscription=row).exists()
    PushSubscription.objects.filter(pk=row.pk).update(quiet_from=None, quiet_until=None)
    notices._looked_at.clear()
    shown(quiet)
    assert len(wakes.shown) == 1


@pytest.mark.parametrize(
    ("begin", "end", "at", "is_quiet"),
    [("22:00", "07:00", "23:30", True), ("22:00", "07:00", "06:59", True), ("22:00", "07:00", "07:00", False)]
    + [("12:00", "13:00", "12:30", True), ("12:00", "13:00", "13:00", False)],
)
def test_quiet_hours_are_of_the_browsers_time_zone(begin: str, end: str, at: str, is_quiet: bool) -> None:
    row = PushSubscription(
        quiet_from=time.fromisoformat(begin), quiet_until=time.fromisoformat(end), time_zone="Asia/Tokyo"
    )
    now = datetime.fromisoformat(f"2026-06-01T{at}+09:00")
    assert browsers.is_quiet(row, now) == is_quiet


def test_an_answer_that_took_long_is_announced_and_a_quick_one_is_not(
    rig: EngineRig, owner: User, service: PushService
) -> None:
    browser = add(logged_in(owner), service)
    rig.agent(Reply(("Quick.",)), Reply(("Slow.",)))
    rig.wait(rig.send("quick").run_id)
    slow = rig.send("slow")
    rig.wait(slow.run_id)
    Run.objects.filter(pk=slow.run_id).update(created_at=timezone.now() - timedelta(minutes=2))
    until(lambda: Turn.objects.filter(run_id=slow.run_id, is_answer=True).exists())
    answer = shown(browser)
    assert (answer["title"], answer["url"]) == ("Answer ready", f"/chat/{slow.session_id}")
    assert "Slow" not in json.dumps(answer) and browser.headers[0]["urgency"] == "normal"


def test_a_push_service_that_fails_gets_it_later_and_a_browser_that_is_gone_is_forgotten(
    rig: EngineRig, owner: User, service: PushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessions_app.push.notifier._PAUSES", (0, 0, 0))
    client = logged_in(owner)
    browser, gone = add(client, service), add(client, service, "gone")
    gone.gone = True
    service.faults.extend([Fault("status", 503, only="phone"), Fault("drop", only="phone")])
    rig.agent(Reply(tool_calls=(ASK,)), Reply(("Done.",)))
    rig.send("go")
    shown(browser)
    until(lambda: PushSubscription.objects.count() == 1)
    assert not service.faults


def test_a_browser_is_tested_and_removed_and_ends_with_its_login(
    rig: EngineRig, owner: User, service: PushService
) -> None:
    client, other = logged_in(owner), logged_in(owner)
    browser = add(client, service)
    add(other, service, "laptop")
    row = PushSubscription.objects.get(login__session_key=client.session.session_key)
    assert client.post(f"{PAGE}/{row.pk}/test").status_code == 302
    assert shown(browser)["title"] == "Notifications work"
    stranger = logged_in(make_user("eve"))
    for action in ("test", "change", "remove"):
        assert stranger.post(f"{PAGE}/{row.pk}/{action}").status_code == 404
    other.post("/logout")
    assert [each.pk for each in PushSubscription.objects.all()] == [row.pk], "logged out"
    assert client.post(f"{PAGE}/{row.pk}/remove").status_code == 302
    assert not PushSubscription.objects.exists()


def test_the_same_browser_is_added_once_and_belongs_to_who_added_it_last(owner: User, service: PushService) -> None:
    browser, eve = service.add("shared"), make_user("eve")
    for user in (owner, owner, eve):
        assert logged_in(user).post(f"{PAGE}/add", browser.fields(service)).status_code == 302
    assert [row.user for row in PushSubscription.objects.select_related("user")] == [eve]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"endpoint": "http://10.0.0.1/x"}, "begins with https://"),
        ({"endpoint": "https://10.0.0.1/x"}, "not a public address"),
        ({"endpoint": "https://push.internal/x"}, "a local name"),
        ({"endpoint": "https://user@push.example.net/x"}, "user name"),
        ({"endpoint": "https://push.example.net/" + "x" * 1000}, "too long"),
        ({"p256dh": "AAAA"}, "keys of the browser"),
        ({"p256dh": "ü"}, "keys of the browser"),
        ({"auth": "AAAA"}, "keys of the browser"),
        ({"endpoint": "", "p256dh": "", "auth": ""}, "a browser with scripts"),
    ],
)
def test_a_bad_subscription_is_refused_and_stores_nothing(
    owner: User, service: PushService, wrong: dict[str, str], words: str
) -> None:
    answer = logged_in(owner).post(f"{PAGE}/add", {**service.add("any").fields(service), **wrong})
    assert answer.status_code == 400 and words in answer.content.decode()
    assert not PushSubscription.objects.exists()


def test_secrets_of_a_browser_are_sealed(owner: User, service: PushService) -> None:
    browser = add(logged_in(owner), service)
    row = PushSubscription.objects.get()
    fields = browser.fields(service)
    assert fields["auth"] not in row.auth_sealed and fields["endpoint"] not in row.endpoint_sealed


def test_half_of_quiet_hours_and_too_many_browsers_are_refused(
    owner: User, service: PushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = logged_in(owner)
    add(client, service)
    row = PushSubscription.objects.get()
    answer = client.post(f"{PAGE}/{row.pk}/change", {"quiet_from": "22:00"})
    assert answer.status_code == 400 and "or neither" in answer.content.decode()
    answer = client.post(f"{PAGE}/{row.pk}/change", {"quiet_from": "late", "quiet_until": "x"})
    assert answer.status_code == 400 and "hours and minutes" in answer.content.decode()
    monkeypatch.setattr(browsers, "MOST_OF_A_USER", 1)
    answer = client.post(f"{PAGE}/add", service.add("more").fields(service))
    assert answer.status_code == 409 and "At most 1" in answer.content.decode()


def test_a_fresh_login_stays_the_same_login(owner: User, service: PushService) -> None:
    owner.set_password("a long enough passphrase")
    owner.save()
    client = logged_in(owner)
    add(client, service)
    before = client.session.session_key
    client.post("/login/confirm", {"password": "a long enough passphrase"})
    assert client.session.session_key != before
    client.post("/logout")
    assert not PushSubscription.objects.exists()


def test_nothing_is_asked_of_the_database_without_a_browser(owner: User) -> None:
    assert not [row for query in notices.SWEPT for row in query.rows()]


def test_the_application_can_be_installed() -> None:
    client = Client()
    manifest = client.get("/manifest.webmanifest")
    assert manifest.headers["Content-Type"] == "application/manifest+json"
    named = [icon["src"] for icon in manifest.json()["icons"]]
    worker = client.get("/service-worker.js")
    assert worker.headers["Content-Type"].startswith("text/javascript")
    kept = json.loads(worker.content.decode().split("SHELL = ")[1].split(";\n")[0])
    for path in (*named, *kept):
        assert client.get(path).status_code == 200, path
    assert "You are offline" in client.get("/offline").content.decode()
