"""Envelopes of signal-cli: messages, mentions, groups, edits, and what gets no answer; and the styles of texts."""

from datetime import UTC, datetime

import pytest

from sessions_app.platforms.adapters.signal.dialect import SignalText, read_body
from sessions_app.platforms.adapters.signal.envelopes import Us, envelope_of, read_envelope
from sessions_app.platforms.messages import (
    ChannelMessage,
    Chat,
    DeliveryReport,
    Ignored,
    MessageDeleted,
    MessageEdited,
    Quoted,
    Reaction,
)
from sessions_app.platforms.rendering.renderer import render
from tests.fakes.signal_daemon import NUMBER, SENDER, UUID, enveloped, event

US = Us(NUMBER, UUID)
GROUP = {"groupId": "k3y+/A==", "groupName": "Team", "type": "DELIVER"}


def read(raw, us=US):
    found = envelope_of(raw)
    assert found
    [result] = read_envelope(found[0], us)
    return result


@pytest.mark.parametrize(
    "wrap",
    [
        lambda params: params,
        lambda params: {"jsonrpc": "2.0", "method": "receive", "params": params},
        lambda params: {"jsonrpc": "2.0", "method": "receive", "params": {"subscription": 0, "result": params}},
    ],
)
def test_the_three_shapes_of_events(wrap):
    found = read(wrap(event(1, "Grüße 👩‍👩‍👧")))
    assert isinstance(found, ChannelMessage) and found.text == "Grüße 👩‍👩‍👧" and found.chat == Chat(SENDER)
    assert found.message_id == f"{SENDER}:1780000000001" and found.keys == (f"message:{found.message_id}",)
    assert found.sent_at == datetime.fromtimestamp(1_780_000_000.001, UTC) and found.sender_name == "Zoë"


@pytest.mark.parametrize("raw", [None, 7, [], {}, {"params": {"result": {"params": {}}}}, {"envelope": "x"}])
def test_other_json_has_no_envelope(raw):
    assert envelope_of(raw) is None


@pytest.mark.parametrize(
    ("text", "extra", "cleaned", "is_addressed"),
    [
        ("hello all", {}, "hello all", False),
        ("👍 \ufffc hi", {"mentions": [{"uuid": UUID, "start": 3, "length": 1}]}, "👍  hi", True),
        ("\ufffc hi", {"mentions": [{"number": NUMBER, "start": 0, "length": 1}]}, "hi", True),
        ("ask \ufffc", {"mentions": [{"uuid": "x", "name": "Ada", "start": 4, "length": 1}]}, "ask @Ada", False),
        ("and then", {"quote": {"id": 5, "authorUuid": UUID}}, "and then", True),
        ("and then", {"quote": {"id": 5, "authorUuid": "x"}}, "and then", False),
        ("/stop", {}, "/stop", True),
    ],
)
def test_in_a_group_it_must_be_meant_for_us(text, extra, cleaned, is_addressed):
    found = read(event(1, text, groupInfo=GROUP, **extra))
    assert found.chat == Chat("k3y+/A==", "group") and found.chat_title == "Team"
    assert (found.text, found.is_addressed) == (cleaned, is_addressed)
    assert read(event(1, text, groupInfo=GROUP, **extra), Us(NUMBER, UUID, reads_all=True)).is_addressed


def test_files():
    voice = {"id": "a.m4a", "contentType": "audio/aac", "size": 5, "isVoiceNote": True, "filename": None}
    long = {"id": "b", "contentType": "text/x-signal-plain", "size": 9}
    found = read(event(1, None, attachments=[voice, long], groupInfo=GROUP))
    shown = [(file.id, file.kind, file.filename, file.size_bytes) for file in found.attachments]
    place = "group:k3y+/A=="
    assert shown == [(f"{place}:a.m4a", "voice", None, 5), (f"{place}:b", "file", "text.txt", 9)]
    assert found.text == ""


def test_edits_deletions_reactions_and_receipts():
    edit = {"targetSentTimestamp": 5, "dataMessage": {"timestamp": 6, "message": "new"}}
    assert read(enveloped({"editMessage": edit})) == MessageEdited(f"{SENDER}:5", SENDER, "new")
    deleted = {"dataMessage": {"timestamp": 6, "remoteDelete": {"timestamp": 5}}}
    assert read(enveloped(deleted)) == MessageDeleted(f"{SENDER}:5")
    reaction = {"emoji": "👍", "targetAuthorUuid": UUID, "targetSentTimestamp": 7, "isRemove": False}
    assert read(event(1, None, reaction=reaction)) == Reaction("7", SENDER, Chat(SENDER), "👍")
    assert read(event(1, None, reaction={**reaction, "targetAuthorUuid": "x"})) == Ignored("reaction_to_others")
    receipts = enveloped({"receiptMessage": {"isRead": True, "timestamps": [7, 8]}})
    assert read_envelope(receipts["envelope"], US) == [DeliveryReport("7", "read"), DeliveryReport("8", "read")]


@pytest.mark.parametrize(
    "raw",
    [
        enveloped({"syncMessage": {"sentMessage": {"message": "from my phone"}}}),
        enveloped({"typingMessage": {"action": "STARTED"}}),
        enveloped({"callMessage": {"offerMessage": {}}}),
        enveloped({"storyMessage": {}}),
        enveloped({}),
        event(1, "to me", sender=UUID),
        event(1, None, groupInfo={**GROUP, "type": "UPDATE"}),
        event(1, None, isExpirationUpdate=True),
        event(1, "x", timestamp="soon"),
        event(1, 7),
        event(1, "x", attachments=[{"contentType": "a/b"}]),
        event(1, "x", mentions=[{}]),
        enveloped({"receiptMessage": {"isDelivery": True}}),
        {"envelope": {"dataMessage": {"message": "no sender", "timestamp": 1}}},
    ],
)
def test_what_gets_no_answer(raw):
    assert isinstance(read(raw), Ignored)


def test_styles_count_utf16():
    [part] = render("👋 **bold** and *it*, `x`", SignalText(), 2000)
    assert part.text == "👋 bold and it, x"
    assert read_body(part.body) == ("👋 bold and it, x", ["3:4:BOLD", "12:2:ITALIC", "16:1:MONOSPACE"])
    assert read_body("plain") == ("plain", [])


def test_parts_are_measured_in_bytes():
    parts = render("слово " * 600, SignalText(), 2000)
    assert len(parts) > 2 and all(len(part.text.encode()) <= 2000 for part in parts)


def test_quotes_and_names_of_others():
    quote = {"id": 5, "authorUuid": "b", "authorNumber": "+491", "text": "on Friday"}
    assert read(event(1, "and?", quote=quote)).quoted == (Quoted("on Friday", "+491", "message:b:5", "5"),)
    ours = {**quote, "authorUuid": UUID}
    assert read(event(1, "and?", quote=ours)).quoted[0].is_known
    assert read(event(1, "and?", quote={**quote, "authorUuid": SENDER})).quoted[0].is_known
    assert read(event(1, "hi")).quoted == () and not read(event(1, "hi")).mentions_others
    names = [{"uuid": "b", "name": "Bob", "start": 0, "length": 1}]
    assert read(event(1, "\ufffc hi", mentions=names)).mentions_others
