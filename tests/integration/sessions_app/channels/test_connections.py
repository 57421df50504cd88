"""Receiving over a connection: once, in order, by one process at a time, whatever breaks."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel.liveness import failure_detector
from audit_app.kernel.liveness.store import installed_marks
from audit_app.models import AuditEntry
from komand import channel_checks
from sessions_app.channels import accounts
from sessions_app.channels.connections import claims, condition, wire
from sessions_app.channels.inbound import dispatch
from sessions_app.models import ChannelAccount, ChannelConnection, InboundMessage
from sessions_app.platforms.adapters.telegram import long_poll
from sessions_app.platforms.adapters.telegram.adapter import Telegram
from sessions_app.platforms.link import Received
from tests.fakes.http_server import Fault
from tests.fakes.telegram import TOKEN, FakeTelegram, private_update
from tests.support.channels import add_telegram, settle
from tests.support.connections import SocketsThread
from tests.support.engine import EngineRig, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.fixture(autouse=True)
def soon(short_pauses: None, valkey: object) -> None:
    """Shorten the pauses of every test here."""


@pytest.fixture
def sockets() -> Iterator[SocketsThread]:
    with SocketsThread() as thread:
        yield thread


def state() -> ChannelConnection:
    return ChannelConnection.objects.get()


def texts() -> list[str]:
    return list(InboundMessage.objects.order_by("id").values_list("text", flat=True))


def is_connected() -> bool:
    return ChannelConnection.objects.exclude(connected_at=None).exists()


def described() -> condition.Condition:
    found = condition.describe(ChannelAccount.objects.get())
    assert found
    return found


def test_a_bot_without_a_public_address_answers(rig: EngineRig, platform: FakeTelegram, sockets: SocketsThread) -> None:
    rig.agent(Reply(("Hello **Zoë**",)), Reply(("again",)))
    add_telegram(platform)
    platform.queue([private_update(1, "hi")])
    assert settle(rig) == ["sent"] and platform.chat(501) == ["Hello <b>Zoë</b>"]
    platform.queue([private_update(2, "and now?")])
    assert settle(rig, 2) == ["sent"] * 2 and platform.chat(501)[1:] == ["again"]
    until(lambda: state().cursor == "90003" and described().is_ok)
    row = state()
    assert row.holder == sockets.holder and row.event_at and row.heartbeat_at
    assert "connected since" in described().text
    assert ChannelAccount.objects.get().last_inbound_at


def test_an_account_with_a_public_address_or_the_setting_has_a_webhook(platform: FakeTelegram, settings: Any) -> None:
    account = add_telegram(platform)
    assert claims.list_listening() == [account]
    settings.KOMAND_PUBLIC_URL = "https://gateway.example"
    accounts.change_account(account, config={**account.config})
    assert claims.list_listening() == [] and condition.describe(account) is None
    accounts.change_account(account, config={**account.config, "receive": "polling"})
    assert claims.list_listening() == [account]
    accounts.set_enabled(account, False)
    assert claims.list_listening() == []


def test_a_test_of_the_account_removes_the_webhook_and_sets_it_again(platform: FakeTelegram, settings: Any) -> None:
    settings.KOMAND_PUBLIC_URL = "https://gateway.example"
    account = add_telegram(platform)
    accounts.try_out(account)
    assert platform.webhook["url"].startswith("https://gateway.example/")
    accounts.change_account(account, config={**account.config, "receive": "polling"})
    assert "Updates are fetched by long polling; no webhook is set." in accounts.try_out(account).lines
    assert platform.webhook == {}


def test_updates_that_come_again_have_no_effect(platform: FakeTelegram) -> None:
    """As after a crash between storing the messages and storing the cursor."""
    add_telegram(platform)
    updates = [private_update(number, "/help") for number in (1, 2)]
    platform.queue(updates)
    with SocketsThread():
        until(lambda: ChannelConnection.objects.filter(cursor="90003").exists())
    ChannelConnection.objects.update(cursor="")
    platform.updates = [*updates, private_update(3, "/help")]
    with SocketsThread():
        until(lambda: ChannelConnection.objects.filter(cursor="90004").exists())
    assert texts() == ["/help"] * 3
    assert state().holder is None and "no process keeps it open" in described().text


def test_a_connection_of_a_process_that_was_killed_is_not_called_open(platform: FakeTelegram) -> None:
    add_telegram(platform)
    with SocketsThread() as sockets:
        until(is_connected)
        assert described().is_ok
    now = timezone.now()  # as a kill leaves the row: nobody releases it
    ChannelConnection.objects.update(holder=sockets.holder, connected_at=now, heartbeat_at=now)
    assert not described().is_ok and "no process keeps it open" in described().text


def test_a_test_names_what_keeps_an_account_from_answering(platform: FakeTelegram, settings: Any) -> None:
    account = add_telegram(platform)
    accounts.try_out(account)
    no_worker, connection = condition.find_problems_after_test(account)
    assert "No runs worker is running" in no_worker and "never opened" in connection
    settings.KOMAND_PUBLIC_URL = "https://gateway.example"
    accounts.change_account(account, config=account.config)  # now it receives by webhook
    assert [text.partition(" is running")[0] for text in condition.find_problems_after_test(account)] == [
        "No runs worker",
        "No web process",
    ]
    accounts.set_enabled(account, False)
    [off] = condition.find_problems_after_test(account)
    assert "manage.py channel enable telegram main" in off


def test_a_test_waits_until_the_connection_is_open(platform: FakeTelegram, sockets: SocketsThread) -> None:
    account = add_telegram(platform)
    assert [*condition.find_problems_after_test(account)] == [] and is_connected()


def test_a_test_reports_a_connection_that_is_not_opened(
    platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(condition, "_OPEN_SECONDS", 0.5)
    account = add_telegram(platform)
    with SocketsThread(has_process=False):
        [problem] = condition.find_problems_after_test(account)
    assert problem.startswith("Its connection: never opened; start a runs worker and the process sockets")


def test_one_process_holds_a_connection_until_it_is_dead(
    platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, other = add_telegram(platform), uuid4()
    assert claims.claim(account, other, set())
    assert not claims.claim(account, uuid4(), {uuid4()})
    claims.release(account, uuid4())
    assert state().holder == other
    assert claims.advance(account, other, "1", has_events=False)
    assert not claims.advance(account, uuid4(), "2", has_events=False)
    monkeypatch.setattr(failure_detector, "_GONE_SECONDS", 0.05)
    with SocketsThread() as sockets:  # nobody beats for the other one
        until(lambda: state().holder == sockets.holder and is_connected())
        platform.queue([private_update(1, "/help")])
        until(lambda: state().cursor == "90002")
    assert texts() == ["/help"]


def test_a_process_that_was_taken_for_dead_lets_go(platform: FakeTelegram, sockets: SocketsThread) -> None:
    add_telegram(platform)
    until(is_connected)
    other = uuid4()
    ChannelConnection.objects.update(holder=other, connected_at=None)
    until(lambda: not sockets.keeper._held)
    assert state().holder == other and not is_connected()


@pytest.mark.parametrize("fault", [Fault("drop"), Fault("accept_and_drop"), Fault("status", 502), Fault("status", 429)])
def test_a_connection_that_breaks_is_opened_again(platform: FakeTelegram, sockets: SocketsThread, fault: Fault) -> None:
    add_telegram(platform)
    until(is_connected)
    platform.faults.append(fault)
    platform.queue([private_update(1, "/help")])
    until(lambda: texts() == ["/help"] and not platform.faults)
    until(lambda: state().connected_at and not state().error)


def test_a_silent_connection_is_noticed_and_replaced(
    platform: FakeTelegram, sockets: SocketsThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Telegram, "silent_seconds", 0.3)
    add_telegram(platform)
    until(is_connected)
    platform.is_half_open = True
    until(lambda: "sent nothing" in state().error)
    assert not described().is_ok and "trying again" in described().text
    platform.is_half_open = False
    platform.queue([private_update(1, "/help")])
    until(lambda: texts() == ["/help"])


def test_a_refused_token_waits_for_the_operator(platform: FakeTelegram, sockets: SocketsThread) -> None:
    account = add_telegram(platform)
    until(is_connected)
    platform.valid_token = TOKEN.replace("AAaa", "BBbb")
    platform.queue([])
    platform.faults.append(Fault("status", 502))  # ends the request that is open
    until(lambda: state().attention_at)
    assert "refuses the bot_token" in described().text and described().remedy
    assert AuditEntry.objects.filter(action="ChannelAccountNeedsAttention").count() == 1
    [finding] = [finding for finding in channel_checks.check_channels() if finding.name.startswith("connection")]
    assert not finding.ok and "@BotFather" in finding.detail
    asked = len(platform.polls)
    platform.queue([private_update(1, "/help")])
    assert len(platform.polls) == asked, "no attempt without the operator"
    accounts.change_account(account, secrets={"bot_token": platform.valid_token})
    until(lambda: texts() == ["/help"] and described().is_ok)


def test_a_webhook_that_is_set_is_explained_until_the_account_is_tested(
    platform: FakeTelegram, sockets: SocketsThread
) -> None:
    platform.webhook = {"url": "https://elsewhere.example"}
    account = add_telegram(platform)
    until(lambda: ChannelConnection.objects.exclude(attention_at=None).exists())
    assert "to a webhook. Test the account, which removes it" in described().text
    accounts.try_out(account)
    until(lambda: is_connected() and state().attention_at is None)


def test_another_program_that_fetches_is_outlasted(platform: FakeTelegram, sockets: SocketsThread) -> None:
    add_telegram(platform)
    until(is_connected)
    platform._polling += 1
    platform.queue([private_update(1, "x")])
    until(lambda: texts() == ["x"])


def test_a_disabled_account_is_released(platform: FakeTelegram, sockets: SocketsThread) -> None:
    account = add_telegram(platform)
    until(is_connected)
    accounts.set_enabled(account, False)
    until(lambda: state().holder is None)
    platform.queue([private_update(1, "/help")])
    accounts.set_enabled(account, True)
    until(lambda: texts() == ["/help"])


def test_an_event_that_cannot_be_stored_holds_up_nothing(
    platform: FakeTelegram, sockets: SocketsThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = dispatch.handle_events

    def fail_once(account: Any, adapter: Any, events: Any, raw: bytes) -> Any:
        if b"poison" in raw:
            raise TypeError("on demand")
        return handle(account, adapter, events, raw)

    monkeypatch.setattr(dispatch, "handle_events", fail_once)
    add_telegram(platform)
    platform.queue([private_update(1, "poison"), private_update(2, "/help")])
    until(lambda: state().cursor == "90003" if ChannelConnection.objects.exists() else False)
    assert texts() == ["/help"] and "TypeError" in ChannelAccount.objects.get().last_error


def test_more_updates_than_one_answer_holds_all_arrive(
    platform: FakeTelegram, sockets: SocketsThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_poll, "_AT_ONCE", 3)
    platform.queue(private_update(number, f"/help {number}") for number in range(1, 9))
    add_telegram(platform)
    until(lambda: len(texts()) == 8)
    assert texts() == [f"/help {number}" for number in range(1, 9)]


def test_the_condition_names_a_process_that_is_missing(platform: FakeTelegram) -> None:
    account = add_telegram(platform)
    assert described().text == "never opened" and "sockets" in described().remedy
    holder = uuid4()
    claims.claim(account, holder, set())
    assert described().text == "no process keeps it open"
    with closing(installed_marks().open(holder, "runs")):
        assert described().text == "not connected, trying again"
    old = timezone.now() - timedelta(minutes=10)
    ChannelConnection.objects.update(connected_at=old, heartbeat_at=old)
    assert "no process keeps it open, last heartbeat" in described().text


def test_a_process_that_ends_is_requested_and_its_connections_are_free_meanwhile(platform: FakeTelegram) -> None:
    """Each update is stored once, and the account says why it was not connected."""
    add_telegram(platform)
    with SocketsThread(has_process=False) as sockets:
        until(lambda: sockets.requests)
        assert not ChannelConnection.objects.exists(), "claimed without a process"
        sockets.start_process()
        platform.queue([private_update(1, "/help")])
        until(lambda: texts() == ["/help"])
        sockets.kill_process()
        until(lambda: state().holder is None and "process sockets" in state().error)
        platform.queue([private_update(2, "/help")])
        sockets.start_process()
        until(lambda: texts() == ["/help"] * 2 and is_connected())


def test_events_of_an_unknown_shape_are_skipped(
    platform: FakeTelegram, sockets: SocketsThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the process that talks to the platform were taken over, or an adapter had a defect."""
    dump = wire.dump_received

    def dump_badly(received: Received) -> dict[str, Any]:
        data = dump(received)
        return {**data, "event": {**data["event"], "chat": 7}} if b"poison" in received.raw else data

    monkeypatch.setattr(wire, "dump_received", dump_badly)
    add_telegram(platform)
    platform.queue([private_update(1, "poison"), private_update(2, "/help")])
    until(lambda: texts() == ["/help"])


def test_text_that_no_encoding_has_arrives_with_a_replacement(platform: FakeTelegram, sockets: SocketsThread) -> None:
    add_telegram(platform)
    platform.queue([private_update(1, "half \ud83d")])
    until(lambda: texts() == ["half ?"])


def test_a_pass_loads_only_accounts_that_have_changed(platform: FakeTelegram) -> None:
    account = add_telegram(platform)
    ChannelAccount.objects.bulk_create(
        ChannelAccount(channel="webhook", account_id=f"a{number}", access="open") for number in range(20)
    )
    known = claims.ListeningAccounts()
    assert known.read() == [account]
    with CaptureQueriesContext(connection) as queries:
        assert known.read() == [account]
    assert len(queries) == 1
    accounts.change_account(account, config={**account.config})
    with CaptureQueriesContext(connection) as queries:
        assert known.read()[0].updated_at == account.updated_at
    assert len(queries) == 2
    claimed = claims.claim(account, uuid4(), [])
    assert claimed and known.read()[0].connection.holder == claimed.holder
    accounts.set_enabled(account, False)
    assert known.read() == []
