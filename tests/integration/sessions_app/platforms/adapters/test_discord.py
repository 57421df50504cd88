"""Discord from a message to its answer: over the Gateway and by interactions, with previews, files and buttons."""

import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from sessions_app.channels import accounts
from sessions_app.channels.connections import condition
from sessions_app.models import ChannelAccount, ChannelConnection, Delivery, InboundMessage, Pairing, Session
from sessions_app.platforms.adapters.discord.adapter import Discord
from tests.fakes.discord import (
    APPLICATION_ID,
    CHANNEL,
    PUBLIC_KEY,
    TOKEN,
    FakeDiscord,
    ask_interaction,
    message_event,
    press_interaction,
    signed_headers,
)
from tests.fakes.http_server import Fault
from tests.support.approvals import Launch, wants_to_launch
from tests.support.channels import in_steps, open_to_everyone, post, settle
from tests.support.connections import SocketsThread
from tests.support.engine import EngineRig, until
from tools_app.registry import tools
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

PATH = "/channels/discord/main/webhook"


@pytest.fixture
def discord() -> Iterator[FakeDiscord]:
    with FakeDiscord() as server:
        yield server


@pytest.fixture
def sockets(short_pauses: None, valkey: object) -> Iterator[SocketsThread]:
    with SocketsThread() as thread:
        yield thread


def add(server: FakeDiscord, **options: Any) -> ChannelAccount:
    names = {"application_id": APPLICATION_ID, "public_key": PUBLIC_KEY, "bot_user_id": "901"}
    config = {"api_url": f"{server.url}/api/v10", "chat_seconds": 0.05, **names, **options.pop("config", {})}
    account, _ = accounts.add_account(
        "discord", "main", config=config, secrets={"bot_token": TOKEN}, **open_to_everyone(options)
    )
    return account


def interact(data: Any) -> tuple[int, Any]:
    body = json.dumps(data).encode()
    return post(PATH, body, signed_headers(body))


def described() -> condition.Condition | None:
    return condition.describe(ChannelAccount.objects.get())


def test_a_mention_is_answered_with_a_preview_and_a_file(
    rig: EngineRig, discord: FakeDiscord, sockets: SocketsThread
) -> None:
    file = ToolCall("c1", "write_artifact", json.dumps({"path": "out/a.csv", "content": "a;b"}))
    held = threading.Event()
    rig.agent(Reply(("One moment.",), tool_calls=(file,)), Reply(("Done ", "**now**."), held_by=held))
    add(discord)
    discord.queue(message_event(1, "not for us", guild_id="5", channel="7"))
    discord.queue(message_event(2, "a file, <@901>", guild_id="5", channel="7"))
    until(lambda: discord.shown("7") == ["One moment.\n\nDone"])
    held.set()
    assert settle(rig) == ["sent", "sent"]
    assert discord.shown("7") == ["One moment.\n\nDone **now**."]
    assert Session.objects.get().key == "Discord:main:7" and InboundMessage.objects.count() == 1
    assert any(method == "PATCH" for method, _ in discord.calls) and ("POST", "/channels/7/typing") in discord.calls
    assert discord.bodies[0]["message_reference"]["message_id"] == str(10**17 + 2)
    [upload] = discord.uploads
    assert b'filename="a.csv"' in upload and b"a;b" in upload


def test_a_command_by_webhook_is_acknowledged_and_its_answer_takes_the_place(
    rig: EngineRig, discord: FakeDiscord
) -> None:
    rig.agent(Reply(("fine",)))
    add(discord)
    discord.thinking.add("token-1")
    assert interact(ask_interaction(1, "hi")) == (200, {"type": 5})
    assert interact(ask_interaction(1, "hi")) == (200, {"type": 5})
    assert settle(rig) == ["sent"] and discord.shown() == ["fine"] and not discord.thinking
    assert interact({"type": 1}) == (200, {"type": 1})
    body = json.dumps(ask_interaction(2, "hi")).encode()
    assert post(PATH, body, {**signed_headers(body), "x-signature-ed25519": "00" * 64})[0] == 401


def test_a_command_over_the_gateway_is_acknowledged_and_a_late_answer_is_a_message(
    rig: EngineRig, discord: FakeDiscord, sockets: SocketsThread
) -> None:
    rig.agent(Reply(("fine",)))
    add(discord, config={"previews": "none"})
    discord.queue(ask_interaction(1, "hi"), "INTERACTION_CREATE")
    settle(rig)
    until(lambda: discord.responses == {"token-1": 5})
    assert discord.shown() == ["fine"]


def test_a_button_decides_an_approval(
    rig: EngineRig, discord: FakeDiscord, sockets: SocketsThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Launch, "launched", [])
    wants_to_launch(rig)
    with tools.override(Launch()):
        account = add(discord, config={"approvers": ["501"], "previews": "none"})
        Pairing.objects.create(account=account, sender_id="501", user=User.objects.create_superuser("zoe"))
        discord.queue(message_event(1, "launch it"))
        prompt = until(lambda: Delivery.objects.filter(kind="approval", status="sent").first())
        card = prompt.provider_message_id
        discord.queue(press_interaction(2, discord.buttons[card]["Allow once"], card), "INTERACTION_CREATE")
        until(lambda: discord.hidden == ["Allowed once."])
        until(lambda: Run.objects.get().status == "completed" and not discord.buttons[card])
        assert discord.responses == {"token-2": 6}


def test_a_prompt_of_a_command_does_not_take_the_place_of_its_answer(
    rig: EngineRig, discord: FakeDiscord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Launch, "launched", [])
    wants_to_launch(rig)
    with tools.override(Launch()):
        account = add(discord, config={"approvers": ["501"], "previews": "none"})
        Pairing.objects.create(account=account, sender_id="501", user=User.objects.create_superuser("zoe"))
        discord.thinking.add("token-1")
        interact(ask_interaction(1, "launch it"))
        card = until(lambda: Delivery.objects.filter(kind="approval", status="sent").first()).provider_message_id
        assert discord.thinking == {"token-1"}
        interact(press_interaction(2, discord.buttons[card]["Allow once"], card))
        until(lambda: not discord.thinking and not discord.buttons[card])
        assert len(discord.shown()) == 2 and "Over." in discord.messages[CHANNEL][discord.originals["token-1"]]


def test_a_resumed_session_knows_the_mentions_of_a_bot_that_was_never_tested(
    rig: EngineRig, discord: FakeDiscord, sockets: SocketsThread
) -> None:
    rig.agent(Reply(("one",)))
    add(discord, config={"previews": "none", "bot_user_id": ""})
    until(lambda: ChannelConnection.objects.exclude(cursor="").exists())
    discord.socket.cut()
    until(lambda: discord.resumed)
    discord.queue(message_event(1, "hi <@901>", guild_id="5", channel="7"))
    assert settle(rig) == ["sent"] and len(discord.identified) == 1


def test_a_mention_of_the_role_of_the_bot_is_answered(
    rig: EngineRig, discord: FakeDiscord, sockets: SocketsThread
) -> None:
    rig.agent(Reply(("fine",)))
    add(discord, config={"previews": "none"})
    until(lambda: ChannelConnection.objects.exclude(cursor="").exists())
    for number, role in enumerate(("77", "78", "77"), start=1):
        discord.queue(message_event(number, f"<@&{role}> hi", channel="7", guild_id="1", mention_roles=[role]))
    assert settle(rig, 2) == ["sent"] * 2
    assert [row.text for row in InboundMessage.objects.order_by("id")] == ["hi", "hi"]
    assert discord.calls.count(("GET", "/guilds/1/roles")) == 1


def test_a_long_answer_grows_as_a_sequence_of_messages(
    rig: EngineRig, discord: FakeDiscord, sockets: SocketsThread
) -> None:
    words, held = [f"word{number}" for number in range(600)], threading.Event()
    pieces = [" ".join(words[start : start + 50]) + " " for start in range(0, 600, 50)]
    rig.agent(Reply((*pieces, "end."), held_by=held, delay_seconds=0.1))
    add(discord)
    until(lambda: ChannelConnection.objects.exclude(cursor="").exists())
    discord.queue(message_event(1, "hi"))
    until(lambda: len(discord.shown()) == 3 and "word590" in discord.shown()[2])
    held.set()
    assert settle(rig, 3) == ["sent"] * 3
    assert " ".join(discord.shown()).split() == [*words, "end."]


def test_finished_texts_are_messages_of_their_own_if_configured(
    rig: EngineRig, discord: FakeDiscord, sockets: SocketsThread
) -> None:
    replies, held = in_steps("Let me look.", "Found it.")
    rig.agent(*replies)
    add(discord, config={"previews": "multi_message"})
    discord.queue(message_event(1, "hi"))
    held[0].set()
    until(lambda: discord.shown() == ["Let me look."])
    held[1].set()
    assert settle(rig, 2) == ["sent", "sent"] and discord.shown() == ["Let me look.", "Found it."]


@pytest.mark.parametrize(("status", "outcome", "enabled"), [(403, "failed", True), (401, "failed", False)])
def test_refusals_end_a_delivery(
    rig: EngineRig, discord: FakeDiscord, sockets: SocketsThread, status: int, outcome: str, enabled: bool
) -> None:
    rig.agent(Reply(("fine",)))
    add(discord, config={"previews": "none"})
    discord.faults.append(Fault("status", status, only=f"/channels/{CHANNEL}/messages"))
    discord.queue(message_event(1, "hi"))
    assert settle(rig) == [outcome]
    until(lambda: ChannelAccount.objects.get().is_enabled is enabled)


def test_a_connection_that_is_cut_is_resumed_without_loss(
    rig: EngineRig, discord: FakeDiscord, sockets: SocketsThread
) -> None:
    rig.agent(Reply(("one",)), Reply(("two",)))
    add(discord, config={"previews": "none"})
    discord.queue(message_event(1, "hi"))
    settle(rig)
    discord.socket.cut()
    discord.queue(message_event(1, "hi"))
    discord.queue(message_event(2, "and now?"))
    settle(rig, 2)
    assert discord.shown() == ["one", "two"] and Run.objects.count() == 2
    assert discord.resumed >= 1 and len(discord.identified) == 1


def test_the_token_is_never_logged(
    rig: EngineRig, discord: FakeDiscord, sockets: SocketsThread, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    rig.agent(Reply(("one",)))
    add(discord, config={"previews": "none"})
    discord.queue(message_event(1, "hi"))
    settle(rig)
    assert discord.identified and TOKEN not in "".join(
        record.getMessage() for record in caplog.records if record.name != "websockets.server"
    ), "the server is a part of the test"


def test_a_connection_without_heartbeats_is_replaced(
    rig: EngineRig, discord: FakeDiscord, sockets: SocketsThread
) -> None:
    rig.agent(Reply(("one",)))
    discord.heartbeat_ms, discord.is_deaf = 50, True
    add(discord, config={"previews": "none"})
    until(lambda: discord.socket.connections >= 2)
    discord.is_deaf = False
    discord.queue(message_event(1, "hi"))
    settle(rig)
    assert discord.shown() == ["one"]


@pytest.mark.parametrize(("code", "remedy"), [(4004, "bot_token"), (4014, "Message Content Intent")])
def test_what_only_an_operator_can_mend_needs_attention(
    rig: EngineRig, discord: FakeDiscord, sockets: SocketsThread, code: int, remedy: str
) -> None:
    discord.close_code = code
    add(discord)
    found = until(lambda: (now := described()) and "attention" in now.text and now)
    assert remedy in found.text and TOKEN not in found.text


def test_a_session_that_discord_has_forgotten_begins_anew(
    rig: EngineRig, discord: FakeDiscord, sockets: SocketsThread
) -> None:
    add(discord)
    until(lambda: ChannelConnection.objects.exclude(cursor="").exists())
    discord.close_code = 4009
    discord.socket.cut()
    until(lambda: ChannelConnection.objects.get().cursor == "")
    discord.close_code = 0
    until(lambda: len(discord.identified) == 2)


def test_no_connection_is_opened_when_none_is_left_for_today(
    rig: EngineRig, discord: FakeDiscord, sockets: SocketsThread
) -> None:
    discord.starts_left = 0
    add(discord)
    until(lambda: "no further connection" in ((now := described()) and now.text or ""))
    assert not discord.identified


def test_the_test_registers_commands_and_shows_the_invitation(valkey: object, discord: FakeDiscord) -> None:
    account = add(discord, config={"public_key": ""})
    lines = accounts.try_out(account).lines
    assert "client_id=900" in lines[1] and [one["name"] for one in discord.commands][:2] == ["ask", "new"]
    options = {one["name"]: one["options"][0]["required"] for one in discord.commands if "options" in one}
    assert options == {"ask": True, "agent": False, "agents": False, "link": True}
    assert ChannelAccount.objects.get().config["public_key"] == PUBLIC_KEY
    assert Discord.silent_seconds == 90.0
