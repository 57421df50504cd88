"""The promises of every channel adapter. A new channel adds one entry to CHANNELS."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest
from django.conf import settings
from django.utils.module_loading import import_string

from audit_app.kernel.errors import InvalidInput
from sessions_app.approvals import prompt_text
from sessions_app.channels.outbound import prompts
from sessions_app.platforms.account_settings import SHARED_SETTINGS, AccountSettings
from sessions_app.platforms.adapters.discord.adapter import Discord
from sessions_app.platforms.adapters.email.adapter import Email
from sessions_app.platforms.adapters.fake import Fake
from sessions_app.platforms.adapters.signal.adapter import Signal
from sessions_app.platforms.adapters.slack.adapter import Slack
from sessions_app.platforms.adapters.sms.adapter import Sms
from sessions_app.platforms.adapters.teams.adapter import Teams
from sessions_app.platforms.adapters.telegram.adapter import Telegram
from sessions_app.platforms.adapters.web.adapter import Web, chat_of
from sessions_app.platforms.adapters.web.visitor_tokens import issue_token
from sessions_app.platforms.adapters.webhook import Webhook
from sessions_app.platforms.adapters.whatsapp.adapter import WhatsApp
from sessions_app.platforms.base import (
    ChannelAdapter,
    FetchError,
    NotReadable,
    SendCertainty,
    SendError,
    Unsupported,
    VerificationFailed,
    WebhookRequest,
    WrongMediaType,
    WrongShape,
)
from sessions_app.platforms.link import ConnectionLost, CredentialsRefused, Received
from sessions_app.platforms.messages import Attachment, ChannelMessage, Chat, Outgoing, OutgoingFile, Rendered, Target
from tests.fakes import discord as discord_fake
from tests.fakes import mail_server, signal_daemon, twilio
from tests.fakes import teams as fake_teams
from tests.fakes import whatsapp as fake_whatsapp
from tests.fakes.discord import FakeDiscord
from tests.fakes.http_server import Fault
from tests.fakes.mail_server import FakeMailServer, mail_from
from tests.fakes.signal_daemon import FakeSignal
from tests.fakes.slack import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, FakeSlack, message_payload
from tests.fakes.slack import signed_headers as slack_headers
from tests.fakes.teams import FakeTeams
from tests.fakes.telegram import BOT_NAME, TOKEN, FakeTelegram, private_update
from tests.fakes.twilio import ACCOUNT_SID, NUMBER, FakeTwilio
from tests.fakes.webhook_receiver import SECRET, WebhookReceiver, signed_headers
from tests.fakes.whatsapp import FakeWhatsApp
from tests.support import webchat
from tests.unit.sessions_app.approvals.test_prompt_text import APPROVAL
from tools_app.types import Decision

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
JSON = {"content-type": "application/json"}
ODD: Sequence[Any] = (7, None, "text", [], {}, {"type": 7}, {"update_id": "x"}, {"data": []})


@dataclass
class Bench:
    """An account of a channel with its fake platform.

    sign: returns the headers of a body. message: returns the body of a text message with this id.
    shown: returns the texts that the platform shows. fail: makes the next call fail. upload: stores a file to fetch.
    queue: has the platform hold a message for a connection. expire: makes it refuse our credentials.
    encode: returns the body of a message. unreadable: bodies that cannot be decoded. odd: those with other contents.
    other_type: a content type that is refused. sender: of the messages, if it is not the chat.
    names_wait: a refusal contains the wait. reference: of the messages.
    """

    adapter: ChannelAdapter
    sign: Callable[[bytes], Mapping[str, str]]
    message: Callable[[str, str], Any]
    shown: Callable[[], list[str]]
    fail: Callable[[Fault], None]
    chat: Chat
    upload: Callable[[str, bytes], Attachment] = lambda name, content: Attachment(name, "file")
    queue: Callable[[str, str], object] | None = None
    expire: Callable[[], None] = lambda: None
    encode: Callable[[Any], bytes] = lambda content: json.dumps(content).encode()
    unreadable: Sequence[bytes] = (b"", b"{", b"\xff\xfe", b'"\\ud800', b"[" * 100_000)
    odd: Sequence[bytes] = tuple(json.dumps(value).encode() for value in ODD)
    other_type: str = "application/x-www-form-urlencoded"
    sender: str = ""
    names_wait: bool = True
    reference: Mapping[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        return Target(self.chat, reference=self.reference)


@contextmanager
def telegram() -> Iterator[Bench]:
    with FakeTelegram() as server:
        config = {"api_url": server.url, "bot_username": BOT_NAME}
        account = AccountSettings("a", config, {"bot_token": TOKEN, "webhook_secret": "secret-of-16-chars"})
        headers = {**JSON, "x-telegram-bot-api-secret-token": "secret-of-16-chars"}

        def upload(name: str, content: bytes) -> Attachment:
            server.files[name] = content
            return Attachment(name, "file", auth="bot")

        def expire() -> None:
            server.valid_token = TOKEN[:-1]

        yield Bench(
            Telegram(account),
            lambda body: headers,
            lambda number, text: private_update(int(number), text),
            lambda: server.chat(501),
            server.faults.append,
            Chat("501"),
            upload,
            lambda number, text: server.queue([private_update(int(number), text)]),
            expire,
        )


@contextmanager
def webhook() -> Iterator[Bench]:
    with WebhookReceiver() as server:
        config, reachable = {"callback_url": f"{server.url}/in"}, frozenset({server.address})
        account = AccountSettings("a", config, {"secret": SECRET}, reachable=reachable)

        def upload(name: str, content: bytes) -> Attachment:
            server.files[f"/{name}"] = content
            return Attachment("1", "file", url=f"{server.url}/{name}")

        yield Bench(
            Webhook(account, clock=lambda: NOW),
            lambda body: signed_headers(_id_in(body), body, at=NOW.timestamp()),
            lambda number, text: {"type": "message.received", "n": number, "data": {"senderId": "501", "text": text}},
            lambda: server.messages,
            server.faults.append,
            Chat("501"),
            upload,
        )


@contextmanager
def fake() -> Iterator[Bench]:
    Fake.platforms.clear()
    adapter = Fake(AccountSettings("a", {}, {"token": "t"}))

    def fail(fault: Fault) -> None:
        certainty = {
            "status": SendCertainty.NOT_SENT,
            "drop": SendCertainty.UNKNOWN,
            "accept_and_drop": SendCertainty.UNKNOWN,
        }[fault.what]
        refused = fault.what == "status" and fault.status == 400
        waits = float(fault.retry_after) or None
        error = SendError("on demand", SendCertainty.REFUSED if refused else certainty, retry_after_seconds=waits)
        adapter.platform.faults.append(error)

    yield Bench(
        adapter,
        lambda body: {**JSON, "x-fake-token": "t"},
        lambda number, text: {"id": number, "sender": "501", "text": text},
        lambda: list(adapter.platform.messages.values()),
        fail,
        Chat("501"),
    )


@contextmanager
def sms() -> Iterator[Bench]:
    with FakeTwilio() as server:
        config = {"account_sid": ACCOUNT_SID, "number": NUMBER, "api_url": server.url, "receive": "polling"}
        url = "https://komand.example/channels/sms/a/webhook"
        account = AccountSettings("a", config, {"auth_token": twilio.TOKEN}, url)
        form = {"content-type": "application/x-www-form-urlencoded"}

        def upload(name: str, content: bytes) -> Attachment:
            server.media[name] = content
            path = f"{server.url}/2010-04-01/Accounts/{ACCOUNT_SID}/Messages/MM1/Media/{name}"
            return Attachment(name, "image", url=path, auth="bot")

        def expire() -> None:
            server.valid_token = "another"

        yield Bench(
            Sms(account),
            lambda body: {**form, "x-twilio-signature": twilio.signature_of(url, body)},
            lambda number, text: twilio.message_form(int(number), text),
            server.texts,
            server.faults.append,
            Chat("+15550001111"),
            upload,
            lambda number, text: server.queue(int(number), text),
            expire,
            lambda fields: urlencode(fields).encode(),
            unreadable=(b"\xff\xfe", b"Body=%ff", b"&".join([b"a=b"] * 1000)),
            odd=(b"", b"=", b"Body=x", b"&&&", f"AccountSid={ACCOUNT_SID}&MessageSid=x&From=1".encode()),
            other_type="application/json",
        )


@contextmanager
def email() -> Iterator[Bench]:
    with FakeMailServer() as server:
        account = AccountSettings("a", server.config, {"password": mail_server.PASSWORD, "link_key": "k" * 43})

        def upload(name: str, content: bytes) -> Attachment:
            mail = mail_from(900, "a file")
            mail.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
            return Attachment(f"{server.validity}.{server.arrive(mail)}.0", "file")

        def expire() -> None:
            server.valid_password = "another"

        yield Bench(
            Email(account),
            lambda body: {},
            lambda number, text: {},
            server.texts,
            server.faults.append,
            Chat(mail_server.SENDER),
            upload,
            lambda number, text: server.arrive(mail_from(int(number), text)),
            expire,
            names_wait=False,
        )


@contextmanager
def discord() -> Iterator[Bench]:
    with FakeDiscord() as server:
        config = {
            "api_url": f"{server.url}/api/v10",
            "public_key": discord_fake.PUBLIC_KEY,
            "application_id": discord_fake.APPLICATION_ID,
        }

        def upload(name: str, content: bytes) -> Attachment:
            server.files[name] = content
            return Attachment("1", "file", url=f"{server.url}/files/{name}")

        def expire() -> None:
            server.token = "another"

        yield Bench(
            Discord(AccountSettings("a", config, {"bot_token": discord_fake.TOKEN})),
            lambda body: discord_fake.signed_headers(body, at=NOW.timestamp()),
            lambda number, text: discord_fake.ask_interaction(int(number), text),
            server.shown,
            server.faults.append,
            Chat(discord_fake.CHANNEL),
            upload,
            lambda number, text: server.queue(discord_fake.message_event(int(number), text)),
            expire,
            sender="501",
        )


@contextmanager
def slack() -> Iterator[Bench]:
    with FakeSlack() as server:
        secrets = {"bot_token": BOT_TOKEN, "app_token": APP_TOKEN, "signing_secret": SIGNING_SECRET}
        account = AccountSettings("a", {"api_url": f"{server.url}/api"}, secrets)

        def upload(name: str, content: bytes) -> Attachment:
            server.files[name] = content
            return Attachment("F1", "file", url=f"{server.url}/files/{name}", auth="bot")

        def expire() -> None:
            server.app_token = "another"

        yield Bench(
            Slack(account),
            lambda body: slack_headers(body, at=NOW.timestamp()),
            lambda number, text: message_payload(int(number), text),
            server.shown,
            server.faults.append,
            Chat("D501"),
            upload,
            lambda number, text: server.queue(message_payload(int(number), text)),
            expire,
            sender="501",
        )


@contextmanager
def whatsapp() -> Iterator[Bench]:
    with FakeWhatsApp() as server:
        config = {"phone_number_id": fake_whatsapp.NUMBER_ID, "api_url": server.url}
        tokens = {"access_token": fake_whatsapp.TOKEN, "verify_token": fake_whatsapp.VERIFY_TOKEN}
        account = AccountSettings("a", config, {**tokens, "app_secret": fake_whatsapp.APP_SECRET})

        def upload(name: str, content: bytes) -> Attachment:
            server.media["777777"] = content
            return Attachment("777777", "file", auth="bot")

        yield Bench(
            WhatsApp(account),
            fake_whatsapp.signed_headers,
            lambda number, text: fake_whatsapp.payload(fake_whatsapp.message(int(number), text)),
            server.texts,
            server.faults.append,
            Chat(fake_whatsapp.USER),
            upload,
        )


@contextmanager
def signal() -> Iterator[Bench]:
    with FakeSignal() as server:
        account = AccountSettings("a", {"url": server.url, "number": signal_daemon.NUMBER}, {})

        def upload(name: str, content: bytes) -> Attachment:
            server.files[name] = content
            return Attachment(f"direct:{signal_daemon.SENDER}:{name}", "file")

        def expire() -> None:
            server.is_registered = False

        yield Bench(
            Signal(account),
            lambda body: {},
            lambda number, text: {},
            server.texts,
            server.faults.append,
            Chat(signal_daemon.SENDER),
            upload,
            lambda number, text: server.queue(int(number), text),
            expire,
        )


@contextmanager
def teams() -> Iterator[Bench]:
    with FakeTeams() as server:
        account = AccountSettings("a", server.config, {"app_password": fake_teams.PASSWORD})

        def upload(name: str, content: bytes) -> Attachment:
            path = f"/teams/v3/attachments/{name}"
            server.files[path] = content
            return Attachment(f"bot:{server.url}{path}", "image")

        yield Bench(
            Teams(account, clock=lambda: NOW),
            lambda body: fake_teams.headers_for(body, at=NOW.timestamp()),
            lambda number, text: fake_teams.activity(int(number), text, service=server.url),
            server.texts,
            lambda fault: server.faults.append(replace(fault, only="/teams/")),
            Chat(fake_teams.CHAT),
            upload,
            sender=fake_teams.USER,
            reference={"serviceUrl": f"{server.url}/teams", "botId": fake_teams.BOT, "userId": fake_teams.USER},
        )


@contextmanager
def web() -> Iterator[Bench]:
    account = AccountSettings("a", {"origins": [webchat.SITE]}, webchat.SECRETS)
    visitor = webchat.visitor(expires_at=NOW + timedelta(hours=1))
    token = issue_token(webchat.TOKEN_SECRET, "a", visitor, NOW)
    yield Bench(
        Web(account, clock=lambda: NOW),
        lambda body: {**JSON, "authorization": f"Bearer {token}", "origin": webchat.SITE},
        lambda number, text: {"clientMessageId": str(UUID(int=int(number))), "text": text},
        list,
        lambda fault: None,
        chat_of(visitor),
    )


CHANNELS = {
    bench.__name__: bench
    for bench in (telegram, webhook, slack, discord, fake, sms, email, whatsapp, signal, teams, web)
}
WITHOUT_WEBHOOK = {"email", "signal"}
# Messages are read where they are stored: no call of a platform can fail.
WITHOUT_PLATFORM = {"web"}


@pytest.fixture(params=sorted(CHANNELS))
async def bench(request: pytest.FixtureRequest) -> Any:
    with CHANNELS[request.param]() as made:
        yield made
        await made.adapter.aclose()


@pytest.fixture(params=sorted({*CHANNELS} - WITHOUT_PLATFORM))
async def called(request: pytest.FixtureRequest) -> Any:
    """Return the bench of a channel whose platform is called to send."""
    with CHANNELS[request.param]() as made:
        yield made
        await made.adapter.aclose()


@pytest.fixture(params=sorted({*CHANNELS} - WITHOUT_WEBHOOK))
async def hooked(request: pytest.FixtureRequest) -> Any:
    """Return the bench of a channel whose messages come by webhook."""
    with CHANNELS[request.param]() as made:
        await made.adapter.refresh(message(made))
        yield made
        await made.adapter.aclose()


def _id_in(body: bytes) -> str:
    try:
        return f"msg_{json.loads(body)['n']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "msg_1"


def asked(bench: Bench, body: bytes, **headers: str) -> WebhookRequest:
    given = {**bench.sign(body), **headers}
    return WebhookRequest(body, {name: [value] for name, value in given.items()})


def message(bench: Bench, number: str = "1", text: str = "hello") -> WebhookRequest:
    return asked(bench, bench.encode(bench.message(number, text)))


def outgoing(bench: Bench, text: str, **fields: Any) -> Outgoing:
    return Outgoing(f"key-{text}", bench.target, Rendered(text, text), **fields)


def test_every_channel_has_its_bench_here() -> None:
    installed = {import_string(path).slug for path in settings.KOMAND_CHANNELS}
    assert installed | {"fake"} == set(CHANNELS)


# What comes in.


def test_its_own_requests_are_verified(hooked: Bench) -> None:
    hooked.adapter.verify(message(hooked), NOW)


@pytest.mark.parametrize("value", ["", "x", "v1,", "v1,AAAA", "é", "0" * 5000, "\x00"])
def test_a_request_with_any_proof_missing_or_changed_is_not(hooked: Bench, value: str) -> None:
    good = message(hooked)
    for name in good.headers:
        if name == "content-type":
            continue
        for headers in ({**good.headers, name: [value]}, {**good.headers, name: []}):
            with pytest.raises(VerificationFailed):
                hooked.adapter.verify(replace(good, headers=headers), NOW)


def test_a_proof_given_twice_proves_nothing(hooked: Bench) -> None:
    good = message(hooked)
    for name in set(good.headers) - {"content-type"}:
        with pytest.raises(VerificationFailed):
            hooked.adapter.verify(replace(good, headers={**good.headers, name: [*good.headers[name]] * 2}), NOW)


def test_a_message_is_read(hooked: Bench) -> None:
    [found] = hooked.adapter.parse(message(hooked, "7", "Zoë 👩‍👩‍👧 \u202eRTL"), NOW)
    assert isinstance(found, ChannelMessage)
    assert found.text == "Zoë 👩‍👩‍👧 \u202eRTL" and found.sender_id == (hooked.sender or hooked.chat.id)
    assert found.message_id and found.keys and all(found.keys) and found.sent_at.tzinfo is not None
    assert found.chat.type == "direct" and found.is_addressed


def test_the_same_message_has_the_same_keys_and_another_has_others(hooked: Bench) -> None:
    [one], [again], [other] = (hooked.adapter.parse(message(hooked, number), NOW) for number in ("1", "1", "2"))
    assert one.keys == again.keys and not set(one.keys) & set(other.keys)  # type: ignore[union-attr]


def test_bodies_that_cannot_be_decoded_are_distinguished(hooked: Bench) -> None:
    for body in hooked.unreadable:
        with pytest.raises(NotReadable):
            hooked.adapter.parse(asked(hooked, body), NOW)


def test_another_content_type_is_refused(hooked: Bench) -> None:
    with pytest.raises((WrongMediaType, NotReadable)):
        hooked.adapter.parse(asked(hooked, b"a=b", **{"content-type": hooked.other_type}), NOW)


def test_odd_shapes_raise_nothing_unexpected(hooked: Bench) -> None:
    for body in hooked.odd:
        try:
            found = hooked.adapter.parse(asked(hooked, body), NOW)
        except (NotReadable, WrongShape):
            continue
        assert not [channel_event for channel_event in found if isinstance(channel_event, ChannelMessage)]


def test_it_reports_missing_settings(bench: Bench) -> None:
    kind, account = type(bench.adapter), bench.adapter.account
    assert set(account.config) <= set(kind.config_fields) and set(account.secrets) <= set(kind.secret_fields)
    required = {name for name, setting in kind.config_fields.items() if setting.is_required}
    for incomplete in (
        *(replace(account, secrets={**account.secrets, name: ""}) for name in kind.required_secrets),
        *(replace(account, config={**account.config, name: ""}) for name in required),
    ):
        with pytest.raises(InvalidInput):
            kind(incomplete)
    with pytest.raises(InvalidInput):
        kind(replace(account, config={**account.config, "colour": "red"}))


def test_it_reports_settings_of_a_wrong_kind(bench: Bench) -> None:
    kind, account = type(bench.adapter), bench.adapter.account
    for name in {**SHARED_SETTINGS, **kind.config_fields}:
        with pytest.raises(InvalidInput, match=f"{kind.name}: .*{name} must be"):
            kind(replace(account, config={**account.config, name: object()}))


def test_denied_tools_must_be_patterns(bench: Bench) -> None:
    kind, account = type(bench.adapter), bench.adapter.account
    kind(replace(account, config={**account.config, "denied_tools": ["web_fetch", "http_request(POST *)"]}))
    with pytest.raises(InvalidInput, match="denied_tools must be a list of patterns: 'launch\\(' is not a pattern"):
        kind(replace(account, config={**account.config, "denied_tools": ["launch("]}))


class MemoryLink:
    """A link that stores nothing."""

    def __init__(self, cursor: str) -> None:
        self.cursor, self.texts, self.heartbeats = cursor, list[str](), 0

    async def deliver(self, received: Sequence[Received], cursor: str) -> None:
        assert all(one.raw for one in received)
        self.texts += [one.event.text for one in received if isinstance(one.event, ChannelMessage)]
        self.cursor = cursor

    def heartbeat(self) -> None:
        self.heartbeats += 1


async def received(bench: Bench, count: int, cursor: str = "") -> MemoryLink:
    """Return the link after that many messages came over a connection and were acknowledged."""
    link = MemoryLink(cursor)
    listening = asyncio.create_task(bench.adapter.listen(link))
    async with asyncio.timeout(60):
        while len(link.texts) < count and not listening.done():
            await asyncio.sleep(0.01)
    await asyncio.wait({listening}, timeout=0.1)
    listening.cancel()
    await asyncio.wait({listening})
    return link


async def test_it_listens_if_and_only_if_declared(bench: Bench) -> None:
    assert bench.adapter.listens == bench.adapter.can_listen == (bench.queue is not None)
    if bench.queue is None:
        with pytest.raises(Unsupported):
            await bench.adapter.listen(MemoryLink(""))
        return
    bench.queue("1", "one")
    bench.queue("2", "two")
    link = await received(bench, 2)
    assert link.texts == ["one", "two"] and link.cursor and link.heartbeats
    bench.queue("3", "three")
    assert (await received(bench, 1, link.cursor)).texts == ["three"], "it resumes behind what was delivered"


@pytest.mark.parametrize("fault", [Fault("drop"), Fault("status", 502), Fault("status", 429, retry_after=7)])
async def test_a_connection_that_breaks_is_told_from_one_that_needs_an_operator(bench: Bench, fault: Fault) -> None:
    if bench.queue is None:
        return
    bench.queue("1", "one")
    bench.fail(fault)
    with pytest.raises(ConnectionLost) as lost:
        await bench.adapter.listen(MemoryLink(""))
    assert lost.value.retry_after_seconds == (fault.retry_after if bench.names_wait else 0)
    bench.expire()
    with pytest.raises(CredentialsRefused) as refused:
        await bench.adapter.listen(MemoryLink(""))
    for secret in bench.adapter.account.secrets.values():
        assert secret not in str(refused.value) + str(lost.value)


# What goes out.


async def test_what_is_sent_arrives_once_and_in_order(called: Bench) -> None:
    ids = [await called.adapter.send(outgoing(called, f"text {number}")) for number in range(3)]
    assert called.shown() == ["text 0", "text 1", "text 2"] and len(set(ids)) == 3


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_platform_that_is_busy_has_taken_nothing(called: Bench, status: int) -> None:
    called.fail(Fault("status", status, retry_after=7 if status == 429 else 0))
    with pytest.raises(SendError) as raised:
        await called.adapter.send(outgoing(called, "text"))
    assert raised.value.certainty is SendCertainty.NOT_SENT and called.shown() == []
    assert status != 429 or not called.names_wait or raised.value.retry_after_seconds == 7.0
    await called.adapter.send(outgoing(called, "text"))
    assert called.shown() == ["text"]


async def test_a_refusal_is_final(called: Bench) -> None:
    called.fail(Fault("status", 400))
    with pytest.raises(SendError) as raised:
        await called.adapter.send(outgoing(called, "text"))
    assert raised.value.certainty is SendCertainty.REFUSED


@pytest.mark.parametrize("what", ["drop", "accept_and_drop"])
async def test_a_connection_that_breaks_leaves_a_doubt(called: Bench, what: str) -> None:
    called.fail(Fault(what))
    with pytest.raises(SendError) as raised:
        await called.adapter.send(outgoing(called, "text"))
    assert raised.value.certainty is SendCertainty.UNKNOWN


async def test_errors_never_show_secrets(called: Bench) -> None:
    for fault in (Fault("status", 400), Fault("drop")):
        called.fail(fault)
        with pytest.raises(SendError) as raised:
            await called.adapter.send(outgoing(called, "text"))
        assert not [
            secret
            for secret in called.adapter.account.secrets.values()
            if len(secret) > 5 and secret in str(raised.value)
        ]


async def test_it_can_edit_if_and_only_if_declared(bench: Bench) -> None:
    message_id = await bench.adapter.send(outgoing(bench, "old"))
    if bench.adapter.capabilities(bench.chat).edit_sent:
        for _ in range(2):
            await bench.adapter.edit(outgoing(bench, "new"), message_id)
        assert bench.shown() == ["new"]
    else:
        with pytest.raises(Unsupported):
            await bench.adapter.edit(outgoing(bench, "new"), message_id)


async def test_it_shows_typing_if_and_only_if_declared(bench: Bench) -> None:
    if bench.adapter.capabilities(bench.chat).typing:
        await bench.adapter.typing(bench.target)
    else:
        with pytest.raises(Unsupported):
            await bench.adapter.typing(bench.target)
    assert bench.shown() == []


async def test_it_has_previews_if_and_only_if_declared(bench: Bench) -> None:
    if bench.adapter.capabilities(bench.chat).drafts == "native":
        await bench.adapter.draft(outgoing(bench, "so far"), 1)
    else:
        with pytest.raises(Unsupported):
            await bench.adapter.draft(outgoing(bench, "so far"), 1)
    assert bench.shown() == []


async def test_it_delivers_files_if_and_only_if_declared(bench: Bench) -> None:
    if not bench.adapter.capabilities(bench.chat).attachments_in:
        with pytest.raises(Unsupported):
            bench.adapter.fetch(Attachment("none", "file"), 10)
        return
    assert bench.adapter.capabilities(bench.chat).file_in_bytes > 0
    file = bench.upload("notes", b"0123456789")
    assert b"".join([piece async for piece in bench.adapter.fetch(file, 10)]) == b"0123456789"
    for missing, most in ((replace(file, id="nothing", url=f"{file.url}-not"), 10), (file, 9)):
        with pytest.raises(FetchError) as raised:
            [piece async for piece in bench.adapter.fetch(missing, most)]
        assert raised.value.is_final
    bench.fail(Fault("drop"))
    with pytest.raises(FetchError) as raised:
        [piece async for piece in bench.adapter.fetch(file, 10)]
    assert not raised.value.is_final


async def test_it_sends_files_if_declared(bench: Bench) -> None:
    can = bench.adapter.capabilities(bench.chat)
    assert can.attachments_out is bool(can.file_bytes)
    if can.attachments_out:
        file = OutgoingFile("notes.txt", "text/plain", b"0123456789")
        assert await bench.adapter.send(outgoing(bench, "see the file", file=file))
        assert await bench.adapter.send(outgoing(bench, "", file=file)), "a file alone"


def test_text_is_cut_into_parts_that_it_takes(bench: Bench) -> None:
    capabilities = bench.adapter.capabilities(bench.chat)
    text = "\n\n".join("word " * 40 for _ in range(capabilities.max_text // 100))
    parts = bench.adapter.render(text, bench.chat)
    assert len(parts) > 1
    assert all(len(part.text) <= capabilities.max_text for part in parts)
    assert [part.text for part in bench.adapter.render("short", bench.chat)] == ["short"]


def test_the_matrix_in_the_docs_names_it(bench: Bench) -> None:
    docs = Path(settings.BASE_DIR, "docs")
    page = "".join(path.read_text() for path in (docs / "channels.md", *docs.glob("channels/*.md")))
    kind = type(bench.adapter)
    for name in (*kind.config_fields, *kind.secret_fields):
        assert kind.slug == "fake" or f"`{name}`" in page, name


def test_declared_buttons_can_hold_a_decision(bench: Bench) -> None:
    can = bench.adapter.capabilities(bench.chat)
    if can.buttons:
        assert can.max_buttons >= 2 and can.button_bytes >= len(
            prompt_text.action_id(UUID(int=2**128 - 1), Decision.DENY)
        )


@pytest.mark.parametrize("long", ["x", "<&*_`", "é\n"])
async def test_a_long_argument_hides_no_target_from_an_approver(called: Bench, long: str) -> None:
    can = called.adapter.capabilities(called.chat)
    call = replace(
        APPROVAL,
        arguments={"header": long * 4_000, "url": "https://evil.test/in"},
        targets=("url",),
        places=("evil.test",),
    )
    buttons = prompt_text.buttons(call, can.max_buttons) if can.buttons else ()
    text = prompt_text.prompt(
        call, None, agent_name="Ada", may_decide=True, has_buttons=bool(buttons), room=prompts.room_in(can)
    )
    parts = called.adapter.render(text, called.chat)
    for number, part in enumerate(parts):
        last = buttons if part is parts[-1] else ()
        await called.adapter.send(Outgoing(f"key-{number}", called.target, part, buttons=last))
    shown = "".join(called.shown())
    assert "https://evil.test/in" in shown and "more characters of header" in shown
