"""Twilio's requests: signatures over the exact public URL, and the messages, keywords and reports in forms."""

from datetime import UTC, datetime
from urllib.parse import urlencode

import pytest

from sessions_app.platforms.adapters.sms.form import is_signed, read_fields
from sessions_app.platforms.adapters.sms.segments import SmsText, limit_of, units
from sessions_app.platforms.base import WebhookRequest
from sessions_app.platforms.messages import ChannelMessage, ChatEvent, DeliveryReport, Ignored
from sessions_app.platforms.rendering.renderer import render
from tests.fakes.twilio import NUMBER, message_form, sid, signature_of

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
URL = "https://komand.example/channels/sms/main/webhook"
FORM = "application/x-www-form-urlencoded"


def request(body: bytes, signature: str, query: str = "", kind: str = FORM) -> WebhookRequest:
    return WebhookRequest(body, {"content-type": [kind], "x-twilio-signature": [signature]}, query=query)


def read(fields):
    return read_fields(fields, frozenset({NUMBER}), NOW)


def test_the_example_of_the_documentation_is_verified():
    """Compare with the signature that Twilio's documentation computes."""
    fields = {"CallSid": "CA1234567890ABCDE", "Caller": "+14158675310", "Digits": "1234", "From": "+14158675310"}
    body = urlencode({**fields, "To": "+18005551212"}).encode()
    asked = request(body, "GvWf1cFY/Q7PnoempGyD5oXAezc=", "foo=1&bar=2")
    assert is_signed(asked, "https://mycompany.com/myapp.php", ["12345"])


@pytest.mark.parametrize("signed", [URL, URL.replace("example/", "example:443/")])
@pytest.mark.parametrize("known", [URL, URL.replace("example/", "example:443/")])
def test_the_default_port_may_be_written_or_not(signed, known):
    body = urlencode(message_form(1, "hi")).encode()
    assert is_signed(request(body, signature_of(signed, body)), known, ["x", "0123456789abcdef0123456789abcdef"])


def test_all_fields_count_empty_and_repeated_ones_too():
    body = b"b=2&a=&b=1&b=2&new=%2B1"
    good = request(body, signature_of(URL, body))
    assert is_signed(good, URL, ["0123456789abcdef0123456789abcdef"])
    for changed in (b"b=2&b=1&b=2&new=%2B1&a=x", b"b=2&a=&b=1&b=2", b"b=2&a=&b=1&b=2&new=%2B1&more=1"):
        assert not is_signed(request(changed, signature_of(URL, body)), URL, ["0123456789abcdef0123456789abcdef"])


@pytest.mark.parametrize("token", ["", "another"])
def test_a_wrong_or_empty_token_verifies_nothing(token):
    body = urlencode(message_form(1, "hi")).encode()
    assert not is_signed(request(body, signature_of(URL, body, token="")), URL, [token])


@pytest.mark.parametrize("url", [URL.replace("https", "http"), URL + "/", "/channels/sms/main/webhook"])
def test_another_address_verifies_nothing(url):
    body = urlencode(message_form(1, "hi")).encode()
    assert not is_signed(request(body, signature_of(URL, body)), url, ["0123456789abcdef0123456789abcdef"])


def test_a_message_with_files():
    media = {"NumMedia": "2", "MediaUrl0": "https://api.twilio.com/x/ME1", "MediaContentType0": "image/jpeg"}
    found = read(message_form(7, "", **media, MediaUrl1="https://api.twilio.com/x/ME2", FromCity="KÖLN"))
    assert isinstance(found, ChannelMessage) and found.keys == (f"sms:{sid(7)}",)
    assert found.chat.id == found.sender_id == "+15550001111" and found.sent_at == NOW
    assert [(file.id, file.kind, file.mime_type) for file in found.attachments] == [
        ("ME1", "image", "image/jpeg"),
        ("ME2", "file", None),
    ]
    assert found.metadata["to"] == NUMBER and found.metadata["fromCity"] == "KÖLN"


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"OptOutType": "STOP"}, "opted_out"),
        ({"Body": " stop "}, "opted_out"),
        ({"Body": "Unsubscribe"}, "opted_out"),
        ({"OptOutType": "START"}, "opted_in"),
        ({"Body": "UNSTOP"}, "opted_in"),
    ],
)
def test_consent_is_recorded_and_never_answered(fields, note):
    found = read(message_form(1, "hello", **{"Body": "x", **fields}))
    assert isinstance(found, ChatEvent) and found.note == note


@pytest.mark.parametrize(
    "fields",
    [
        {"Body": "HELP"},
        {"OptOutType": "HELP"},
        {"From": NUMBER},
        {"From": "40404"},
        {"From": "AMAZON"},
        {"From": ""},
        {"MessageSid": "SM1"},
        {"MessageSid": ""},
        {"MessageStatus": "sent"},
        {"SmsStatus": "queued"},
        {"MessageStatus": "delivered", "MessageSid": "x"},
    ],
)
def test_what_gets_no_answer(fields):
    assert isinstance(read({**message_form(1, "hello"), **fields}), Ignored)


def test_words_within_a_message_are_no_keywords():
    assert isinstance(read(message_form(1, "please stop it")), ChannelMessage)


@pytest.mark.parametrize(
    ("status", "state"), [("delivered", "delivered"), ("read", "read"), ("undelivered", "failed"), ("failed", "failed")]
)
def test_reports_about_our_messages(status, state):
    found = read({"MessageSid": sid(3), "MessageStatus": status, "SmsStatus": status, "ErrorCode": "30003"})
    assert found == DeliveryReport(sid(3), state, "Twilio error 30003")


def test_units_follow_the_gsm_alphabet():
    assert units("Hello @ €5 [x]\n") == 15 + 3
    assert units("Ж" * 67) == 153 and units("a" * 66 + "Ж") == 153 and units("👋") == 5


def test_typographic_marks_do_not_double_the_segments():
    [part] = render("“Don’t” – **wait**…\n\n- one\n- [two](https://example.org)", SmsText(), limit_of(3))
    assert part.text == '"Don\'t" - wait...\n\n- one\n- two (https://example.org)'


def test_parts_fill_their_segments():
    parts = render("word " * 300, SmsText(), limit_of(2))
    assert all(units(part.text) <= 306 for part in parts) and units(parts[0].text) > 290
    assert all(units(part.text) <= 306 for part in render("слово " * 300, SmsText(), limit_of(2)))
