"""Slack against an emulated workspace: its events reach the gateway, answers are posted, edited and shared there."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from sessions_app.channels import accounts
from sessions_app.models import ChannelAccount, Delivery, Feedback, InboundMessage, Session
from tests.fakes.slack import BOT_TOKEN, SIGNING_SECRET
from tests.support.channels import open_to_everyone, settle
from tests.support.engine import EngineRig, until
from tests.support.slack import PATH
from tests.support.webhook_relay import WebhookRelay
from tests.surfaces import npm
from tools_app.types import ToolCall

pytestmark = [pytest.mark.npm, pytest.mark.django_db(transaction=True)]

BOT, CHANNEL = "UKOMAND01", "C000000001"


class Workspace:
    """The emulated workspace, as a member of it uses it. url: of its Web API."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/api"

    def call(self, method: str, **fields: Any) -> Any:
        headers = {"authorization": "Bearer xoxp-ada"}
        answer = httpx2.post(f"{self.url}/{method}", json=fields, headers=headers, timeout=60).json()
        assert answer["ok"], (method, answer)
        return answer

    def write(self, text: str, channel: str = BOT, **fields: Any) -> tuple[str, str]:
        """Post a message, by default to the app itself. Return its channel and ts."""
        posted = self.call("chat.postMessage", channel=channel, text=text, **fields)
        return posted["channel"], posted["ts"]

    def texts(self, channel: str, thread: str = "") -> list[str]:
        """Return the texts of the bot in a channel or thread, oldest first, as Markdown."""
        method, place = ("conversations.replies", {"ts": thread}) if thread else ("conversations.history", {})
        messages = self.call(method, channel=channel, **place)["messages"]
        own = sorted((message for message in messages if message["user"] == BOT), key=lambda message: message["ts"])
        return [message["blocks"][0]["text"] if message.get("blocks") else message["text"] for message in own]


@pytest.fixture(scope="module")
def relay() -> Iterator[WebhookRelay]:
    with WebhookRelay() as server:
        yield server


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, relay: WebhookRelay) -> Iterator[Workspace]:
    folder = tmp_path_factory.mktemp("slack")
    npm.install(folder, "emulate@0.12.2")
    with npm.serve(folder, "slack.mjs", f"{relay.url}{PATH}", BOT_TOKEN, SIGNING_SECRET) as port:
        yield Workspace(port)


@pytest.fixture
def add(workspace: Workspace, relay: WebhookRelay) -> Callable[..., ChannelAccount]:
    """Add the account and test it, which learns the ids of the workspace and the bot."""
    relay.answers.clear()

    def add_account(signing_secret: str = SIGNING_SECRET, **config: Any) -> ChannelAccount:
        config = {"api_url": workspace.url, "receive": "webhook", "chat_seconds": 0.1, **config}
        secrets = {"bot_token": BOT_TOKEN, "signing_secret": signing_secret}
        account, _ = accounts.add_account("slack", "main", config=config, secrets=secrets, **open_to_everyone({}))
        assert "@komand in Emulate" in accounts.try_out(account).lines[0]
        return account

    return add_account


def test_a_message_is_answered_once_by_a_message_that_grows(
    rig: EngineRig, workspace: Workspace, relay: WebhookRelay, add: Callable[..., ChannelAccount]
) -> None:
    rig.agent(Reply(("Hello ", "**Ada**", " & co"), delay_seconds=0.3))
    add()
    config = ChannelAccount.objects.get().config
    assert (config["bot_user_id"], config["team_id"]) == (BOT, "T000000001")
    channel, _ = workspace.write("Grüße &amp; co &lt;b&gt;")  # as clients write it
    assert settle(rig) == ["sent"]
    assert workspace.texts(channel) == ["Hello **Ada** & co"]
    until(lambda: InboundMessage.objects.get().sender_name == "Ada")
    assert InboundMessage.objects.get().text == "Grüße & co <b>"
    # The workspace also reports our own message, its edits, and the conversation: nothing answers those.
    assert len(relay.answers) > 3 and {status for status, _ in relay.answers} == {200}
    assert Run.objects.count() == Session.objects.count() == 1


def test_a_mention_is_answered_in_its_thread_with_a_file(
    rig: EngineRig, workspace: Workspace, add: Callable[..., ChannelAccount]
) -> None:
    file = ToolCall("c1", "write_artifact", json.dumps({"path": "out/a.csv", "content": "a;b"}))
    rig.agent(Reply(("One moment.",), tool_calls=(file,)), Reply(("Done.",), delay_seconds=0.3))
    add()  # this workspace streams nothing: the message is edited
    workspace.write("hello everybody", CHANNEL)
    _, ts = workspace.write(f"<@{BOT}> a file, please", CHANNEL)
    assert settle(rig, 2) == ["sent", "sent"]
    assert InboundMessage.objects.get().text == "a file, please"
    assert "One moment.\n\nDone." in workspace.texts(CHANNEL, ts)
    assert Delivery.objects.get(part=1).provider_message_id
    [shared] = workspace.call("files.list", channel=CHANNEL)["files"]
    assert shared["name"] == "a.csv" and shared["size"] == 3
    # In that thread, the session goes on.
    workspace.write(f"and again <@{BOT}>?", CHANNEL, thread_ts=ts)
    settle(rig, 3)
    assert Session.objects.get().key == f"Slack:main:{CHANNEL}:{ts}" and Run.objects.count() == 2


def test_reactions_to_an_answer_are_feedback(
    rig: EngineRig, workspace: Workspace, add: Callable[..., ChannelAccount]
) -> None:
    rig.agent(Reply(("fine",)))
    add(previews="none")
    channel, _ = workspace.write("how are you?")
    settle(rig)
    place = {"channel": channel, "timestamp": Delivery.objects.get().provider_message_id, "name": "+1"}
    workspace.call("reactions.add", **place)
    assert Feedback.objects.get().rating == "UP"
    workspace.call("reactions.remove", **place)
    assert not Feedback.objects.exists()


def test_events_with_another_signature_start_nothing(
    rig: EngineRig, workspace: Workspace, relay: WebhookRelay, add: Callable[..., ChannelAccount]
) -> None:
    add("another-secret-0123")
    workspace.write("hi")
    assert {status for status, _ in relay.answers} == {401} and not InboundMessage.objects.exists()
