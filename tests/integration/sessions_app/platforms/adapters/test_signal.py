"""Signal from the daemon's stream through a run and back, with files, edits, failures and broken streams."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from agents_app.providers.kinds.scripted import Reply
from audit_app.models import AuditEntry
from sessions_app.channels import accounts
from sessions_app.models import Attachment, ChannelAccount, ChannelConnection, Delivery, InboundMessage, Session
from sessions_app.platforms.account_settings import AccountSettings
from sessions_app.platforms.adapters.signal.adapter import Signal
from sessions_app.platforms.base import SendCertainty, SendError
from sessions_app.platforms.messages import Chat, Outgoing, OutgoingFile, Rendered, Target
from tests.fakes.http_server import Fault
from tests.fakes.signal_daemon import NUMBER, SENDER, UUID, FakeSignal
from tests.support.channels import open_to_everyone, settle
from tests.support.connections import SocketsThread
from tests.support.engine import EngineRig, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.fixture(autouse=True)
def soon(short_pauses: None) -> None:
    """Shorten the pauses of every test here."""


@pytest.fixture
def daemon() -> Iterator[FakeSignal]:
    with FakeSignal() as server:
        yield server


@pytest.fixture
def sockets(valkey: object) -> Iterator[SocketsThread]:
    with SocketsThread() as thread:
        yield thread


def add(server: FakeSignal, **config: Any) -> ChannelAccount:
    config = {"url": server.url, "number": NUMBER, **config}
    account, _ = accounts.add_account("signal", "main", config=config, secrets={}, **open_to_everyone({}))
    return account


@pytest.fixture
async def adapter(daemon: FakeSignal) -> AsyncIterator[Signal]:
    made = Signal(AccountSettings("a", {"url": daemon.url, "number": NUMBER}, {}))
    yield made
    await made.aclose()


def outgoing(text: str, **fields: Any) -> Outgoing:
    return Outgoing("key", Target(Chat(SENDER)), Rendered(text, text), **fields)


def test_a_message_with_a_file_is_answered_once(rig: EngineRig, daemon: FakeSignal, sockets: SocketsThread) -> None:
    script = rig.agent(Reply(("It says **hello**.",)))
    add(daemon)
    daemon.files["f1"] = b"hello from the file"
    file = {"id": "f1", "contentType": "text/plain", "filename": "a.txt", "size": 19}
    for _ in range(3):
        daemon.queue(1, "What does it say?", attachments=[file])
    assert settle(rig) == ["sent"] and daemon.texts() == ["It says hello."]
    [sent] = daemon.params("send")
    assert sent["recipient"] == [SENDER] and sent["textStyle"] == ["8:5:BOLD"]
    assert "hello from the file" in script.requests[0].messages[-1].content
    assert Attachment.objects.get().status == "stored" and InboundMessage.objects.count() == 1
    assert Session.objects.get().key == f"Signal:main:{SENDER}"
    daemon.waiting.append(
        {"envelope": {"sourceUuid": SENDER, "receiptMessage": {"isRead": True, "timestamps": [*daemon.shown]}}}
    )
    until(lambda: Delivery.objects.get().report == "read")


def test_streams_that_break_are_opened_again(rig: EngineRig, daemon: FakeSignal, sockets: SocketsThread) -> None:
    rig.agent(Reply(("one",)), Reply(("two",)))
    add(daemon)
    daemon.faults += [Fault("drop"), Fault("status", 503), Fault("drop")]
    until(lambda: daemon.streams == 1)
    daemon.queue(1, "first")
    assert settle(rig, 1) == ["sent"]
    ChannelAccount.objects.get().save()  # a changed account is connected anew
    until(lambda: daemon.streams == 2)
    daemon.queue(2, "second")
    assert settle(rig, 2) == ["sent"] * 2 and daemon.texts() == ["one", "two"]


def test_a_silent_stream_is_replaced(
    daemon: FakeSignal, sockets: SocketsThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Signal, "silent_seconds", 0.2)
    add(daemon)
    until(lambda: daemon.streams >= 3)
    assert ChannelConnection.objects.get().attention_at is None


def test_a_number_that_the_daemon_does_not_know_waits_for_the_operator(
    daemon: FakeSignal, sockets: SocketsThread
) -> None:
    daemon.is_registered = False
    add(daemon)
    until(lambda: ChannelConnection.objects.exclude(attention_at=None).exists())
    assert "register or link it" in ChannelConnection.objects.get().error
    until(lambda: AuditEntry.objects.filter(action="ChannelAccountNeedsAttention").exists())


def test_events_of_other_numbers_are_ignored(rig: EngineRig, daemon: FakeSignal, sockets: SocketsThread) -> None:
    rig.agent(Reply(("mine",)))
    add(daemon)
    daemon.queue(1, "for another number")
    daemon.waiting[0]["account"] = "+4915100000009"
    daemon.queue(2, "for us")
    assert settle(rig, 1) == ["sent"] and InboundMessage.objects.get().text == "for us"


def test_the_test_of_an_account_learns_our_id(daemon: FakeSignal) -> None:
    account = add(daemon)
    assert accounts.try_out(account).lines == (f"The daemon sends and receives for {NUMBER}.",)
    assert ChannelAccount.objects.get().config["account_uuid"] == UUID


@pytest.mark.parametrize(
    ("failure", "certainty"),
    [
        ("NETWORK_FAILURE", SendCertainty.NOT_SENT),
        ("UNREGISTERED_FAILURE", SendCertainty.REFUSED),
        ("IDENTITY_FAILURE", SendCertainty.REFUSED),
        ("SOMETHING_NEW", SendCertainty.REFUSED),
    ],
)
async def test_failures_of_a_recipient(
    daemon: FakeSignal, adapter: Signal, failure: str, certainty: SendCertainty
) -> None:
    daemon.failures.append(failure)
    with pytest.raises(SendError) as raised:
        await adapter.send(outgoing("x"))
    assert raised.value.certainty is certainty


@pytest.mark.parametrize(
    ("code", "certainty", "ends"),
    [
        (-1, SendCertainty.REFUSED, False),
        (-3, SendCertainty.UNKNOWN, False),
        (-4, SendCertainty.REFUSED, False),
        (-5, SendCertainty.REFUSED, True),
        (-32602, SendCertainty.REFUSED, False),
    ],
)
async def test_errors_of_the_daemon(
    daemon: FakeSignal, adapter: Signal, code: int, certainty: SendCertainty, ends: bool
) -> None:
    daemon.errors.append(code)
    with pytest.raises(SendError) as raised:
        await adapter.send(outgoing("x"))
    assert (raised.value.certainty, raised.value.ends_account) == (certainty, ends)


async def test_groups_are_quoted_and_files_are_attached(daemon: FakeSignal, adapter: Signal) -> None:
    target = Target(Chat("g==", "group"), "x", reference={"timestamp": 5, "author": SENDER})
    file = OutgoingFile("a; b.txt", "text/plain", b"content")
    await adapter.send(Outgoing("k", target, Rendered("see", "see"), file=file))
    [sent] = daemon.params("send")
    assert sent["groupId"] == "g==" and "recipient" not in sent
    assert (sent["quoteTimestamp"], sent["quoteAuthor"]) == (5, SENDER)
    assert sent["attachments"] == ["data:text/plain;filename=a__b.txt;base64,Y29udGVudA=="]
