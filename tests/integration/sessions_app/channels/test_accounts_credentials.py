"""Secrets of channels that refer to credentials of the installation: resolved at use, and again after a change."""

import asyncio

import pytest

from audit_app.kernel.errors import NotFound
from audit_app.models import AuditEntry
from sessions_app.channels import accounts
from sessions_app.models import ChannelAccount
from tools_app.secrets import vault
from tools_app.secrets.credentials import store_credential

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

FIRST, SECOND = "123456:first-token-of-a-bot", "123456:second-token-of-a-bot"


def add_account() -> ChannelAccount:
    secrets = {"bot_token": "{{credential:bot}}", "webhook_secret": "telegram-secret-0123456789"}
    return accounts.add_account("telegram", "main", config={}, secrets=secrets)[0]


def token_of(account: ChannelAccount) -> str:
    return accounts.pure.get(account).account.secrets["bot_token"]


@pytest.fixture
def account():
    store_credential("bot", FIRST, owner_id=None)
    return add_account()


def test_an_account_uses_the_credential_that_its_secret_names(account):
    assert token_of(account) == FIRST
    assert FIRST not in vault.unseal(account.secrets_sealed)
    assert AuditEntry.objects.filter(action="CredentialAccessed", details__purpose="channel telegram/main").exists()


def test_a_new_value_is_used_from_then_on(account):
    assert token_of(account) == FIRST
    store_credential("bot", SECOND, owner_id=None)
    account.refresh_from_db()
    assert token_of(account) == SECOND


def test_it_is_found_from_an_event_loop_too(account):
    async def on_a_loop() -> str:
        return token_of(account)

    assert asyncio.run(on_a_loop()) == FIRST


def test_an_account_without_its_credential_is_refused():
    with pytest.raises(NotFound, match="no credential 'bot'"):
        add_account()
