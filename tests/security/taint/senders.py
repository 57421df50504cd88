"""Ways in over the wire: forwarded messages of channels, and histories of clients of the OpenAI protocol."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email import policy
from typing import Any

from channels.routing import URLRouter

from agents_app.models import Run
from audit_app import follow
from sessions_app.channels import accounts
from sessions_app.channels.inbound.dispatch import handle_events
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import ChannelAccount, Pairing
from sessions_app.platforms.adapters.email.adapter import Email
from sessions_app.platforms.adapters.email.received_mail import Place, read_mail
from sessions_app.surfaces.openai import consumers
from tests.fakes import whatsapp as whatsapp_fake
from tests.fakes.mail_server import PASSWORD, SENDER, FakeMailServer, mail_from
from tests.fakes.telegram import BOT_NAME, TOKEN, FakeTelegram, private_update
from tests.fakes.whatsapp import APP_SECRET, VERIFY_TOKEN, FakeWhatsApp
from tests.security.taint.obedient import REPEAT
from tests.security.taint.world import Gateway
from tests.support.channels import TELEGRAM_SECRET, post
from tests.support.engine import until
from tests.support.rest import LiveCaller

_JSON = {"content-type": "application/json"}
_STRANGER = {"type": "hidden_user", "sender_user_name": "Shop", "date": 1}


def telegram_forward(gateway: Gateway, text: str) -> None:
    server = gateway.platform(FakeTelegram)
    config = {"api_url": server.url, "bot_username": BOT_NAME, "chat_seconds": 0}
    account = _account(gateway, "telegram", "501", config, {"bot_token": TOKEN, "webhook_secret": TELEGRAM_SECRET})
    update = private_update(1, text, forward_origin=_STRANGER)
    headers = {**_JSON, "x-telegram-bot-api-secret-token": TELEGRAM_SECRET}
    _deliver(gateway, account, json.dumps(update).encode(), headers)


def whatsapp_forward(gateway: Gateway, text: str) -> None:
    server, number = gateway.platform(FakeWhatsApp), f"1555{gateway.user.pk:07}"
    config = {"phone_number_id": number, "api_url": server.url, "chat_seconds": 0}
    secrets = {"access_token": whatsapp_fake.TOKEN, "app_secret": APP_SECRET, "verify_token": VERIFY_TOKEN}
    account = _account(gateway, "whatsapp", whatsapp_fake.USER, config, secrets)
    forwarded = whatsapp_fake.message(1, text, context={"forwarded": True})
    body = json.dumps(whatsapp_fake.payload(forwarded, number=number)).encode()
    _deliver(gateway, account, body, whatsapp_fake.signed_headers(body))


def mail_forward(gateway: Gateway, text: str) -> None:
    """The user forwards a mail with a line of their own above. The mailbox is left out, the receiving path is not."""
    config = gateway.platform(FakeMailServer).config
    account = _account(gateway, "email", SENDER, config, {"password": PASSWORD, "link_key": "k" * 43})
    body = f"Look!\n\n---------- Forwarded message ---------\nFrom: Shop <s@evil.test>\n\n{text}"
    raw = mail_from(1, body, Subject="Fwd: Offer").as_bytes(policy=policy.SMTP)
    adapter = accounts.make_adapter(account)
    assert isinstance(adapter, Email)
    event = read_mail(raw, adapter._rules, Place(1, 1, datetime.now(UTC)))
    [accepted] = handle_events(account, adapter, [event], raw)
    gateway.finish(accepted.run_id)


def chat_completions(gateway: Gateway, text: str) -> None:
    """A client keeps the conversation, and sends an answer back that has repeated a page."""
    page = "https://news.test/today"
    gateway.outside.pages[page] = text
    asked = {"role": "user", "content": gateway.plan(f"{REPEAT} {page}", "web_fetch", url=page)}
    answer = _ask(gateway, "chat/completions", messages=[asked])["choices"][0]["message"]
    assert answer["content"] == text
    _ask(gateway, "chat/completions", messages=[asked, answer, {"role": "user", "content": "And now?"}])


def responses(gateway: Gateway, text: str) -> None:
    """A client brings an answer that was not given here."""
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    asked = [{"role": "user", "content": "Summarise the page."}, said, {"role": "user", "content": "And now?"}]
    _ask(gateway, "responses", input=asked)


def _account(
    gateway: Gateway, channel: str, sender_id: str, config: dict[str, Any], secrets: dict[str, str]
) -> ChannelAccount:
    """Return an account of the agent at which the sender is the user."""
    name = gateway.agent.agent_id
    account, _ = accounts.add_account(channel, name, config=config, secrets=secrets, agent_id=name, access="paired")
    Pairing.objects.create(account=account, sender_id=sender_id, user=gateway.user)
    return account


def _deliver(gateway: Gateway, account: ChannelAccount, body: bytes, headers: dict[str, str]) -> None:
    status, _ = post(f"/channels/{account.channel}/{account.account_id}/webhook", body, headers)
    assert status == 200
    gateway.finish(Run.objects.get(agent=gateway.agent, parent=None).pk)


def _ask(gateway: Gateway, path: str, **body: Any) -> Any:
    """Send a request of the OpenAI protocol, deny what its run asks, and return the answer."""
    key = create_api_key(gateway.user, "k", scopes=["all"]).key
    caller, model = LiveCaller(URLRouter(consumers.routes), bearer=key), {"model": gateway.agent.agent_id}
    before = set(Run.objects.values_list("pk", flat=True))
    with ThreadPoolExecutor(1) as pool:
        request = pool.submit(asyncio.run, _request(caller, f"/v1/{path}", {**model, **body}))
        gateway.finish(until(lambda: Run.objects.exclude(pk__in=before).filter(parent=None).first()).pk)
        status, answer = request.result()
    assert status == 200, answer
    return json.loads(answer)


async def _request(caller: LiveCaller, path: str, body: Any) -> tuple[int, str]:
    try:
        return await caller.ask("POST", path, body)
    finally:
        await follow.current_follower().aclose()
