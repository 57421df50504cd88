"""WhatsApp's webhook: signatures, handshake, messages of all kinds, statuses; and its formatting."""

import json

import pytest

from sessions_app.platforms.account_settings import AccountSettings
from sessions_app.platforms.adapters.whatsapp.adapter import WhatsApp, WhatsAppText
from sessions_app.platforms.adapters.whatsapp.payloads import read_payload
from sessions_app.platforms.base import VerificationFailed, WebhookRequest
from sessions_app.platforms.messages import (
    ButtonPress,
    ChannelMessage,
    Chat,
    ChatMoved,
    DeliveryReport,
    Ignored,
    OfAccount,
    Quoted,
    Reaction,
)
from sessions_app.platforms.rendering.renderer import render
from tests.fakes.whatsapp import (
    APP_SECRET,
    NUMBER_ID,
    OTHER_NUMBER_ID,
    TOKEN,
    USER,
    VERIFY_TOKEN,
    handshake,
    message,
    payload,
    signed_headers,
)

SECRETS = {"access_token": TOKEN, "app_secret": APP_SECRET, "verify_token": VERIFY_TOKEN}
ADAPTER = WhatsApp(AccountSettings("main", {"phone_number_id": NUMBER_ID}, SECRETS))


def read(*messages, **more):
    return read_payload(payload(*messages, **more), NUMBER_ID)


def request(body: bytes, headers: dict[str, str]) -> WebhookRequest:
    return WebhookRequest(body, {name: [value] for name, value in headers.items()})


def test_the_signature_is_over_the_raw_bytes():
    body = json.dumps(payload(message(1, "👋 a/b"))).replace("/", "\\/").encode()
    ADAPTER.verify(request(body, signed_headers(body)), None)
    again = json.dumps(json.loads(body), ensure_ascii=False).encode()
    with pytest.raises(VerificationFailed):
        ADAPTER.verify(request(again, signed_headers(body)), None)


@pytest.mark.parametrize("value", ["", "sha256=", "sha1=abc", "sha256=é", "SHA256=00", "0" * 64])
def test_other_signatures_prove_nothing(value):
    with pytest.raises(VerificationFailed):
        ADAPTER.verify(request(b"{}", {"x-hub-signature-256": value}), None)


def test_the_handshake_returns_the_challenge():
    asked = WebhookRequest(b"", {}, "GET", handshake())
    ADAPTER.verify(asked, None)
    answer = ADAPTER.acknowledge(asked, ADAPTER.parse(asked, None))
    assert (answer.status, answer.body) == (200, "1158201444") and answer.content_type.startswith("text/plain")
    for query in (
        handshake("wrong"),
        handshake(""),
        "",
        f"{handshake()}&hub.verify_token=x",
        handshake().replace("subscribe", "x"),
    ):
        with pytest.raises(VerificationFailed):
            ADAPTER.verify(WebhookRequest(b"", {}, "GET", query), None)


def test_a_text():
    [found] = read(message(1, "Grüße 👩‍👩‍👧", context={"id": "wamid.9", "forwarded": True}))
    assert isinstance(found, ChannelMessage) and found.text == "Grüße 👩‍👩‍👧" and found.sender_name == "Zoë"
    assert found.chat == Chat(USER) and found.keys == ("message:wamid.in1",) and found.metadata["forwarded"] is True
    assert found.reply_to_message_id == "wamid.9"


def test_a_batch_keeps_its_order_and_other_numbers_go_to_their_accounts():
    both = payload(message(1, "a"), message(2, "b"))
    both["entry"] += payload(message(3, "c"), number=OTHER_NUMBER_ID)["entry"]
    one, two, other = read_payload(both, NUMBER_ID)
    assert (one.text, two.text) == ("a", "b")
    assert isinstance(other, OfAccount) and other.value == OTHER_NUMBER_ID and other.event.text == "c"


@pytest.mark.parametrize(
    ("kind", "fields", "shown_as"),
    [
        ("image", {"caption": "look", "mime_type": "image/jpeg"}, "image"),
        ("audio", {"voice": True, "mime_type": "audio/ogg; codecs=opus"}, "voice"),
        ("audio", {"mime_type": "audio/mp4"}, "audio"),
        ("document", {"filename": "a.pdf", "mime_type": "application/pdf", "caption": "look"}, "file"),
        ("sticker", {"mime_type": "image/webp"}, "sticker"),
    ],
)
def test_files(kind, fields, shown_as):
    [found] = read(message(1, type=kind, **{kind: {"id": "777", **fields}}))
    [file] = found.attachments
    assert (file.id, file.kind, file.auth) == ("777", shown_as, "bot") and found.text == fields.get("caption", "")
    assert file.mime_type == fields["mime_type"].partition(";")[0] and file.filename == fields.get("filename")


def test_places_and_contacts_become_text():
    [place] = read(message(1, type="location", location={"latitude": 52.5, "longitude": 13.4, "name": "Café"}))
    assert place.text == "Location: 52.5, 13.4, Café"
    card = {"name": {"formatted_name": "Ada"}, "phones": [{"phone": "+49 1"}, {}]}
    [contacts] = read(message(1, type="contacts", contacts=[card]))
    assert contacts.text == "Contact: Ada, +49 1"


def test_a_pressed_button():
    reply = {"type": "button_reply", "button_reply": {"id": "apr:x:y", "title": "Allow once"}}
    [found] = read(message(4, type="interactive", interactive=reply, context={"id": "wamid.card"}))
    assert isinstance(found, ButtonPress) and (found.action_id, found.message_id) == ("apr:x:y", "wamid.card")
    assert found.press_id == "wamid.in4" and found.chat == Chat(USER)
    [template] = read(message(4, type="button", button={"payload": "p", "text": "Yes"}))
    assert template.text == "Yes"


def test_reactions_and_new_numbers():
    [added, removed] = read(
        message(1, type="reaction", reaction={"message_id": "wamid.1", "emoji": "👍"}),
        message(2, type="reaction", reaction={"message_id": "wamid.1"}),
    )
    assert added == Reaction("wamid.1", USER, Chat(USER), "👍") and removed.is_removed
    assert read(message(3, type="system", system={"type": "user_changed_number", "wa_id": "49999"})) == [
        ChatMoved(USER, "49999")
    ]


def test_a_user_without_a_number_is_known_by_the_user_id():
    raw = message(1, "hi", from_user_id="US.1349")
    del raw["from"]
    [found] = read(raw, contacts=[{"profile": {"username": "zoe"}, "user_id": "US.1349"}])
    assert (found.sender_id, found.sender_name, found.reference) == ("US.1349", "zoe", {"hasNoNumber": True})
    reply = {"type": "button_reply", "button_reply": {"id": "apr:x:y", "title": "Allow once"}}
    [press] = read({**raw, "type": "interactive", "interactive": reply})
    assert press.reference == {"hasNoNumber": True}, "the reply to the press is sent to the same address"


@pytest.mark.parametrize(
    ("text", "context", "is_addressed"),
    [("hi", {}, False), ("hi @15550006789", {}, True), ("hi", {"from": "15550006789"}, True), ("/stop", {}, True)],
)
def test_in_a_group_it_must_be_meant_for_us(text, context, is_addressed):
    [found] = read(message(1, text, group_id="g1", context=context))
    assert found.chat == Chat("g1", "group") and found.is_addressed is is_addressed


def test_statuses_report_about_our_messages():
    errors = [{"code": 131047, "title": "Re-engagement message"}]
    statuses = [
        {"id": "wamid.1", "status": "sent"},
        {"id": "wamid.1", "status": "delivered"},
        {"id": "wamid.2", "status": "failed", "errors": errors},
        {"status": "read"},
    ]
    assert read(statuses=statuses) == [
        Ignored("status"),
        DeliveryReport("wamid.1", "delivered"),
        DeliveryReport("wamid.2", "failed", "Re-engagement message (131047)"),
        Ignored("malformed"),
    ]


@pytest.mark.parametrize(
    "raw",
    [
        message(1, type="unsupported", errors=[{"code": 131051}]),
        message(1, type="edit", edit={}),
        message(1, type="text"),
        message(1, type="image", image={}),
        message(1, type=7),
        message(1, type="interactive", interactive={}),
        message(1, type="system", system={"body": "x"}),
        {**message(1, "x"), "timestamp": "x"},
        {**message(1, "x"), "from": None},
        {},
    ],
)
def test_what_gets_no_answer(raw):
    [found] = read(raw)
    assert isinstance(found, Ignored)


@pytest.mark.parametrize(
    "value", [None, [], {"entry": 1}, {"entry": [1]}, {"entry": [{"changes": [{"field": "messages"}]}]}]
)
def test_odd_payloads_raise_nothing(value):
    assert not [event for event in read_payload(value, NUMBER_ID) if not isinstance(event, Ignored)]


def test_other_fields_are_ignored():
    value = payload(message(1, "echo"))
    value["entry"][0]["changes"][0]["field"] = "smb_message_echoes"
    assert read_payload(value, NUMBER_ID) == [Ignored("other_field")]


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("**bold** and *italic* ~~no~~ `x`", "*bold* and _italic_ ~no~ `x`"),
        ("***both***", "_*both*_"),
        ("# Heading\n\ntext", "*Heading*\n\ntext"),
        ("- a\n- b", "- a\n- b"),
        ("> one\n> two", "> one\n> two"),
        ("```py\nx = 1\n```", "```x = 1```"),
        ("[this](https://example.org)", "this (https://example.org)"),
        ("**a\nb**", "*a*\n*b*"),
        ("\\_private\\_ and 2\\*3\\*4", "_\u200bprivate_ and 2*3*4"),
        ("| a | b |\n|-|-|\n| 1 | 2 |", "a: 1\nb: 2"),
    ],
)
def test_formatting(markdown, shown):
    [part] = render(markdown, WhatsAppText(), 4096)
    assert part.body == shown


def test_quotes_and_forwards():
    [found] = read(message(1, "and?", context={"from": "1", "id": "wamid.7"}))
    assert found.quoted == (Quoted(key="message:wamid.7", message_id="wamid.7"),) and found.forwarded_from is None
    for flag in ("forwarded", "frequently_forwarded"):
        [found] = read(message(1, "x", context={flag: True}))
        assert found.quoted == () and found.forwarded_from == ""
    [found] = read(message(1, "x"))
    assert found.quoted == () and found.forwarded_from is None
