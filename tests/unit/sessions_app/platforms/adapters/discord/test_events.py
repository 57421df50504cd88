"""Discord's events and interactions, as Discord sends them, and its Markdown."""

import json
from datetime import UTC, datetime
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from sessions_app.platforms.account_settings import AccountSettings
from sessions_app.platforms.adapters.discord.adapter import Discord
from sessions_app.platforms.adapters.discord.events import Bot, read_event, read_interaction
from sessions_app.platforms.adapters.discord.gateway import Gateway
from sessions_app.platforms.base import VerificationFailed, WebhookRequest
from sessions_app.platforms.link import ConnectionLost
from sessions_app.platforms.messages import (
    ButtonPress,
    ChannelMessage,
    Chat,
    Ignored,
    MessageDeleted,
    MessageEdited,
    Quoted,
    Reaction,
)
from sessions_app.platforms.web_socket import open_socket
from tests.fakes.discord import (
    APPLICATION_ID,
    BOT_USER,
    PUBLIC_KEY,
    FakeDiscord,
    ask_interaction,
    interaction,
    message_event,
    press_interaction,
    signed_headers,
    user,
)

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
BOT = Bot(APPLICATION_ID, BOT_USER)
SERVER = {"guild_id": "5", "channel": "7"}


def read(data: Any, kind: str = "MESSAGE_CREATE", bot: Bot = BOT) -> Any:
    return read_event(kind, data, bot)


def message(text: str = "hi", **extra: Any) -> ChannelMessage:
    found = read(message_event(1, text, **extra))
    assert isinstance(found, ChannelMessage)
    return found


def test_a_direct_message() -> None:
    file = {
        "id": "9",
        "filename": "a.png",
        "content_type": "image/png",
        "size": 3,
        "url": "https://cdn.discordapp.com/a",
    }
    found = message("Zoë 👩‍👩‍👧", attachments=[file], id="175928847299117063")
    assert (found.text, found.sender_id, found.sender_name, found.chat) == ("Zoë 👩‍👩‍👧", "501", "Zoë", Chat("700"))
    assert found.keys == ("message:175928847299117063",) and found.is_addressed
    assert found.sent_at == datetime(2016, 4, 30, 11, 18, 25, 796000, tzinfo=UTC)
    assert (found.attachments[0].kind, found.attachments[0].url) == ("image", "https://cdn.discordapp.com/a")


@pytest.mark.parametrize(
    ("extra", "is_addressed"),
    [
        ({"content": f"hello <@{BOT_USER}>"}, True),
        ({"content": f"<@!{BOT_USER}> hello"}, True),
        ({"content": "hello", "referenced_message": {"id": "6", "author": {"id": BOT_USER}}}, True),
        ({"content": "hello", "referenced_message": {"id": "6", "author": {"id": "502"}}}, False),
        ({"content": "/new"}, True),
        ({"content": "hello"}, False),
    ],
)
def test_a_message_in_a_server(extra: dict[str, Any], is_addressed: bool) -> None:
    found = message(**SERVER, member={"nick": "Z"}, text="", **extra)
    assert (found.chat, found.sender_name, found.is_addressed) == (Chat("7", "group"), "Z", is_addressed)
    assert BOT_USER not in found.text


@pytest.mark.parametrize(
    ("extra", "text", "mentions"),
    [
        ({"content": "<@&77> hello", "mention_roles": ["77"]}, "hello", True),
        ({"content": "hello <@&77> and <@&78>", "mention_roles": ["77", "78"]}, "hello and <@&78>", True),
        ({"content": "<@&78> hello", "mention_roles": ["78"]}, "<@&78> hello", False),
        ({"content": "<@&77> hello"}, "<@&77> hello", False),
    ],
)
def test_a_mention_of_the_role_of_the_bot_is_one_of_the_bot(extra: dict[str, Any], text: str, mentions: bool) -> None:
    found = read(message_event(1, "", **SERVER, **extra), bot=Bot(role_ids=frozenset({"77"})))
    assert (found.text, found.mentions_bot, found.is_addressed) == (text, mentions, mentions)


def test_every_message_is_for_a_bot_that_reads_all() -> None:
    assert read(message_event(1, "hi", **SERVER), bot=Bot(reads_all=True)).is_addressed


@pytest.mark.parametrize(
    "extra",
    [
        {"author": user(BOT_USER)},
        {"author": user("502", bot=True)},
        {"author": user("502", system=True)},
        {"webhook_id": "8"},
        {"type": 7},
        {"author": None},
        {"id": 7},
        {"id": "x"},
        {"attachments": [{"id": "9", "url": 7}]},
        {"attachments": [{"id": "9", "url": "https://cdn.discordapp.com/a", "size": 2**64}]},
    ],
)
def test_what_is_not_for_us_is_ignored(extra: dict[str, Any]) -> None:
    assert isinstance(read(message_event(1, "hi", **extra)), Ignored)


def test_a_known_bot_may_talk_to_us() -> None:
    found = read(message_event(1, "hi", author=user("502", bot=True)), bot=Bot(known_bots=frozenset({"502"})))
    assert found.is_from_bot


def test_edits_deletions_and_reactions() -> None:
    edited = message_event(1, "new", edited_timestamp="2026-11-21T12:00:00Z")
    assert read(edited, "MESSAGE_UPDATE") == MessageEdited(f"message:{edited['id']}", "501", "new")
    for other in (message_event(1, "x"), {**edited, "author": user(BOT_USER, bot=True)}, {"id": "1"}):
        assert isinstance(read(other, "MESSAGE_UPDATE"), Ignored)
    assert read({"id": "1", "channel_id": "700"}, "MESSAGE_DELETE") == MessageDeleted("message:1")
    reaction = {"user_id": "501", "message_id": "6", "channel_id": "700", "emoji": {"name": "👍"}}
    assert read(reaction, "MESSAGE_REACTION_ADD") == Reaction("6", "501", Chat("700"), "👍")
    assert read(reaction, "MESSAGE_REACTION_REMOVE").is_removed
    assert isinstance(read({**reaction, "user_id": BOT_USER}, "MESSAGE_REACTION_ADD"), Ignored)


def test_commands_and_buttons() -> None:
    asked = read_interaction(ask_interaction(1, "hi"), BOT)
    assert (asked.text, asked.sender_id, asked.chat) == ("hi", "501", Chat("700"))
    assert asked.reference["token"] == "token-1"
    new = read_interaction(interaction(1, 2, data={"name": "new"}, guild_id="5", context=0), BOT)
    assert (new.text, new.chat, new.is_addressed) == ("/new", Chat("700", "group"), True)
    pressed = read_interaction(press_interaction(2, "apr:1:y", "6"), BOT)
    assert isinstance(pressed, ButtonPress) and (pressed.action_id, pressed.message_id) == ("apr:1:y", "6")
    assert read_interaction(interaction(1, 2, application_id="1"), BOT) == Ignored("another_app")
    assert isinstance(read_interaction(interaction(1, 5), BOT), Ignored)


@pytest.mark.parametrize("data", [None, 7, "text", [], {}, {"author": {}}])
@pytest.mark.parametrize("kind", ["MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE", "TYPING_START"])
def test_any_nonsense_is_ignored(kind: str, data: Any) -> None:
    assert isinstance(read(data, kind), Ignored)


def adapter() -> Discord:
    return Discord(AccountSettings("a", {"public_key": PUBLIC_KEY}, {"bot_token": "t"}))


def test_a_ping_is_answered_and_a_bad_signature_refused() -> None:
    body = b'{"type": 1}'
    headers = signed_headers(body, at=NOW.timestamp())
    request = WebhookRequest(body, {name: [value] for name, value in headers.items()})
    discord = adapter()
    discord.verify(request, NOW)
    assert discord.acknowledge(request, discord.parse(request, NOW)).body == {"type": 1}
    late = signed_headers(body, at=NOW.timestamp() - 301)
    for changed in (signed_headers(b"{}", at=NOW.timestamp()), late, {**headers, "x-signature-ed25519": "00" * 63}):
        with pytest.raises(VerificationFailed):
            discord.verify(WebhookRequest(body, {name: [value] for name, value in changed.items()}), NOW)


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("**bold** *it* ~~no~~ `co*de`", "**bold** *it* ~~no~~ `co*de`"),
        ("# Title", "**Title**"),
        ("[a](https://a.example)", "[a](<https://a.example>)"),
        ("2 \\* 3 a_b_c <@1>", "2 \\* 3 a\\_b\\_c \\<@1>"),
        ("- one\n- two", "- one\n- two"),
        ("> quoted\n> twice", "> quoted\n> twice"),
        ("```py\na * b\n```", "```py\na * b\n```"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "```\na  b\n─  ─\n1  2\n```"),
        ("\\# no title", "\\# no title"),
    ],
)
def test_its_markdown(markdown: str, shown: str) -> None:
    [part] = adapter().render(markdown, Chat("700"))
    assert part.body == shown


async def test_a_session_whose_address_is_gone_is_resumed_at_the_common_one() -> None:
    link = Mock(cursor=json.dumps({"id": "s-1", "url": "ws://127.0.0.1:9", "number": 7}), deliver=AsyncMock())
    gateway = Gateway(AsyncMock(), AsyncMock(), "t", Bot())
    with pytest.raises(ConnectionLost, match="could not be opened"):
        await gateway.listen(link)
    [stored] = [json.loads(call.args[1]) for call in link.deliver.await_args_list]
    assert (stored["id"], stored["url"], stored["number"]) == ("s-1", "", 7)


async def test_an_error_while_events_are_handled_is_not_taken_for_a_lost_connection() -> None:
    with FakeDiscord() as server, pytest.raises(ValueError, match="a defect"):
        async with open_socket(server.socket.url):
            raise ValueError("a defect")


def test_quotes_and_forwards() -> None:
    replied = {"id": "6", "content": "on Friday", "author": user("502", "bob", global_name="Bob")}
    assert message(referenced_message=replied).quoted == (Quoted("on Friday", "Bob"),)
    ours = {"id": "6", "content": "on Friday", "author": {"id": BOT_USER}}
    assert message(referenced_message=ours).quoted == (Quoted("on Friday", is_known=True),)
    file = {"id": "9", "filename": "a.txt", "url": "https://cdn.discordapp.com/a"}
    snapshot = {"message": {"content": "from elsewhere", "attachments": [file]}}
    forward = {"message_reference": {"type": 1, "channel_id": "9"}, "message_snapshots": [snapshot]}
    found = message("", **forward)
    assert found.quoted == (Quoted("from elsewhere", is_forward=True),) and found.carries_others
    assert found.attachments[0].filename == "a.txt"
    assert message("hi").quoted == ()


def test_threads_and_names_of_others() -> None:
    assert message("hi", channel_type=11, **SERVER).thread_id == "7" and message("hi", channel_type=0).thread_id == ""
    assert message("hi", mentions=[{"id": "502"}]).mentions_others
    assert not message("hi", mentions=[{"id": BOT_USER}]).mentions_others


@pytest.mark.parametrize(("groups", "asks"), [("", False), ("reply", False), ("thread", True), ("all", True)])
def test_the_texts_of_others_are_asked_for_where_they_are_used(groups: str, asks: bool) -> None:
    adapter = Discord(AccountSettings("main", {"groups": groups} if groups else {}, {"bot_token": "x"}))
    assert adapter._bot.reads_content is asks and adapter.follows_threads
