"""The promises of every channel adapter. A new channel adds one entry to CHANNELS."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.utils.module_loading import import_string

from audit_app.kernel.errors import InvalidInput
from sessions_app.approvals import prompt_text
from sessions_app.channels.adapters.fake import Fake
from sessions_app.channels.adapters.telegram.adapter import Telegram
from sessions_app.channels.adapters.webhook import Webhook
from sessions_app.channels.base import (
    SHARED_SETTINGS,
    AccountSettings,
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
from sessions_app.channels.messages import Attachment, ChannelMessage, Chat, Outgoing, Rendered, Target
from tests.fakes.http_server import Fault
from tests.fakes.telegram import BOT_NAME, TOKEN, FakeTelegram, private_update
from tests.fakes.webhook_receiver import SECRET, WebhookReceiver, signed_headers
from tools_app.types import Decision

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
JSON = {"content-type": "application/json"}


@dataclass
class Bench:
    """An account of a channel with its fake platform.

    sign: returns the headers of a body. message: returns the body of a text message with this id.
    shown: returns the texts that the platform shows. fail: makes the next call fail. upload: stores a file to fetch.
    """

    adapter: ChannelAdapter
    sign: Callable[[bytes], Mapping[str, str]]
    message: Callable[[str, str], Any]
    shown: Callable[[], list[str]]
    fail: Callable[[Fault], None]
    chat: Chat
    upload: Callable[[str, bytes], Attachment] = lambda name, content: Attachment(name, "file")


@contextmanager
def telegram() -> Iterator[Bench]:
    with FakeTelegram() as server:
        config = {"api_url": server.url, "bot_username": BOT_NAME}
        account = AccountSettings("a", config, {"bot_token": TOKEN, "webhook_secret": "secret-of-16-chars"})
        headers = {**JSON, "x-telegram-bot-api-secret-token": "secret-of-16-chars"}

        def upload(name: str, content: bytes) -> Attachment:
            server.files[name] = content
            return Attachment(name, "file", auth="bot")

        yield Bench(
            Telegram(account),
            lambda body: headers,
            lambda number, text: private_update(int(number), text),
            lambda: server.chat(501),
            server.faults.append,
            Chat("501"),
            upload,
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


CHANNELS = {"telegram": telegram, "webhook": webhook, "fake": fake}


@pytest.fixture(params=sorted(CHANNELS))
async def bench(request: pytest.FixtureRequest) -> Any:
    with CHANNELS[request.param]() as made:
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
    return asked(bench, json.dumps(bench.message(number, text)).encode())


def outgoing(bench: Bench, text: str, **fields: Any) -> Outgoing:
    return Outgoing(f"key-{text}", Target(bench.chat), Rendered(text, text), **fields)


def test_every_channel_has_its_bench_here() -> None:
    installed = {import_string(path).slug for path in settings.KOMAND_CHANNELS}
    assert installed | {"fake"} == set(CHANNELS)


# What comes in.


def test_its_own_requests_are_verified(bench: Bench) -> None:
    bench.adapter.verify(message(bench), NOW)


@pytest.mark.parametrize("value", ["", "x", "v1,", "v1,AAAA", "é", "0" * 5000, "\x00"])
def test_a_request_with_any_proof_missing_or_changed_is_not(bench: Bench, value: str) -> None:
    good = message(bench)
    for name in good.headers:
        if name == "content-type":
            continue
        for headers in ({**good.headers, name: [value]}, {**good.headers, name: []}):
            with pytest.raises(VerificationFailed):
                bench.adapter.verify(replace(good, headers=headers), NOW)


def test_a_proof_given_twice_proves_nothing(bench: Bench) -> None:
    good = message(bench)
    for name in set(good.headers) - {"content-type"}:
        with pytest.raises(VerificationFailed):
            bench.adapter.verify(replace(good, headers={**good.headers, name: [*good.headers[name]] * 2}), NOW)


def test_a_message_is_read(bench: Bench) -> None:
    [found] = bench.adapter.parse(message(bench, "7", "Zoë 👩‍👩‍👧 \u202eRTL"), NOW)
    assert isinstance(found, ChannelMessage)
    assert found.text == "Zoë 👩‍👩‍👧 \u202eRTL" and found.sender_id == "501"
    assert found.message_id and found.keys and all(found.keys) and found.sent_at.tzinfo is not None
    assert found.chat.type == "direct" and found.is_addressed


def test_the_same_message_has_the_same_keys_and_another_has_others(bench: Bench) -> None:
    [one], [again], [other] = (bench.adapter.parse(message(bench, number), NOW) for number in ("1", "1", "2"))
    assert one.keys == again.keys and not set(one.keys) & set(other.keys)  # type: ignore[union-attr]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b'"\\ud800', b"[" * 100_000])
def test_bodies_that_are_not_json_are_distinguished(bench: Bench, body: bytes) -> None:
    with pytest.raises(NotReadable):
        bench.adapter.parse(asked(bench, body), NOW)


def test_another_content_type_is_refused(bench: Bench) -> None:
    with pytest.raises((WrongMediaType, NotReadable)):
        bench.adapter.parse(asked(bench, b"a=b", **{"content-type": "application/x-www-form-urlencoded"}), NOW)


@pytest.mark.parametrize("value", [7, None, "text", [], {}, {"type": 7}, {"update_id": "x"}, {"data": []}])
def test_odd_shapes_raise_nothing_unexpected(bench: Bench, value: Any) -> None:
    try:
        found = bench.adapter.parse(asked(bench, json.dumps(value).encode()), NOW)
    except (NotReadable, WrongShape):
        return
    assert not [channel_event for channel_event in found if isinstance(channel_event, ChannelMessage)]


def test_it_reports_missing_settings(bench: Bench) -> None:
    kind, account = type(bench.adapter), bench.adapter.account
    assert set(account.config) <= set(kind.config_fields) and set(account.secrets) <= set(kind.secret_fields)
    with pytest.raises(InvalidInput):
        kind(replace(account, secrets={}))
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


# What goes out.


async def test_what_is_sent_arrives_once_and_in_order(bench: Bench) -> None:
    ids = [await bench.adapter.send(outgoing(bench, f"text {number}")) for number in range(3)]
    assert bench.shown() == ["text 0", "text 1", "text 2"] and len(set(ids)) == 3


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_platform_that_is_busy_has_taken_nothing(bench: Bench, status: int) -> None:
    bench.fail(Fault("status", status, retry_after=7 if status == 429 else 0))
    with pytest.raises(SendError) as raised:
        await bench.adapter.send(outgoing(bench, "text"))
    assert raised.value.certainty is SendCertainty.NOT_SENT and bench.shown() == []
    assert status != 429 or raised.value.retry_after_seconds == 7.0
    await bench.adapter.send(outgoing(bench, "text"))
    assert bench.shown() == ["text"]


async def test_a_refusal_is_final(bench: Bench) -> None:
    bench.fail(Fault("status", 400))
    with pytest.raises(SendError) as raised:
        await bench.adapter.send(outgoing(bench, "text"))
    assert raised.value.certainty is SendCertainty.REFUSED


@pytest.mark.parametrize("what", ["drop", "accept_and_drop"])
async def test_a_connection_that_breaks_leaves_a_doubt(bench: Bench, what: str) -> None:
    bench.fail(Fault(what))
    with pytest.raises(SendError) as raised:
        await bench.adapter.send(outgoing(bench, "text"))
    assert raised.value.certainty is SendCertainty.UNKNOWN


async def test_errors_never_show_secrets(bench: Bench) -> None:
    for fault in (Fault("status", 400), Fault("drop")):
        bench.fail(fault)
        with pytest.raises(SendError) as raised:
            await bench.adapter.send(outgoing(bench, "text"))
        assert not [
            secret
            for secret in bench.adapter.account.secrets.values()
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
        await bench.adapter.typing(Target(bench.chat))
    else:
        with pytest.raises(Unsupported):
            await bench.adapter.typing(Target(bench.chat))
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


def test_text_is_cut_into_parts_that_it_takes(bench: Bench) -> None:
    capabilities = bench.adapter.capabilities(bench.chat)
    text = "\n\n".join("word " * 40 for _ in range(capabilities.max_text // 100))
    parts = bench.adapter.render(text, bench.chat)
    assert len(parts) > 1
    assert all(len(part.text) <= capabilities.max_text for part in parts)
    assert [part.text for part in bench.adapter.render("short", bench.chat)] == ["short"]


def test_the_matrix_in_the_docs_names_it(bench: Bench) -> None:
    page = Path(settings.BASE_DIR, "docs", "channels.md").read_text()
    kind = type(bench.adapter)
    for name in (*kind.config_fields, *kind.secret_fields):
        assert kind.slug == "fake" or f"`{name}`" in page, name


def test_declared_buttons_can_hold_a_decision(bench: Bench) -> None:
    can = bench.adapter.capabilities(bench.chat)
    if can.buttons:
        assert can.max_buttons >= 2 and can.button_bytes >= len(
            prompt_text.action_id(UUID(int=2**128 - 1), Decision.DENY)
        )
