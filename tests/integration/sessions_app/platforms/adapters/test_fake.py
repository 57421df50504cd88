"""Features of adapters that the shipped ones do not use: a handshake by GET, a text response, and references."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from agents_app.providers.kinds.scripted import Reply
from sessions_app.channels import accounts
from sessions_app.models import InboundMessage
from sessions_app.platforms.account_settings import Setting
from sessions_app.platforms.adapters.fake import Fake, FakePlatform
from sessions_app.platforms.base import WebhookRequest
from sessions_app.platforms.messages import OfAccount
from sessions_app.platforms.registry import channels
from tests.support.channels import post, settle
from tests.support.engine import EngineRig

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

PATH = "/channels/fake/main/webhook"
HEADERS = {"content-type": "application/json", "x-fake-token": "secret"}


@pytest.fixture
def fake() -> Iterator[FakePlatform]:
    Fake.platforms.clear()
    with channels.override(Fake):
        accounts.add_account("fake", "main", config={}, secrets={"token": "secret"}, access="open", tools=[])
        yield Fake.platforms["main"]
    Fake.platforms.clear()


def test_an_answer_and_a_notice_carry_the_reference_of_what_they_answer(rig: EngineRig, fake: FakePlatform) -> None:
    rig.agent(Reply(("fine",)))
    for number, text in enumerate(("hi", "/status")):
        body: dict[str, Any] = {"id": f"m{number}", "sender": "u", "text": text, "reference": {"url": f"/{number}"}}
        assert post(PATH, json.dumps(body).encode(), HEADERS) == (200, None)
        settle(rig, number + 1)
    assert fake.references == [{"url": "/0"}, {"url": "/1"}]


def test_a_handshake_is_answered_with_text(valkey: object, fake: FakePlatform) -> None:
    assert post(f"{PATH}?challenge=1", b"", HEADERS, "GET") == (200, "challenge=1")
    assert post(PATH, b"", HEADERS, "PUT")[0] == 405 and post(PATH, b"", {}, "GET")[0] == 401


def test_keys_that_changed_are_fetched_when_a_proof_fails(
    valkey: object, fake: FakePlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def refresh(self: Fake, incoming: WebhookRequest) -> bool:
        asked.append(incoming.query)
        monkeypatch.setattr(self, "account", replace(self.account, secrets={"token": "newest"}))
        return len(asked) == 1

    monkeypatch.setattr(Fake, "refresh", refresh)
    newest = {**HEADERS, "x-fake-token": "newest"}
    assert [post(f"{PATH}?{n}", b"", newest, "GET")[0] for n in range(2)] == [200, 200] and asked == ["0"]
    assert post(f"{PATH}?2", b"", HEADERS, "GET")[0] == 401 and asked == ["0", "2"]


def test_one_url_serves_several_accounts_if_both_verify_the_request(
    rig: EngineRig, fake: FakePlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WhatsApp sends the messages of all numbers of an app to one URL."""
    rig.agent(Reply(("fine",)))
    parse = Fake.parse

    def routed(self: Fake, incoming: WebhookRequest, now: datetime) -> list[Any]:
        return [OfAccount(json.loads(incoming.body)["number"], event) for event in parse(self, incoming, now)]

    monkeypatch.setattr(Fake, "parse", routed)
    monkeypatch.setattr(Fake, "routed_by", "number")
    monkeypatch.setattr(Fake, "config_fields", {"number": Setting("its number")})
    for name, secret in (("second", "secret"), ("foreign", "another")):
        accounts.add_account("fake", name, config={"number": name}, secrets={"token": secret}, access="open", tools=[])
    for number in ("second", "foreign", "unknown"):
        body = json.dumps({"id": f"m-{number}", "sender": "u", "text": "hi", "number": number}).encode()
        assert post(PATH, body, HEADERS) == (200, None)
    settle(rig)
    message = InboundMessage.objects.get()
    assert message.account.account_id == "second" and message.text == "hi"
    assert list(Fake.platforms["second"].messages.values()) == ["fine"]
