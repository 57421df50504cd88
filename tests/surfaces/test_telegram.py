"""Telegram against an emulated Bot API: by long polling, and by a webhook, which it does not sign."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.contrib.auth.models import User

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel.errors import AppError
from sessions_app.channels import accounts
from sessions_app.models import ChannelAccount, Delivery, InboundMessage, Pairing
from sessions_app.platforms.adapters.telegram.adapter import Telegram
from tests.fakes.telegram import TOKEN
from tests.support.approvals import Launch, wants_to_launch
from tests.support.channels import TELEGRAM_SECRET, open_to_everyone, settle
from tests.support.connections import SocketsThread
from tests.support.engine import EngineRig, until
from tests.support.webhook_relay import WebhookRelay
from tests.surfaces import npm
from tools_app.registry import tools

pytestmark = [pytest.mark.npm, pytest.mark.django_db(transaction=True)]

PERSON, GROUP, USERNAME = 501, -100777, "TestNameBot"


class Server:
    """The emulated server, as a person uses it. url: of the Bot API."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def _post(self, path: str, data: dict[str, Any]) -> Any:
        answer = httpx2.post(f"{self.url}/{path}", json=data, timeout=60).json()
        assert answer["ok"], answer
        return answer["result"]

    def write(self, text: str, chat: int = PERSON, **fields: Any) -> None:
        """Write to the bot. The server answers before the bot has it."""
        self._post("sendMessage", {**self._place(chat), "text": text, **fields})

    def press(self, data: str) -> None:
        place = self._place(PERSON)
        message = {"chat": place["chat"], "message_id": 1}
        self._post("sendCallback", {"botToken": TOKEN, "from": place["from"], "message": message, "data": data})

    @staticmethod
    def _place(chat: int) -> dict[str, Any]:
        who = {"id": PERSON, "first_name": "Zoë", "is_bot": False}
        kind = {"type": "private"} if chat > 0 else {"type": "supergroup", "title": "Team"}
        return {"botToken": TOKEN, "date": int(time.time()), "from": who, "chat": {"id": chat, **kind}}

    def shown(self, chat: int = PERSON) -> list[dict[str, Any]]:
        """Return the messages that the bot shows in a chat, oldest first."""
        history = self._post("getUpdatesHistory", {"token": TOKEN})
        messages = [entry.get("message", {}) for entry in history]  # those of people have no `chat_id`
        return [message for message in messages if int(message.get("chat_id", 0)) == chat]

    def texts(self, chat: int = PERSON) -> list[str]:
        return [message["text"] for message in self.shown(chat)]


@pytest.fixture
def telegram(npm_folder: Path) -> Iterator[Server]:
    """Yield a server of its own: it forgets nothing between tests."""
    with npm.serve(npm_folder, "telegram.mjs") as port:
        yield Server(port)


@pytest.fixture(scope="module")
def npm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("telegram")
    npm.install(folder, "telegram-test-api@4.2.1")
    return folder


@pytest.fixture
def sockets(rig: EngineRig) -> Iterator[SocketsThread]:
    with SocketsThread() as thread:
        yield thread


def add(telegram: Server, receive: str = "polling", **options: Any) -> ChannelAccount:
    config = {"api_url": telegram.url, "bot_username": USERNAME, "chat_seconds": 0.1, "receive": receive, **options}
    secrets = {"bot_token": TOKEN, "webhook_secret": TELEGRAM_SECRET}
    account, _ = accounts.add_account("telegram", "main", config=config, secrets=secrets, **open_to_everyone({}))
    return account


def test_a_message_is_fetched_and_answered_once(rig: EngineRig, telegram: Server, sockets: SocketsThread) -> None:
    rig.agent(Reply(("Hello **Zoë** <b>",)), Reply(("again",)))
    add(telegram)  # this server has no drafts and no typing: the answer comes all the same
    telegram.write("Grüße & co <b> 👋")
    assert settle(rig) == ["sent"] and telegram.texts() == ["Hello <b>Zoë</b> &lt;b&gt;"]
    telegram.write("and now?")
    assert settle(rig, 2) == ["sent"] * 2 and telegram.texts()[1:] == ["again"]
    rows = InboundMessage.objects.order_by("id").values_list("text", "sender_name")
    assert list(rows) == [("Grüße & co <b> 👋", "Zoë"), ("and now?", "Zoë")] and Run.objects.count() == 2


def test_an_answer_in_a_group_is_edited_until_it_is_whole(
    rig: EngineRig, telegram: Server, sockets: SocketsThread
) -> None:
    rig.agent(Reply(tuple(f"piece {number} " for number in range(10)), delay_seconds=0.1))
    add(telegram)
    telegram.write("for nobody", GROUP)
    mention = f"@{USERNAME} hi"
    telegram.write(mention, GROUP, entities=[{"type": "mention", "offset": 0, "length": len(USERNAME) + 1}])
    assert settle(rig) == ["sent"]
    assert telegram.texts(GROUP) == [" ".join(f"piece {number}" for number in range(10))]
    assert InboundMessage.objects.get(reason="").text == "hi"


def test_a_button_decides_an_approval(
    rig: EngineRig, telegram: Server, sockets: SocketsThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Launch, "launched", [])
    wants_to_launch(rig)
    with tools.override(Launch()):
        account = add(telegram, approvers=[str(PERSON)], drafts=False)
        Pairing.objects.create(account=account, sender_id=str(PERSON), user=User.objects.create_superuser("zoe"))
        telegram.write("launch it")
        until(lambda: Delivery.objects.filter(kind="approval", status="sent").exists())
        [shown] = [message for message in telegram.shown() if message.get("reply_markup")]
        buttons = {key["text"]: key["callback_data"] for row in shown["reply_markup"]["inline_keyboard"] for key in row}
        telegram.press(buttons["Allow once"])
        until(lambda: Run.objects.get().status == "completed")


def test_a_server_that_answers_at_once_is_not_asked_without_end(
    rig: EngineRig, telegram: Server, sockets: SocketsThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = count_polls(monkeypatch)
    add(telegram)
    until(lambda: asked, 20)
    begun, before = time.monotonic(), len(asked)
    until(lambda: time.monotonic() - begun > 2)
    assert len(asked) - before <= 2 * (time.monotonic() - begun) + 1


def count_polls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with each request for updates."""
    asked, request = [], Telegram._request

    async def counted(self: Telegram, method: str, **content: Any) -> Any:
        if method == "getUpdates":
            asked.append(method)
        return await request(self, method, **content)

    monkeypatch.setattr(Telegram, "_request", counted)
    return asked


def test_a_webhook_without_the_secret_is_refused_and_with_it_answered(
    rig: EngineRig, telegram: Server, settings: Any
) -> None:
    """The emulated server leaves out the secret that it was given: the relay adds it."""
    rig.agent(Reply(("fine",)))
    settings.KOMAND_PUBLIC_URL = "https://gateway.example"
    account = add(telegram, receive="webhook")
    with pytest.raises(AppError):  # it does not report on webhooks
        accounts.try_out(account)
    secret = {"x-telegram-bot-api-secret-token": TELEGRAM_SECRET}
    for headers, status in (({}, 401), (secret, 200)):
        with WebhookRelay(lambda body, headers=headers: headers) as relay:
            hook = {"url": f"{relay.url}/channels/telegram/main/webhook"}
            httpx2.post(f"{telegram.url}/bot{TOKEN}/setWebhook", json=hook, timeout=60).raise_for_status()
            telegram.write("hi")
            until(lambda seen=relay.answers: seen)
            assert relay.answers[0][0] == status
    assert settle(rig) == ["sent"] and telegram.texts() == ["fine"] and InboundMessage.objects.count() == 1
