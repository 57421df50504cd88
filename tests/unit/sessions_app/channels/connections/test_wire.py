"""The protocol to the process `sockets`: everything that an adapter reports arrives as it was."""

import dataclasses
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from sessions_app.channels.connections import sockets_process, wire
from sessions_app.platforms.account_settings import AccountSettings
from sessions_app.platforms.adapters.telegram.adapter import Telegram
from sessions_app.platforms.link import ConnectionLost, CredentialsRefused, NeedsAttention, Received
from sessions_app.platforms.messages import (
    Attachment,
    ButtonPress,
    ChannelEvent,
    ChannelMessage,
    Chat,
    ChatEvent,
    ChatMoved,
    DeliveryReport,
    Ignored,
    MessageDeleted,
    MessageEdited,
    OfAccount,
    ProfileChange,
    Reaction,
    StopRequest,
)

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
CHAT = Chat("c", "group", "t")
FILE = Attachment("f", "voice", "a.ogg", "audio/ogg", 12, "https://example.org/a", "bot")
EVENTS: list[Any] = [
    ChannelMessage(
        *("m", "s", "Zoë", "text\n😀", AT, CHAT, ("k1", "k2")),
        attachments=(FILE, Attachment("g", "file")),
        metadata={"type": "x", "$": [1, None, {"a": 1.5}]},
        reference={"token": "t"},
        is_from_bot=True,
    ),
    ButtonPress("a", "s", "n", CHAT, "m", "p", ("k",), {"x": 1}),
    StopRequest(CHAT, 7),
    ChatMoved("1", "2"),
    ChatEvent("blocked", CHAT, "s", "n", ("k",), AT),
    DeliveryReport("m", "failed", "why"),
    MessageEdited("k", "s", "new"),
    MessageDeleted("k"),
    Reaction("m", "s", CHAT, "👍", True),
    ProfileChange("s", "n"),
    Ignored("self"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_arrives_as_it_was(event: ChannelEvent) -> None:
    received = Received(event, b"\x00\xff{}")
    assert sockets_process._load_received(wire.dump_received(received)) == received


def test_every_event_is_tested() -> None:
    assert {type(event) for event in EVENTS} == {*get_args(ChannelEvent)} - {OfAccount}


def test_an_event_of_another_account_arrives_with_its_value() -> None:
    received = Received(OfAccount("v", EVENTS[0]), b"{}")
    assert sockets_process._load_received(wire.dump_received(received)) == received


def test_an_account_arrives_as_it_was() -> None:
    account = AccountSettings("a", {"ids": [1]}, {"s": "x"}, "https://example.org", frozenset({"h:1"}))
    assert wire.load_account(wire.dump_account(account)) == account
    assert {*wire.dump_account(account)} == {field.name for field in dataclasses.fields(AccountSettings)}
    assert wire.find_adapter(wire.name_adapter(Telegram)) is Telegram


class OwnProblem(NeedsAttention):
    """The error of an installed package."""

    code = "own"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionLost("lost", retry_after_seconds=3.5), ConnectionLost),
        (NeedsAttention("act"), NeedsAttention),
        (CredentialsRefused("token"), CredentialsRefused),
        (OwnProblem("own"), NeedsAttention),
    ],
)
def test_an_ending_arrives_as_it_was(error: ConnectionLost | NeedsAttention, kind: type[Exception]) -> None:
    loaded = wire.load_ending(wire.dump_ending(error))
    assert type(loaded) is kind and loaded.message == error.message
    assert getattr(loaded, "retry_after_seconds", 0.0) == getattr(error, "retry_after_seconds", 0.0)


def test_a_malformed_event_is_skipped_without_its_content_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    data = wire.dump_received(Received(DeliveryReport("m", "failed", "why"), b"{}"))
    data["event"]["error"] = {"text": "the text of a user"}
    assert sockets_process._load_received(data).event == Ignored("malformed_event")
    assert "(DeliveryReport) is malformed and is skipped: error" in caplog.text
    assert "the text of a user" not in caplog.text
