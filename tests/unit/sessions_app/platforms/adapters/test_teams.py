"""Requests of the Bot Framework: tokens, keys, and activities of all kinds; streamed texts."""

import base64
import json
from datetime import UTC, datetime, timedelta

import httpx2
import jwt
import pytest

from sessions_app.platforms.adapters.teams.activities import Rules, read_activity
from sessions_app.platforms.adapters.teams.adapter import TeamsMarkdown, message_activity
from sessions_app.platforms.adapters.teams.streams import Stream
from sessions_app.platforms.adapters.teams.tokens import Expected, Keys, is_proven
from sessions_app.platforms.messages import (
    Button,
    ButtonPress,
    ChannelMessage,
    Chat,
    Ignored,
    MessageDeleted,
    MessageEdited,
    Outgoing,
    Quoted,
    Reaction,
    Target,
)
from sessions_app.platforms.rendering.renderer import render
from tests.fakes.teams import APP_ID, BOT, CHAT, ISSUER, KEY_ID, TENANT_ID, USER, FakeTeams, activity, headers_for

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
RULES = Rules(frozenset({TENANT_ID}), app_id=APP_ID)
EXPECTED = Expected(ISSUER, APP_ID)
GROUP = {
    "id": "19:abc@thread.tacv2;messageid=177",
    "conversationType": "channel",
    "name": "Team",
    "tenantId": TENANT_ID,
}


@pytest.fixture
async def keys():
    """Return the keys of the fake, fetched."""
    with FakeTeams() as server:
        made = Keys(f"{server.url}/keys")
        async with httpx2.AsyncClient() as client:
            assert await made.fetch(client, NOW)
        yield made


def token(**changes) -> str:
    body = json.dumps(activity(1)).encode()
    return headers_for(body, at=NOW.timestamp(), **changes)["authorization"].removeprefix("Bearer ")


def proven(keys: Keys, text: str, **fields) -> bool:
    return is_proven(text, keys, EXPECTED, activity(1, **fields), NOW)


async def test_a_token_of_the_framework_is_proven(keys):
    assert proven(keys, token()) and proven(keys, token(serviceurl="https://smba.example/teams"))
    assert proven(keys, token(exp=int(NOW.timestamp()) - 200)), "clocks may differ by five minutes"


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "22222222-2222-4333-8444-555555555555"},
        {"aud": None},
        {"iss": "https://sts.windows.net/x"},
        {"iss": None},
        {"exp": int(NOW.timestamp()) - 400},
        {"exp": None},
        {"nbf": int(NOW.timestamp()) + 400},
        {"serviceurl": "https://evil.test/teams/"},
        {"serviceurl": None},
        {"key": "key-2"},
    ],
)
async def test_other_claims_prove_nothing(keys, claims):
    assert not proven(keys, token(**claims))


async def test_other_algorithms_prove_nothing(keys):
    claims = jwt.decode(token(), options={"verify_signature": False})
    unsigned = jwt.encode(claims, None, algorithm="none", headers={"kid": KEY_ID})
    symmetric = jwt.encode(claims, APP_ID, algorithm="HS256", headers={"kid": KEY_ID})
    head, payload, _ = token().split(".")
    forged = f"{head}.{payload}.{base64.urlsafe_b64encode(b'x' * 256).decode().rstrip('=')}"
    for text in (unsigned, symmetric, forged, "", "a.b.c", "é", token() + "x"):
        assert not proven(keys, text)


@pytest.mark.parametrize("channel", ["slack", None, "webchat", "directline"])
async def test_other_channels_of_the_bot_prove_nothing(keys, channel):
    assert not proven(keys, token(), channelId=channel), "a client of Web Chat names its sender itself"


async def test_keys_are_fetched_once_for_unknown_ones_and_kept():
    with FakeTeams() as server:
        keys = Keys(f"{server.url}/keys")
        async with httpx2.AsyncClient() as client:
            assert keys.find(KEY_ID, NOW) is None
            assert await keys.fetch(client, NOW) and keys.find(KEY_ID, NOW)
            for minutes in (1, 30, 59):
                assert not await keys.fetch(client, NOW + timedelta(minutes=minutes))
            server.key_ids = [KEY_ID, "key-2"]
            assert await keys.fetch(client, NOW + timedelta(minutes=61))
            assert keys.find("key-2", NOW + timedelta(minutes=61)) and server.key_requests == 2
            later = NOW + timedelta(hours=26)
            assert keys.find(KEY_ID, later) is None, "a day later they are fetched first"
            server.key_ids = []
            assert not await keys.fetch(client, later) and keys.find(KEY_ID, later), "old ones are better than none"


async def test_an_address_without_keys_raises_nothing():
    async with httpx2.AsyncClient() as client:
        keys = Keys("http://127.0.0.1:9/keys")
        assert not await keys.fetch(client, NOW) and not await keys.fetch(client, NOW)
        assert keys.find(KEY_ID, NOW) is None


# Activities.


def read(**fields):
    return read_activity(activity(1, **fields), RULES, NOW)


def test_a_message():
    found = read(text="Gr&uuml;&szlig;e&nbsp;👋")
    assert isinstance(found, ChannelMessage) and found.text == "Grüße 👋" and found.sender_name == "Zoë"
    assert (found.sender_id, found.chat) == (USER, Chat(CHAT)) and found.metadata["directoryId"] == "dir-1"
    assert found.sent_at == datetime(2026, 11, 21, 11, 59, 58, 123456, tzinfo=UTC)
    assert found.keys == (f"message:{CHAT}:1780000000001",)
    assert found.reference["serviceUrl"] == "https://smba.example/teams" and found.reference["botId"] == BOT


def test_a_message_of_a_channel_has_a_thread_and_loses_our_mention():
    entities = [{"type": "mention", "mentioned": {"id": BOT}, "text": "<at>Komand</at>"}, {"type": "clientInfo"}, 7]
    found = read(conversation=GROUP, text="<at>Komand</at> what about <at>Ada</at>?", entities=entities)
    assert found.chat == Chat("19:abc@thread.tacv2", "group", "177") and found.chat_title == "Team"
    assert found.text == "what about <at>Ada</at>?" and found.is_addressed and found.mentions_bot
    assert not read(conversation=GROUP, text="hi all").is_addressed
    assert read_activity(activity(1, conversation=GROUP), Rules(RULES.tenants, reads_all=True), NOW).is_addressed


@pytest.mark.parametrize(
    ("mention", "text"),
    [
        ({"mentioned": {"id": BOT}}, "<at>ChatSDK Demo</at> Hey you"),
        ({"mentioned": {"id": BOT, "name": "ChatSDK Demo"}}, '<at id="0">ChatSDK Demo</at> Hey you'),
        ({"mentioned": {"id": BOT}, "text": "<at>ChatSDK Demo</at>"}, "<at>ChatSDK Demo</at> Hey you"),
        ({"mentioned": {"id": BOT, "name": "a.c"}}, "Hey <at>a.c</at> you"),
    ],
)
def test_a_mention_is_cut_out_with_and_without_its_text(mention, text):
    found = read(conversation=GROUP, text=text, entities=[{"type": "mention", **mention}])
    assert found.text == "Hey you" and found.mentions_bot


def test_a_conversation_with_several_people_is_a_group():
    several = {"id": "19:x", "isGroup": True, "tenantId": TENANT_ID}
    found = read(conversation=several)
    assert found.chat.type == "group" and not found.is_addressed
    assert read(conversation={"id": CHAT, "isGroup": False, "tenantId": TENANT_ID}).chat.type == "direct"


def test_files():
    html = {"contentType": "text/html", "content": "<p>hello</p>"}
    info = {"downloadUrl": "https://x.sharepoint.com/a?tempauth=1", "fileType": "pdf"}
    file = {"contentType": "application/vnd.microsoft.teams.file.download.info", "name": "a.pdf", "content": info}
    ours = {"contentType": "image/*", "contentUrl": "https://smba.example/teams/v3/attachments/1/views/original"}
    foreign = {"contentType": "image/png", "contentUrl": "https://evil.test/a.png"}
    found = read(attachments=[html, file, ours, foreign]).attachments
    assert [(item.filename, item.auth) for item in found] == [("a.pdf", "none"), (None, "bot"), (None, "none")]
    assert found[0].url == info["downloadUrl"] and found[1].id == f"bot:{ours['contentUrl']}"


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "message", "text": "", "value": {"actionId": "apr:x:y"}},
        {
            "type": "invoke",
            "name": "adaptiveCard/action",
            "text": None,
            "value": {"action": {"verb": "press", "data": {"actionId": "apr:x:y"}}},
        },
    ],
)
def test_pressed_buttons(fields):
    found = read(**fields, replyToId="card-1")
    assert isinstance(found, ButtonPress) and (found.action_id, found.message_id) == ("apr:x:y", "card-1")
    assert found.chat == Chat(CHAT) and found.keys == (f"press:{CHAT}:1780000000001",)


def test_edits_deletions_and_reactions():
    key = f"message:{CHAT}:1780000000001"
    assert read(type="messageUpdate", text="new") == MessageEdited(key, USER, "new")
    assert read(type="messageDelete", text=None) == MessageDeleted(key)
    like = [{"type": "like"}]
    assert read(type="messageReaction", replyToId="a1", reactionsAdded=like) == Reaction("a1", USER, Chat(CHAT), "👍")
    assert read(type="messageReaction", replyToId="a1", reactionsRemoved=like).is_removed


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "conversationUpdate"},
        {"type": "installationUpdate"},
        {"type": "typing"},
        {"type": "endOfConversation"},
        {"type": "event"},
        {"type": "invoke", "name": "composeExtension/query"},
        {"type": "something new"},
        {"type": None},
        {"from": {"id": BOT}},
        {"from": {"id": BOT}, "recipient": {"id": USER}},
        {"from": {"id": APP_ID}, "recipient": {"id": USER}},
        {"from": {"id": "29:x", "role": "bot"}},
        {"from": None},
        {"conversation": None},
        {"conversation": {**GROUP, "tenantId": "other"}, "channelData": {"tenant": {"id": "other"}}},
        {"conversation": {"id": CHAT}, "channelData": None},
        {"text": 7},
        {"attachments": [{"contentType": "image/png"}]},
        {"type": "messageReaction"},
        {"text": "", "value": {}},
    ],
)
def test_what_gets_no_answer(fields):
    assert isinstance(read(**fields), Ignored)


def test_a_missing_time_is_that_of_the_receipt():
    assert read(timestamp="yesterday").sent_at == NOW


# What is shown.


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("# Title\n\n**bold** *it* ~~no~~ `x`", "**Title**\n\n**bold** *it* ~~no~~ `x`"),
        ("```py\nx = 1\n```", "```\nx = 1\n```"),
        ("| a | b |\n|-|-|\n| 1 | 2 |", "a: 1\nb: 2"),
        ("\\*literal\\* and 2\\*3", "\\*literal* and 2*3"),
        ("[this](https://example.org)", "this (https://example.org)"),
    ],
)
def test_formatting(markdown, shown):
    [part] = render(markdown, TeamsMarkdown(), 20_000)
    assert part.body == shown


def test_a_stream_shows_paragraphs_and_what_two_texts_agree_on():
    stream = Stream()
    assert stream.next_update("One unfin**ish**") is None
    update = stream.next_update("One unfin**ished**")
    assert (
        update
        and update["text"] == "One unfin**ish"
        and update["channelData"] == {"streamType": "streaming", "streamSequence": 1}
    )
    stream.id = "s1"
    assert stream.next_update("One unfin**ish**") is None, "nothing new"
    assert stream.next_update("Other.\n\nx") is None, "it does not extend the last"
    update = stream.next_update("One unfin**ished**.\n\nTwo.\n\nThree")
    assert update and update["text"] == "One unfin**ished**.\n\nTwo."
    assert update["entities"] == [
        {"type": "streaminfo", "streamType": "streaming", "streamSequence": 2, "streamId": "s1"}
    ]
    assert stream.final()["channelData"] == {"streamType": "final", "streamId": "s1"}
    stream.is_closed = True
    assert stream.next_update("One unfin**ished**.\n\nTwo.\n\nThree.\n\nFour") is None


def quotes_of(**fields):
    return read_activity(activity(1, "and?", **fields), RULES, NOW).quoted


def test_quotes():
    html = (
        '<blockquote itemscope itemtype="http://schema.skype.com/Reply" itemid="17"><strong itemprop="mri" '
        'itemid="8:orgid:b">Bob &amp; Co</strong><span itemprop="time" itemid="17"></span><p itemprop="preview">on '
        "<b>Friday</b></p></blockquote><p>and?</p>"
    )
    assert quotes_of(attachments=[{"contentType": "text/html", "content": html}]) == (Quoted("on Friday", "Bob & Co"),)
    forward = html.replace("/Reply", "/Forward")
    [forwarded] = quotes_of(attachments=[{"contentType": "text/html", "content": forward}])
    assert forwarded.is_forward
    entity = {"type": "quotedReply", "quotedReply": {"messageId": "17", "senderId": "29:b", "senderName": "Bob"}}
    entity["quotedReply"]["preview"] = "on Friday"
    assert quotes_of(entities=[entity]) == (Quoted("on Friday", "Bob"),)
    entity["quotedReply"]["senderId"] = BOT
    assert quotes_of(entities=[entity]) == (Quoted("on Friday", is_known=True),)
    assert quotes_of() == quotes_of(attachments=[{"contentType": "text/html", "content": "<p>and?</p>"}]) == ()


def test_of_an_endless_message_the_first_quotes_are_read() -> None:
    quote = '<blockquote itemtype="http://schema.skype.com/Reply"><p itemprop="preview">on Friday</p></blockquote>'
    html = f"{quote}{'<' * 200_000}{quote}"
    assert quotes_of(attachments=[{"contentType": "text/html", "content": html}]) == (Quoted("on Friday"),)


def test_the_placeholder_of_a_quote_is_no_text():
    found = read_activity(activity(1, '<quoted messageId="17"/> and?'), RULES, NOW)
    assert found.text == "and?"


def test_threads_and_names_of_others():
    found = read_activity(activity(1, "hi", conversation=GROUP), RULES, NOW)
    assert found.thread_id == "177" and not found.mentions_others
    entity = {"type": "mention", "mentioned": {"id": "29:b"}, "text": "<at>Bob</at>"}
    assert read_activity(activity(1, "<at>Bob</at> hi", entities=[entity]), RULES, NOW).mentions_others


def test_a_card_contains_the_text_and_shows_code_literally():
    text = 'Allow **launch**?\n\n```\n{"to": "*moon*"}\n```\n\nIt costs 5.'
    [part] = render(text, TeamsMarkdown(), 20_000)
    activity_sent = message_activity(Outgoing("m", Target(Chat(CHAT)), part, buttons=(Button("Yes", "apr:x:y"),)))
    body = activity_sent["attachments"][0]["content"]["body"]
    assert "text" not in activity_sent and activity_sent["summary"].startswith("Allow launch?")
    assert [block.get("text") for block in body] == ["Allow **launch**?", None, "It costs 5."]
    assert body[1]["inlines"] == [{"type": "TextRun", "text": '{"to": "*moon*"}', "fontType": "Monospace"}]
