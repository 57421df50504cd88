"""Parsing of Telegram's updates."""

from datetime import UTC, datetime

import pytest

from sessions_app.platforms.adapters.telegram.updates import Bot, read_update
from sessions_app.platforms.messages import (
    ButtonPress,
    ChannelMessage,
    Chat,
    ChatEvent,
    ChatMoved,
    Ignored,
    Quoted,
    Reaction,
    StopRequest,
)
from tests.fakes.telegram import BOT_ID, BOT_NAME, group_update, private_update

BOT = Bot(str(BOT_ID), BOT_NAME)
US = {"id": BOT_ID, "is_bot": True, "first_name": "Komand"}


def read(update, bot=BOT):
    return read_update(update, bot)


def entity(kind: str, offset: int, length: int, **extra):
    return {"entities": [{"type": kind, "offset": offset, "length": length, **extra}]}


def test_a_private_message():
    found = read(private_update(7, "Grüße 👋\u200d", user=9_007_199_254_740_993, date=1_780_000_000))
    assert isinstance(found, ChannelMessage)
    assert found.message_id == "9007199254740993:7" and found.sender_id == "9007199254740993"
    assert found.text == "Grüße 👋\u200d" and found.sender_name == "Zoë"
    assert found.sent_at == datetime.fromtimestamp(1_780_000_000, UTC)
    assert found.keys == ("update:90007", "message:9007199254740993:7") and found.is_addressed
    assert found.metadata["telegramChatId"] == "9007199254740993" and found.chat.type == "direct"


@pytest.mark.parametrize(
    ("text", "extra", "cleaned", "addressed"),
    [
        ("hello all", {}, "hello all", False),
        ("👍 @komand_test_bot hi", entity("mention", 3, 16), "👍 hi", True),
        ("@Komand_Test_Bot hi", entity("mention", 0, 16), "hi", True),
        ("@komand_test_botty hi", entity("mention", 0, 18), "@komand_test_botty hi", False),
        ("Komand hi", entity("text_mention", 0, 6, user=US), "hi", True),
        ("/stop", entity("bot_command", 0, 5), "/stop", True),
        ("/stop@komand_test_bot", entity("bot_command", 0, 21), "/stop", True),
        ("/ban", entity("bot_command", 0, 4), "/ban", False),
        ("and then", {"reply_to_message": {"message_id": 3, "from": US}}, "and then", True),
        ("and then", {"reply_to_message": {"message_id": 3, "from": {"id": 5}}}, "and then", False),
        (
            "in a topic",
            {"reply_to_message": {"message_id": 3, "from": US, "forum_topic_created": {}}},
            "in a topic",
            False,
        ),
    ],
)
def test_in_a_group_it_must_be_meant_for_us(text, extra, cleaned, addressed):
    found = read(group_update(7, text, **extra))
    assert isinstance(found, ChannelMessage) and (found.text, found.is_addressed) == (cleaned, addressed)


def test_a_group_can_be_read_whole():
    assert read(group_update(7, "hello all"), Bot(str(BOT_ID), BOT_NAME, reads_all=True)).is_addressed


def test_a_topic_is_a_thread_and_a_chain_of_replies_is_none():
    assert read(group_update(7, "x", message_thread_id=12, is_topic_message=True)).chat.thread_id == "12"
    assert read(group_update(7, "x", message_thread_id=12)).chat.thread_id == ""


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        (entity("bot_command", 0, 9) | {"text": "/stop@foo"}, "command_for_other_bot"),
        ({"new_chat_members": [US]}, "service_message"),
        ({"from": {"id": 5, "is_bot": True, "first_name": "Other"}}, "other_bot"),
        ({"from": US}, "own_message"),
        ({"via_bot": US}, "own_message"),
        ({"chat": None}, "odd_shape"),
        ({"text": 7}, "odd_shape"),
        ({"entities": [{"type": "mention"}]}, "odd_shape"),
        ({"date": "soon"}, "odd_shape"),
        ({"photo": [{"file_id": None}]}, "odd_shape"),
        ({"document": {"file_id": "d", "file_size": 2**64}}, "odd_shape"),
        ({"document": {"file_id": "d", "file_name": 7}}, "odd_shape"),
    ],
)
def test_what_is_not_for_us_is_ignored(extra, why):
    assert read(group_update(7, **{"text": "x", **extra})) == Ignored(why)


@pytest.mark.parametrize("kind", ["message_reaction_count", "poll", "inline_query", "something_new"])
def test_other_kinds_of_updates_are_ignored(kind):
    assert read({"update_id": 1, kind: private_update(1, "x")["message"]}) == Ignored("unwanted_kind")


@pytest.mark.parametrize("update", [None, 7, "text", [], {}, {"message": {}}, {"update_id": 1, "message": 5}])
def test_any_nonsense_is_ignored(update):
    assert isinstance(read(update), Ignored)


def test_a_known_bot_may_talk_to_us():
    other = {"from": {"id": 5, "is_bot": True, "first_name": "Other"}}
    assert isinstance(
        read(private_update(7, "x", **other), Bot(str(BOT_ID), known_bots=frozenset({"5"}))), ChannelMessage
    )


def test_an_anonymous_admin_speaks_as_the_group():
    sender = {"sender_chat": {"id": -100777, "title": "Team"}, "from": {"id": 1087968824, "is_bot": True}}
    found = read(group_update(7, "/stop", **sender))
    assert (found.sender_id, found.sender_name) == ("-100777", "Team")


def test_files_are_listed_once():
    document = {"file_id": "d", "file_name": "a.gif", "mime_type": "image/gif", "file_size": 5}
    both = private_update(7, "", animation=document, document=document, caption="look")
    found = read(both)
    assert found.text == "look" and [(file.id, file.kind) for file in found.attachments] == [("d", "video")]
    photos = [{"file_id": "small", "file_size": 1}, {"file_id": "large", "file_size": 9}]
    assert [file.id for file in read(private_update(7, "", photo=photos)).attachments] == ["large"]


def test_parts_of_an_album_know_each_other():
    one, two = (read(private_update(number, "", photo=[{"file_id": "x"}], media_group_id="9")) for number in (1, 2))
    assert one.album_id == two.album_id == "501:9" and read(private_update(3, "x")).album_id == ""


def test_messages_without_text_and_files_are_named():
    assert read(private_update(1, "", dice={"emoji": "🎲", "value": 3})).unreadable == "dice"


def test_a_pressed_button_is_an_action():
    message = private_update(3, "card")["message"]
    query = {"id": "77", "from": {"id": 501, "first_name": "Zoë"}, "message": message, "data": "apr:x:y"}
    found = read({"update_id": 5, "callback_query": query})
    assert found == ButtonPress("apr:x:y", "501", "Zoë", found.chat, "501:3", "77", ("update:5",))


def test_membership_stop_and_migration_are_events():
    change = {
        "chat": {"id": 5, "type": "private"},
        "from": {"id": 5, "first_name": "Z"},
        "date": 1,
        "new_chat_member": {"status": "kicked"},
    }
    assert isinstance(read({"update_id": 1, "my_chat_member": change}), ChatEvent)
    assert read({"update_id": 1, "my_chat_member": change}).note == "chat_left"
    stop = {"chat": {"id": 5, "type": "private"}, "draft_id": 3}
    assert read({"update_id": 1, "stopped_message_generation": stop}) == StopRequest(Chat("5"), 3)
    assert read(group_update(7, "", migrate_to_chat_id=-200)) == ChatMoved("-100777", "-200")


BOB = {"id": 502, "is_bot": False, "first_name": "Bob"}


@pytest.mark.parametrize(
    ("extra", "quoted"),
    [
        ({}, ()),
        ({"reply_to_message": {"message_id": 3, "from": BOB, "text": "x"}}, (Quoted("x", "Bob", "message:-100777:3"),)),
        (
            {"reply_to_message": {"message_id": 3, "from": BOB, "text": "x y"}, "quote": {"text": "y", "position": 2}},
            (Quoted("y", "Bob", "message:-100777:3"),),
        ),
        (
            {"reply_to_message": {"message_id": 3, "from": US, "caption": "x"}},
            (Quoted("x", "", "message:-100777:3", is_known=True),),
        ),
        (
            {"reply_to_message": {"message_id": 3, "from": {"id": 501}, "text": "x", "forward_origin": {}}},
            (Quoted("x", "", "message:-100777:3", is_known=True),),
        ),
        (
            {"external_reply": {"origin": {"type": "chat", "sender_chat": {"title": "News"}}}, "quote": {"text": "x"}},
            (Quoted("x", "News", is_forward=True),),
        ),
        ({"reply_to_message": {"message_id": 3, "from": BOB, "forum_topic_created": {}}}, ()),
    ],
)
def test_quotes(extra, quoted):
    assert read(group_update(7, "what?", **extra)).quoted == quoted


def test_what_the_sender_has_forwarded_is_not_known_when_it_is_quoted():
    forwarded = {"message_id": 3, "from": {"id": 501}, "text": "x", "forward_origin": {"type": "user"}}
    [quoted] = read(group_update(7, "what?", reply_to_message=forwarded)).quoted
    assert not quoted.is_known


@pytest.mark.parametrize(
    ("origin", "author"),
    [
        ({"type": "user", "sender_user": {**BOB, "last_name": "Stone"}}, "Bob Stone"),
        ({"type": "hidden_user", "sender_user_name": "Hidden"}, "Hidden"),
        ({"type": "channel", "chat": {"id": -5, "title": "News"}, "message_id": 3}, "News"),
        ({"type": "chat", "sender_chat": {"id": -5, "title": "Team"}}, "Team"),
        ({"type": "new"}, ""),
    ],
)
def test_forwards(origin, author):
    assert read(private_update(7, "x", forward_origin={**origin, "date": 1})).forwarded_from == author
    assert read(private_update(7, "x")).forwarded_from is None


@pytest.mark.parametrize(
    ("text", "extra", "names_others"),
    [
        ("hello", {}, False),
        ("@komand_test_bot hi", entity("mention", 0, 16), False),
        ("👍 @bob_stone hi", entity("mention", 3, 10), True),
        ("Bob hi", entity("text_mention", 0, 3, user=BOB), True),
    ],
)
def test_names_of_others(text, extra, names_others):
    assert read(group_update(7, text, **extra)).mentions_others is names_others


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"location": {"latitude": 52.52, "longitude": 13.4}}, "location 52.52, 13.4"),
        (
            {
                "location": {"latitude": 1, "longitude": 2},
                "venue": {"title": "Café", "address": "Main Street 1", "location": {}},
            },
            "Café, Main Street 1, location 1.0, 2.0",
        ),
        ({"contact": {"phone_number": "+4930", "first_name": "Ada", "last_name": "L."}}, "Contact: Ada L., +4930"),
        ({"poll": {"question": "Red?", "options": [{"text": "yes"}, {"text": "no"}]}}, "Poll: Red?\n- yes\n- no"),
    ],
)
def test_places_contacts_and_polls_become_words(fields, text):
    found = read(private_update(1, "", **fields))
    assert (found.text, found.unreadable) == (text, "")


THUMB, HEART = {"type": "emoji", "emoji": "👍"}, {"type": "emoji", "emoji": "❤"}


@pytest.mark.parametrize(
    ("old", "new", "emoji", "is_removed"),
    [([], [THUMB], "👍", False), ([THUMB], [HEART], "❤", False), ([THUMB], [], "👍", True)],
)
def test_a_reaction_and_its_removal(old, new, emoji, is_removed):
    who = {"id": 501, "is_bot": False, "first_name": "Zoë"}
    change = {"chat": {"id": 501, "type": "private"}, "message_id": 7, "user": who, "date": 1_780_000_000}
    update = {"update_id": 1, "message_reaction": {**change, "old_reaction": old, "new_reaction": new}}
    assert read(update) == Reaction("7", "501", Chat("501"), emoji, is_removed)
    anonymous = {**change, "user": None, "old_reaction": old, "new_reaction": new}
    assert isinstance(read({"update_id": 2, "message_reaction": anonymous}), Ignored)
