"""The cost of storing a message: calls in the database's thread, where other messages wait, and built statements."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from channels.routing import URLRouter
from django.contrib.auth.models import User

from agents_app.models import Agent, Run
from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel import database
from audit_app.kernel.database import in_db
from sessions_app.channels.inbound import webhook
from sessions_app.identity.api_keys import create_api_key, revoke_api_key
from sessions_app.models import ApiKey
from sessions_app.surfaces.openai import consumers as openai
from sessions_app.surfaces.openai.endpoint import AnswerEndpoint
from sessions_app.surfaces.rest import consumers as rest
from sessions_app.surfaces.rest.objects.messages import MessageBody
from tests.fakes.telegram import FakeTelegram, private_update
from tests.fakes.webhook_receiver import WebhookReceiver, signed_headers
from tests.support.built_statements import built_statements
from tests.support.channels import TELEGRAM_SECRET, add_telegram, add_webhook, request
from tests.support.engine import EngineRig
from tests.support.rest import LiveCaller

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

POSTS: dict[str, dict[str, Any]] = {
    "/api/webchat/message?wait=0": {"senderId": "alice", "text": "Hi"},
    "/v1/chat/completions": {"model": "default", "messages": [{"role": "user", "content": "Hi"}], "stream": True},
    "/v1/responses": {"model": "default", "input": "Hi", "stream": True},
}


class _Answered(Exception):
    """The answer begins: what follows is the watching of its run."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the calls in the database's thread since then."""
    made, call = list[Any](), database._on_fresh_connections

    def count(function: Callable[[], Any]) -> Any:
        made.append(function)
        return call(function)

    monkeypatch.setattr(database, "_on_fresh_connections", count)
    return made


@pytest.fixture
def caller(default_agent: Agent, alice: User) -> LiveCaller:
    routes = URLRouter([*rest.routes, *openai.routes])
    return LiveCaller(routes, bearer=create_api_key(alice, "k", scopes=["all"]).key)


async def _until_answered(send: Callable[[], Awaitable[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Send a request, and end it where its answer begins."""

    async def begin(consumer: Any, *args: Any, **kwargs: Any) -> None:
        raise _Answered

    monkeypatch.setattr(AnswerEndpoint, "open_stream", begin)
    await send()


@pytest.mark.parametrize("path", POSTS)
async def test_a_message_takes_one_call_and_builds_no_statement(
    caller: LiveCaller, calls: list[Any], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):  # the second one is behind an open run, as the third
        await _until_answered(lambda: caller.ask("POST", path, POSTS[path]), monkeypatch)
    calls.clear()
    with built_statements() as built:
        await _until_answered(lambda: caller.ask("POST", path, POSTS[path]), monkeypatch)
    assert len(calls) == 1
    assert built == []
    assert await in_db(Run.objects.count) == 3


async def test_webhooks_take_one_call_each_while_the_account_is_known(
    idle: EngineRig,
    receiver: WebhookReceiver,
    platform: FakeTelegram,
    calls: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook, "_KNOWN_SECONDS", 600)

    def prepare() -> None:
        idle.agent(Reply(("fine",)))
        add_webhook(receiver)
        add_telegram(platform)

    async def send(number: int) -> None:
        text = "A message that is too long to wait for another one. " * 20
        data = {"type": "message.received", "data": {"senderId": "u-1", "text": text}}
        body = json.dumps(data).encode()
        assert (await request("/channels/webhook/crm/webhook", body, signed_headers(f"m{number}", body)))[0] == 202
        headers = {"content-type": "application/json", "x-telegram-bot-api-secret-token": TELEGRAM_SECRET}
        update = json.dumps(private_update(number, text)).encode()
        assert (await request("/channels/telegram/main/webhook", update, headers))[0] == 200

    await in_db(prepare)
    webhook.known_accounts.forget()
    await send(1)
    calls.clear()
    with built_statements() as built:
        await send(2)
    assert len(calls) == 2
    assert built == []
    assert await in_db(Run.objects.count) == 4


async def _known_long_ago() -> webhook.Accounts:
    """Return a cache in which the account was looked up long ago."""
    known = webhook.Accounts()
    account = await known.find("webhook", "crm")
    assert account is not None
    known._known["webhook", "crm"] = (float("-inf"), account)
    return known


async def test_an_account_is_looked_up_once_for_requests_that_come_together(
    idle: EngineRig, receiver: WebhookReceiver, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await in_db(add_webhook, receiver)
    known = await _known_long_ago()
    calls.clear()
    found = await asyncio.gather(*(known.find("webhook", "crm") for _ in range(20)))
    assert len(calls) == 1 and all(account and account.account_id == "crm" for account in found)


async def test_an_account_that_was_disabled_is_not_found_after_that(idle: EngineRig, receiver: WebhookReceiver) -> None:
    account = await in_db(add_webhook, receiver)
    known = await _known_long_ago()
    account.is_enabled = False
    await in_db(account.save)
    assert await known.find("webhook", "crm") is None
    assert await known.find("webhook", "crm") is None


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("body", [None, [], {"stream": True}])
async def test_a_request_without_a_valid_credential_learns_nothing_of_its_body(
    caller: LiveCaller, alice: User, path: str, body: Any
) -> None:
    """Also not that the parameter `wait`, or the JSON, is wrong."""
    await in_db(lambda: revoke_api_key(alice, ApiKey.objects.get().pk))
    status, answer = await caller.ask("POST", path.replace("=0", "=x"), body)
    assert status == 401, answer
    assert not await in_db(Run.objects.exists)


def test_the_values_of_a_body_are_those_of_its_serializer() -> None:
    for body in (
        {"senderId": "a", "text": " Hi "},
        {"senderId": "a", "text": "", "attachments": [], "tools": {"mode": "none"}},
    ):
        serializer = MessageBody(data=body)
        assert serializer.is_valid()
        assert MessageBody.read(body) == serializer.validated_data
        assert MessageBody.read(body)["attachments"] is not MessageBody.read(body)["attachments"]
