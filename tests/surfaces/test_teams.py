"""Teams against Microsoft's playground for agents: its activities come to the webhook, it shows what is posted.

It signs nothing: the relay signs as the Bot Framework does.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx2
import pytest
from django.contrib.auth.models import User
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from sessions_app.channels import accounts
from sessions_app.models import ChannelAccount, InboundMessage, Pairing, Session
from tests.fakes.teams import PASSWORD, FakeTeams, headers_for
from tests.support.approvals import Launch, wants_to_launch
from tests.support.channels import open_to_everyone, settle
from tests.support.engine import EngineRig, until
from tests.support.webhook_relay import WebhookRelay
from tests.surfaces import npm

pytestmark = [pytest.mark.npm, pytest.mark.django_db(transaction=True)]

PACKAGE = "@microsoft/m365agentsplayground@0.2.28"
USER = "user-id-0"


class Playground:
    """The playground, as its page uses it. shown: the messages of the bot by id, each with its texts in order.

    typing: how often it showed that the bot is typing.
    """

    def __init__(self, port: int, socket: ClientConnection) -> None:
        self.url, self.shown, self.typing = f"http://127.0.0.1:{port}", dict[str, list[Any]](), 0
        self.config = httpx2.get(f"{self.url}/_internal/v1/config", timeout=60).json()["config"]
        self._socket = socket

    def read(self) -> None:
        """Read what is shown until the socket is closed."""
        with suppress(ConnectionClosed):
            for text in self._socket:
                event = json.loads(text)
                self.typing += event["action"] == "typing"
                if event["action"] in ("createMessage", "updateMessage"):
                    self.shown.setdefault(event["message"]["messageId"], []).append(event["message"])

    def texts(self) -> list[str]:
        """Return the texts that are shown last, oldest first."""
        return [versions[-1]["text"] for versions in self.shown.values()]

    def write(self, chat: str, text: str, **fields: Any) -> None:
        body = {"text": text, "textFormat": "plain", "from": {"id": USER}, **fields}
        self._post(f"/v1/conversations/{chat}/messages", body)

    def press(self, chat: str, message_id: str, action: dict[str, Any]) -> Any:
        place = {"from": {"id": USER}, "conversation": {"id": chat}, "replyToId": message_id}
        return self._post("/v1/invoke", {"name": "adaptiveCard/action", "value": {"action": action}, **place})

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        response = httpx2.post(f"{self.url}/_conversation{path}", json=body, timeout=60)
        assert response.is_success, response.text
        return response.json()


@pytest.fixture(scope="module")
def relay() -> Iterator[WebhookRelay]:
    with WebhookRelay() as server:
        yield server


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, relay: WebhookRelay) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("teams")
    npm.install(folder, PACKAGE)
    with npm.serve(folder, "teams.mjs", f"{relay.url}/channels/teams/main/webhook") as port:
        yield port


@pytest.fixture
def playground(port: int, relay: WebhookRelay) -> Iterator[Playground]:
    relay.sign = headers_for
    relay.answers.clear()
    with connect(f"ws://127.0.0.1:{port}/_ws_conversation/v1/conversations/stream") as socket:
        opened = Playground(port, socket)
        reading = threading.Thread(target=opened.read)
        reading.start()
        yield opened
    reading.join()


@pytest.fixture
def account(playground: Playground, settings: Any) -> Iterator[ChannelAccount]:
    """Yield an account whose tokens and keys come from a fake of Microsoft's log-in."""
    settings.KOMAND_PUBLIC_URL = "https://komand.example"
    with FakeTeams() as login:
        config = {**login.config, "tenants": [playground.config["tenantId"]], "approvers": [USER]}
        secrets = {"app_password": PASSWORD}
        yield accounts.add_account("teams", "main", config=config, secrets=secrets, **open_to_everyone({}))[0]


def test_an_answer_is_streamed_into_one_message(
    rig: EngineRig, playground: Playground, account: ChannelAccount
) -> None:
    held = threading.Event()
    rig.agent(Reply(("First **paragraph**.\n\n", "Second ", "paragraph.\n\nLast."), held_by=held))
    playground.write(playground.config["personalChat"]["id"], "Grüße & co 👋")
    until(lambda: playground.texts() == ["First **paragraph**."])
    held.set()
    assert settle(rig) == ["sent"]
    until(lambda: playground.texts() == ["First **paragraph**.\n\nSecond paragraph.\n\nLast."])
    assert next(iter(playground.shown.values()))[-1]["streamEntity"]["streamType"] == "final"
    row = InboundMessage.objects.get()
    assert (row.text, row.sender_name) == ("Grüße & co 👋", "Alex Wilber") and playground.typing


def test_a_mention_in_a_group_is_answered_once_without_the_name(
    rig: EngineRig, playground: Playground, account: ChannelAccount
) -> None:
    rig.agent(Reply(("Hello **Alex**",)))
    bot, chat = playground.config["bot"]["id"], playground.config["groupChats"][0]["id"]
    name = "<at>Test Bot</at>"
    playground.write(chat, f"{name} hi", mentions=[{"mentioned": {"id": bot}, "text": name}])
    assert settle(rig) == ["sent"]
    until(lambda: playground.texts() == ["Hello **Alex**"])
    assert InboundMessage.objects.get().text == "hi" and Session.objects.get().key.startswith("Teams:main:")


def test_a_button_of_a_card_decides_an_approval(
    rig: EngineRig, launch: None, playground: Playground, account: ChannelAccount
) -> None:
    wants_to_launch(rig)
    chat = playground.config["personalChat"]["id"]
    Pairing.objects.create(account=account, sender_id=USER, user=User.objects.create_superuser("alex"))
    playground.write(chat, "launch it")
    shown = until(lambda: [versions[-1] for versions in playground.shown.values() if versions[-1]["attachments"]])
    actions = {action["title"]: action for action in shown[0]["attachments"][0]["content"]["actions"]}
    answer = playground.press(chat, shown[0]["messageId"], actions["Allow once"])
    assert "Received." in json.dumps(answer)
    until(lambda: Run.objects.get().status == "completed")
    assert Launch.launched == ["moon"]


def test_activities_without_a_signature_are_refused(
    playground: Playground, account: ChannelAccount, relay: WebhookRelay
) -> None:
    relay.sign = lambda body: {}
    playground.write(playground.config["personalChat"]["id"], "hi")
    # The playground also reports its conversations, perhaps before the account is there.
    until(lambda: 401 in {status for status, _ in relay.answers})
    assert 200 not in {status for status, _ in relay.answers} and not InboundMessage.objects.exists()
