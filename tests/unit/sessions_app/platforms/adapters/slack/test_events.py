"""Slack's payloads, as Slack sends them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sessions_app.platforms.account_settings import AccountSettings
from sessions_app.platforms.adapters.slack.adapter import Slack
from sessions_app.platforms.adapters.slack.events import Bot, decode, read_payload
from sessions_app.platforms.base import NotReadable, VerificationFailed, WebhookRequest
from sessions_app.platforms.messages import (
    ButtonPress,
    ChannelMessage,
    Chat,
    Ignored,
    MessageDeleted,
    MessageEdited,
    OfAccount,
    ProfileChange,
    Quoted,
    Reaction,
)
from tests.fakes.slack import (
    APP_ID,
    BOT_USER,
    SIGNING_SECRET,
    TEAM_ID,
    event_payload,
    message_payload,
    press_payload,
    signed_headers,
)

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
BOT = Bot(APP_ID, TEAM_ID, BOT_USER)


def read(payload: Any, bot: Bot = BOT) -> Any:
    return read_payload(payload, bot, NOW)


def message(text: str = "hi", **extra: Any) -> ChannelMessage:
    found = read(message_payload(1, text, **extra))
    assert isinstance(found, ChannelMessage)
    return found


def test_a_direct_message() -> None:
    found = message("Zoë &lt;3 &amp; co", client_msg_id="c-1")
    assert (found.text, found.sender_id, found.chat) == ("Zoë <3 & co", "501", Chat("D501"))
    assert found.message_id == "D501:1780000001.000100"
    assert found.keys == ("event:Ev1", "message:D501:1780000001.000100", "client:c-1")
    assert found.is_addressed and found.sent_at == datetime.fromtimestamp(1_780_000_001, UTC)


def test_a_mention_in_a_channel_opens_a_thread_and_is_cut_out() -> None:
    found = message(f"hello <@{BOT_USER}> you", channel="C1")
    assert (found.text, found.chat, found.is_addressed) == ("hello you", Chat("C1", "group", "1780000001.000100"), True)
    further = message("more", channel="C1", thread_ts="1780000001.000100")
    assert further.chat == found.chat and not further.is_addressed
    assert message("more", channel="C1", thread_ts="17.1", parent_user_id=BOT_USER).is_addressed


def test_a_message_and_its_mention_event_share_a_key() -> None:
    one = message(f"<@{BOT_USER}> hi", channel="C1")
    mention = message_payload(2, f"<@{BOT_USER}> hi", channel="C1", ts="1780000001.000100", type="app_mention")
    del mention["event"]["channel_type"]
    other = read(mention)
    assert set(one.keys) & set(other.keys) and other.chat == one.chat


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<@U1|zoe> and <@U2>", "@zoe and @U2"),
        ("<#C1|general> <!here> <!channel>", "#general @here @channel"),
        ("<!subteam^S1|@team> <!date^1^{date}|yesterday>", "@team yesterday"),
        (
            "<https://a.example|A> <https://b.example> <mailto:a@b.c|a@b.c>",
            "[A](https://a.example) https://b.example [a@b.c](mailto:a@b.c)",
        ),
        ("1 &lt; 2 &amp;&amp; 3 &gt; 2, &amp;lt;", "1 < 2 && 3 > 2, &lt;"),
    ],
)
def test_escapes_are_decoded(text: str, shown: str) -> None:
    assert decode(text) == shown


def test_files_of_a_message() -> None:
    file = {
        "id": "F1",
        "name": "a.png",
        "mimetype": "image/png",
        "size": 3,
        "url_private_download": "https://files.slack.com/x",
    }
    found = message("", subtype="file_share", files=[file, {"id": "F2", "mode": "tombstone"}])
    [only] = found.attachments
    assert (only.kind, only.filename, only.size_bytes, only.url) == ("image", "a.png", 3, "https://files.slack.com/x")


@pytest.mark.parametrize(
    "extra",
    [
        {"bot_id": "B2"},
        {"user": BOT_USER},
        {"user": "USLACKBOT"},
        {"hidden": True},
        {"subtype": "channel_join"},
        {"subtype": "bot_message"},
        {"user": None},
        {"ts": 7},
        {"files": [{"id": "F", "size": "big"}]},
        {"files": [{"id": "F", "name": 7}]},
        {"thread_ts": 7},
    ],
)
def test_what_is_not_for_us_is_ignored(extra: dict[str, Any]) -> None:
    assert isinstance(read(message_payload(1, "hi", **extra)), Ignored)


def test_a_known_bot_may_talk_to_us() -> None:
    found = read(message_payload(1, "hi", bot_id="B2"), Bot(known_bots=frozenset({"B2"})))
    assert isinstance(found, ChannelMessage) and found.is_from_bot


def test_payloads_of_another_app_are_ignored() -> None:
    assert read({**message_payload(1, "hi"), "api_app_id": "A2"}) == Ignored("another_app")


OTHER = {"team_id": "T2", "user_id": "UBOT2", "is_bot": True}
ORG = {"team_id": "T2", "enterprise_id": "E1", "user_id": "UBOT2", "is_bot": True, "is_enterprise_install": True}


@pytest.mark.parametrize(("install", "value"), [(OTHER, "T2"), ({**OTHER, "enterprise_id": "E1"}, "T2"), (ORG, "E1")])
def test_payloads_of_another_install_are_for_its_account(install: dict[str, Any], value: str) -> None:
    payload = {**message_payload(1, "<@UBOT2> hi", channel="C1"), "team_id": "T1", "authorizations": [install]}
    found = read(payload)
    assert isinstance(found, OfAccount) and found.value == value
    assert isinstance(found.event, ChannelMessage) and found.event.mentions_bot and found.event.text == "hi"
    assert isinstance(read(payload, Bot(APP_ID, value)), ChannelMessage), "it is that account's own"
    own = {"team_id": "T1", "user_id": "UBOT", "is_bot": True}
    assert isinstance(read({**payload, "team_id": "T2", "authorizations": [own]}), ChannelMessage)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ({"team_id": "T2"}, "T2"),
        ({"team_id": "T2", "enterprise_id": "E1", "is_enterprise_install": "true"}, "E1"),
        ({"team_id": "T2", "enterprise_id": "E1", "is_enterprise_install": "false"}, "T2"),
    ],
)
def test_commands_and_presses_of_another_install_are_for_its_account(place: dict[str, str], value: str) -> None:
    form = {"command": "/komand", "text": "x", "channel_id": "C1", "user_id": "501", "trigger_id": "t"}
    assert read({**form, "api_app_id": APP_ID, **place}).value == value
    press = {**press_payload(1, "apr:1:y", "17.2"), "team": {"id": "T2"}}
    assert read(press).value == "T2"


def test_edits_deletions_reactions_and_profiles() -> None:
    place = {"type": "message", "channel": "D501", "channel_type": "im"}
    written = {"user": "501", "ts": "17.1", "text": "new &amp; better", "edited": {"user": "501"}}
    assert read(event_payload(1, {**place, "subtype": "message_changed", "message": written})) == MessageEdited(
        "message:D501:17.1", "501", "new & better"
    )
    for own in ({**written, "bot_id": "B1"}, {**written, "edited": None}):
        assert isinstance(read(event_payload(1, {**place, "subtype": "message_changed", "message": own})), Ignored)
    assert read(event_payload(1, {**place, "subtype": "message_deleted", "deleted_ts": "17.1"})) == MessageDeleted(
        "message:D501:17.1"
    )
    item = {"type": "message", "channel": "D501", "ts": "17.2"}
    reaction = {"type": "reaction_added", "user": "501", "reaction": "+1", "item": item}
    assert read(event_payload(1, reaction)) == Reaction("17.2", "501", Chat("D501"), "+1")
    assert read(event_payload(1, {**reaction, "type": "reaction_removed"})).is_removed
    assert isinstance(read(event_payload(1, {**reaction, "user": BOT_USER})), Ignored)
    user = {"id": "501", "profile": {"display_name": "", "real_name": "Zoë"}}
    assert read(event_payload(1, {"type": "user_change", "user": user})) == ProfileChange("501", "Zoë")


def test_a_pressed_button() -> None:
    found = read(press_payload(1, "apr:1:y", "17.2", url="https://hooks.slack.com/actions/1"))
    assert isinstance(found, ButtonPress)
    assert (found.action_id, found.sender_id, found.sender_name, found.chat.id) == ("apr:1:y", "501", "zoe", "D501")
    assert found.reference["response_url"] == "https://hooks.slack.com/actions/1"


@pytest.mark.parametrize(
    ("text", "meant"), [("new", "/new"), ("", "/help"), ("tell me", "tell me"), ("stop now", "/stop now")]
)
def test_a_slash_command(text: str, meant: str) -> None:
    form = {
        "command": "/komand",
        "text": text,
        "channel_id": "C1",
        "user_id": "501",
        "trigger_id": "t",
        "api_app_id": APP_ID,
    }
    found = read(form)
    assert (found.text, found.chat, found.is_addressed) == (meant, Chat("C1", "group"), True)
    assert found.mentions_bot, "it is for us also where only mentions are answered"


@pytest.mark.parametrize("payload", [None, 7, "text", [], {}, {"type": "event_callback"}, {"type": "block_actions"}])
def test_any_nonsense_is_ignored(payload: Any) -> None:
    assert isinstance(read(payload, Bot()), Ignored)


def adapter(**config: Any) -> Slack:
    secrets = {"bot_token": "xoxb-1", "app_token": "xapp-1", "signing_secret": SIGNING_SECRET}
    return Slack(AccountSettings("a", {"receive": "webhook", **config}, secrets))


def test_the_handshake_is_answered() -> None:
    body = b'{"type": "url_verification", "challenge": "c-1", "token": "x"}'
    request = WebhookRequest(body, {"content-type": ["application/json"]})
    slack = adapter()
    assert slack.acknowledge(request, slack.parse(request, NOW)).body == {"challenge": "c-1"}


def test_forms_are_read() -> None:
    kind = {"content-type": ["application/x-www-form-urlencoded"]}
    slack = adapter()
    assert isinstance(
        slack.parse(WebhookRequest(b"payload=%7B%22type%22%3A%22view_closed%22%7D", kind), NOW)[0], Ignored
    )
    assert slack.parse(WebhookRequest(b"ssl_check=1&token=x", kind), NOW) == [Ignored("ssl_check")]
    for body in (b"payload=%7B", b"a=b", b"payload=%ff"):
        with pytest.raises(NotReadable):
            slack.parse(WebhookRequest(body, kind), NOW)


@pytest.mark.parametrize("seconds", [-301, 301])
def test_old_and_future_requests_are_refused(seconds: int) -> None:
    headers = signed_headers(b"{}", at=NOW.timestamp() + seconds)
    with pytest.raises(VerificationFailed):
        adapter().verify(WebhookRequest(b"{}", {name: [value] for name, value in headers.items()}), NOW)


def test_nothing_in_an_answer_notifies_anybody() -> None:
    [part] = adapter().render("<!channel> <@U1> `<!here>`", Chat("C1", "group"))
    assert not any(sign in part.body for sign in ("<!", "<@", "<#"))


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("https://files.slack.com/x", True),
        ("https://slack.com.evil.example/x", False),
        ("http://files.slack.com/x", False),
        ("https://evilslack.com/x", False),
        ("", False),
    ],
)
def test_the_token_goes_to_slack_alone(url: str, is_safe: bool) -> None:
    assert adapter()._is_of_slack(url) is is_safe


SHARED = {"is_share": True, "is_msg_unfurl": True, "author_name": "Bob", "author_id": "U2", "channel_id": "C9"}


@pytest.mark.parametrize(
    ("attachments", "quoted"),
    [
        ([], ()),
        (
            [{**SHARED, "text": "on <https://a.test|Friday>"}],
            (Quoted("on [Friday](https://a.test)", "Bob", is_forward=True),),
        ),
        ([{**SHARED, "fallback": "on Friday", "channel_id": "C1"}], (Quoted("on Friday", "Bob"),)),
        ([{**SHARED, "text": "x", "channel_id": "C1", "author_id": BOT_USER}], (Quoted("x", is_known=True),)),
        ([{"title": "A page", "text": "a preview of a link", "from_url": "https://a.test"}], ()),
    ],
)
def test_shared_messages(attachments: Any, quoted: Any) -> None:
    assert message("look", channel="C1", attachments=attachments).quoted == quoted


def test_a_shared_message_needs_no_text_of_its_own() -> None:
    assert message("", attachments=[{**SHARED, "text": "x"}]).carries_others
    assert not message("", attachments=[{**SHARED, "text": " "}]).carries_others


def test_threads_and_names_of_others() -> None:
    assert message("hi", channel="C1").thread_id == ""
    assert message("hi", channel="C1", thread_ts="17.1").thread_id == "17.1"
    assert not message(f"hi <@{BOT_USER}>", channel="C1").mentions_others
    assert message("hi <@U2|bob>", channel="C1").mentions_others
