"""The SMS channel at an emulated Twilio: what it signs is verified, what it lists is read, what we send is taken."""

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest

from sessions_app.platforms.account_settings import AccountSettings
from sessions_app.platforms.adapters.sms.adapter import Sms
from sessions_app.platforms.base import SendError, VerificationFailed, WebhookRequest
from sessions_app.platforms.link import Received
from sessions_app.platforms.messages import ChannelMessage, Chat, DeliveryReport, Outgoing, Rendered, Target
from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer
from tests.fakes.twilio import ACCOUNT_SID, NUMBER, TOKEN
from tests.surfaces import npm

pytestmark = pytest.mark.npm

PERSON, TEXT = "+15551234567", "Grüße & co = 100 % 👋"


class Hook(FakeServer):
    """A webhook that keeps its requests."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[WebhookRequest] = []

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        headers = {name: [value] for name, value in request.headers.items()}
        path, _, query = request.path.partition("?")
        self.requests.append(WebhookRequest(request.body, headers, request.method, query))
        return 200, {"content-type": "text/xml"}, b"<Response/>"


@pytest.fixture(scope="module")
def hook() -> Iterator[Hook]:
    with Hook() as server:
        yield server


@pytest.fixture(scope="module")
def twilio(tmp_path_factory: pytest.TempPathFactory, hook: Hook) -> Iterator[str]:
    """Yield the address of a Twilio with our number, whose messages go to the hook."""
    folder = tmp_path_factory.mktemp("twilio")
    npm.install(folder, "emulate@0.12.2")
    shutil.copy(Path(__file__).with_name("twilio.mjs"), folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["node", "twilio.mjs", str(port), ACCOUNT_SID, TOKEN, NUMBER, f"{hook.url}/hook?of=us"]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout and node.stdin
        assert any(line.strip() == "ready" for line in node.stdout)
        yield f"http://127.0.0.1:{port}"
        node.stdin.close()


def account(twilio: str, hook: Hook, token: str = TOKEN) -> AccountSettings:
    config = {
        "account_sid": ACCOUNT_SID,
        "number": NUMBER,
        "api_url": twilio,
        "receive": "polling",
        "poll_seconds": 0.1,
    }
    return AccountSettings("a", config, {"auth_token": token}, f"{hook.url}/hook")


def arrive(twilio: str, text: str) -> None:
    """Have a person send a message to our number."""
    fields = {"To": NUMBER, "From": PERSON, "Body": text}
    url = f"{twilio}/_twilio/simulate/inbound-message"
    httpx2.post(url, data=fields, auth=(ACCOUNT_SID, TOKEN), timeout=60).raise_for_status()


async def test_its_signature_is_verified_and_its_form_is_read(twilio: str, hook: Hook) -> None:
    await asyncio.to_thread(arrive, twilio, TEXT)
    request, adapter = hook.requests[-1], Sms(account(twilio, hook))
    adapter.verify(request, datetime.now(UTC))
    with pytest.raises(VerificationFailed):
        Sms(account(twilio, hook, "another token")).verify(request, datetime.now(UTC))
    [found] = adapter.parse(request, datetime.now(UTC))
    assert isinstance(found, ChannelMessage) and (found.text, found.sender_id) == (TEXT, PERSON)


class Kept:
    """A link that keeps texts."""

    cursor = ""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def deliver(self, received: Sequence[Received], cursor: str) -> None:
        self.texts += [one.event.text for one in received if isinstance(one.event, ChannelMessage)]

    def heartbeat(self) -> None:
        return


async def test_its_list_is_read_and_our_messages_are_taken(twilio: str, hook: Hook) -> None:
    adapter, link = Sms(account(twilio, hook)), Kept()
    lines = (await adapter.check()).lines
    assert "The Twilio account is Emulated (active)." in lines
    listening = asyncio.create_task(adapter.listen(link))
    try:
        for number in range(3):
            await asyncio.to_thread(arrive, twilio, f"question {number}")
        async with asyncio.timeout(60):
            while len([text for text in link.texts if text.startswith("question")]) < 3:
                assert not listening.done(), listening.exception()
                await asyncio.sleep(0.05)
    finally:
        listening.cancel()
    assert link.texts[-3:] == ["question 0", "question 1", "question 2"]
    message_id = await adapter.send(Outgoing("k", Target(Chat(PERSON)), Rendered("hello", "hello")))
    sent = httpx2.get(
        f"{twilio}/2010-04-01/Accounts/{ACCOUNT_SID}/Messages/{message_id}.json", auth=(ACCOUNT_SID, TOKEN)
    )
    assert (sent.json()["body"], sent.json()["from"], sent.json()["to"]) == ("hello", NUMBER, PERSON)
    await adapter.aclose()


async def test_its_reports_are_read(twilio: str, hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    url, fields = f"{hook.url}/hook", {"To": PERSON, "From": NUMBER, "Body": "x", "StatusCallback": f"{hook.url}/hook"}
    base = f"{twilio}/2010-04-01/Accounts/{ACCOUNT_SID}"
    sid = httpx2.post(f"{base}/Messages.json", data=fields, auth=(ACCOUNT_SID, TOKEN), timeout=60).json()["sid"]
    status = {"MessageSid": sid, "Status": "undelivered"}
    httpx2.post(
        f"{twilio}/_twilio/simulate/message-status", data=status, auth=(ACCOUNT_SID, TOKEN), timeout=60
    ).raise_for_status()
    adapter = Sms(account(twilio, hook))
    assert adapter.account.public_url == url
    adapter.verify(hook.requests[-1], datetime.now(UTC))
    [found] = adapter.parse(hook.requests[-1], datetime.now(UTC))
    assert found == DeliveryReport(sid, "failed")


async def test_wrong_credentials_are_named(twilio: str, hook: Hook) -> None:
    adapter = Sms(account(twilio, hook, "wrong"))
    with pytest.raises(SendError) as raised:
        await adapter.check()
    assert raised.value.ends_account and "wrong" not in raised.value.message
    await adapter.aclose()
