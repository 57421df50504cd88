"""Mailboxes that are logged in to by OAuth: access tokens of both servers, and what becomes of refused ones."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel.errors import InvalidInput
from sessions_app.channels import accounts
from sessions_app.channels.connections import secret_renewal
from sessions_app.models import ChannelAccount, ChannelConnection
from sessions_app.platforms.account_settings import AccountSettings
from sessions_app.platforms.adapters.email.access_tokens import endpoint_of
from sessions_app.platforms.adapters.email.adapter import Email
from sessions_app.platforms.base import SendCertainty, SendError
from tests.fakes.http_server import Fault
from tests.fakes.mail_server import ADDRESS, FakeMailServer, mail_from
from tests.fakes.token_endpoint import CLIENT_ID, REFRESH_TOKEN, FakeTokenEndpoint
from tests.support.channels import open_to_everyone, settle
from tests.support.connections import SocketsThread
from tests.support.engine import EngineRig, until
from tools_app.secrets.credentials import store_credential

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.fixture
def mail() -> Iterator[FakeMailServer]:
    with FakeMailServer() as server:
        server.valid_token = "access-1"
        yield server


@pytest.fixture
def endpoint(settings: Any, short_pauses: None) -> Iterator[FakeTokenEndpoint]:
    with FakeTokenEndpoint() as server:
        settings.KOMAND_CALLBACK_ALLOW_PRIVATE = [server.address]
        yield server


@pytest.fixture
def sockets() -> Iterator[SocketsThread]:
    with SocketsThread() as thread:
        yield thread


def config_of(mail: FakeMailServer, endpoint: FakeTokenEndpoint) -> dict[str, Any]:
    return {**mail.config, "auth": "oauth2", "oauth_client_id": CLIENT_ID, "oauth_token_url": f"{endpoint.url}/token"}


def add(mail: FakeMailServer, endpoint: FakeTokenEndpoint) -> ChannelAccount:
    secrets = {"oauth_refresh_token": REFRESH_TOKEN}
    options = open_to_everyone({"config": config_of(mail, endpoint), "secrets": secrets})
    return accounts.add_account("email", "main", **options)[0]


def adapter_of(account: ChannelAccount) -> Email:
    adapter = accounts.make_adapter(account)
    assert isinstance(adapter, Email)
    return adapter


def is_connected() -> bool:
    return ChannelConnection.objects.exclude(connected_at=None).exclude(cursor="").exists()


def test_a_mail_is_received_and_answered_with_access_tokens(
    rig: EngineRig, mail: FakeMailServer, endpoint: FakeTokenEndpoint, sockets: SocketsThread
) -> None:
    rig.agent(Reply(("Hello.",)), Reply(("Again.",)))
    add(mail, endpoint)
    until(is_connected)
    mail.valid_token = "access-2"  # of the process that sends: each has its own
    for number in (1, 2):
        mail.arrive(mail_from(number, "hi"))
        assert settle(rig, number) == ["sent"] * number
    assert mail.texts() == ["Hello.", "Again."] and len(endpoint.asked) == 2, "kept until it ends"
    expected = {"grant_type": "refresh_token", "refresh_token": REFRESH_TOKEN, "client_id": CLIENT_ID}
    assert endpoint.asked == [expected] * 2, "neither a secret nor scopes that were not given"


def test_a_refused_token_is_fetched_anew_once(mail: FakeMailServer, endpoint: FakeTokenEndpoint) -> None:
    account, asked = add(mail, endpoint), endpoint.asked
    mail.valid_token = "access-2"
    lines = async_to_sync(adapter_of(account).check)().lines
    assert len(asked) == 2 and "accepts the login" in lines[0], "by SMTP"
    mail.valid_token = "none"
    with pytest.raises(SendError) as refused:
        async_to_sync(adapter_of(account).check)()
    assert len(asked) == 4 and refused.value.ends_account
    assert "not for this mailbox" in str(refused.value) and "5.7.3" in str(refused.value)


def test_imap_fetches_a_refused_token_anew_once(
    mail: FakeMailServer, endpoint: FakeTokenEndpoint, sockets: SocketsThread
) -> None:
    mail.valid_token = "access-2"
    add(mail, endpoint)
    until(is_connected)
    assert len(endpoint.asked) == 2 and mail.logins == 2
    mail.valid_token = "none"
    mail.cut()
    until(lambda: ChannelConnection.objects.exclude(attention_at=None).exists())
    assert "not for this mailbox, or IMAP is not allowed" in ChannelConnection.objects.get().error


def test_a_refused_refresh_token_waits_for_the_operator(
    mail: FakeMailServer, endpoint: FakeTokenEndpoint, sockets: SocketsThread
) -> None:
    endpoint.valid = []
    account = add(mail, endpoint)
    until(lambda: ChannelConnection.objects.exclude(attention_at=None).exists())
    error = ChannelConnection.objects.get().error
    assert "invalid_grant: The token has been revoked." in error and "enter the new oauth_refresh_token" in error
    assert "Trace" not in error and REFRESH_TOKEN not in error and len(endpoint.asked) == 1
    endpoint.valid, mail.valid_token = ["refresh-2"], "access-2"
    accounts.change_account(account, secrets={"oauth_refresh_token": "refresh-2"})
    until(is_connected)


@pytest.mark.parametrize("fault", [Fault("drop"), Fault("status", 503), Fault("status", 200)])
def test_an_endpoint_that_fails_is_asked_again(
    mail: FakeMailServer, endpoint: FakeTokenEndpoint, sockets: SocketsThread, fault: Fault
) -> None:
    endpoint.faults.append(fault)
    with pytest.raises(SendError) as failed:
        async_to_sync(adapter_of(add(mail, endpoint)).check)()
    assert failed.value.certainty is SendCertainty.NOT_SENT and not failed.value.ends_account
    mail.valid_token = f"access-{len(endpoint.asked) + 1}"
    until(is_connected)


@pytest.mark.parametrize(("seconds", "requests"), [(3600, 1), ("3600", 1), (None, 1), (299, 2)])
def test_a_token_is_kept_until_shortly_before_its_end(
    mail: FakeMailServer, endpoint: FakeTokenEndpoint, seconds: object, requests: int
) -> None:
    endpoint.seconds, adapter = seconds, adapter_of(add(mail, endpoint))
    assert adapter._tokens

    async def fetch_twice() -> None:
        await adapter._tokens.get()
        await adapter._tokens.get()

    async_to_sync(fetch_twice)()
    assert len(endpoint.asked) == requests


def test_an_address_of_tokens_in_this_network_is_not_reached(
    mail: FakeMailServer, endpoint: FakeTokenEndpoint, settings: Any
) -> None:
    settings.KOMAND_CALLBACK_ALLOW_PRIVATE = []
    with pytest.raises(SendError):
        async_to_sync(adapter_of(add(mail, endpoint)).check)()
    assert not endpoint.asked


def two_days_ago(account: ChannelAccount) -> ChannelAccount:
    """Return the account as if it had been changed two days ago."""
    ChannelAccount.objects.filter(pk=account.pk).update(updated_at=timezone.now() - timedelta(days=2))
    account.refresh_from_db()
    return account


def refresh_token_of(account: ChannelAccount) -> str:
    account.refresh_from_db()
    return adapter_of(account).account.secrets["oauth_refresh_token"]


def test_a_replaced_refresh_token_is_stored_and_used(mail: FakeMailServer, endpoint: FakeTokenEndpoint) -> None:
    endpoint.renewed, endpoint.valid, mail.valid_token = "refresh-2", [REFRESH_TOKEN, "refresh-2"], "access-*"
    account = two_days_ago(add(mail, endpoint))
    with SocketsThread():
        until(lambda: refresh_token_of(account) == "refresh-2")
        until(lambda: endpoint.asked[-1]["refresh_token"] == "refresh-2")
        until(is_connected)
        changed_at, logins = account.updated_at, mail.logins
        mail.cut()
        until(lambda: mail.logins > logins)
    assert ChannelAccount.objects.get().updated_at == changed_at, "the account was changed in the last day"


def test_what_an_operator_has_entered_meanwhile_is_kept(mail: FakeMailServer, endpoint: FakeTokenEndpoint) -> None:
    endpoint.renewed = "refresh-2"
    account = two_days_ago(add(mail, endpoint))
    accounts.change_account(ChannelAccount.objects.get(), secrets={"oauth_refresh_token": "entered"})
    async_to_sync(secret_renewal.renew)(account, Email(adapter_of(account).account))
    assert refresh_token_of(account) == "entered"


def test_a_reference_to_a_credential_is_not_replaced(mail: FakeMailServer, endpoint: FakeTokenEndpoint) -> None:
    endpoint.renewed = "refresh-2"
    store_credential("mailbox", REFRESH_TOKEN, owner_id=None)
    account = add(mail, endpoint)
    accounts.change_account(account, secrets={"oauth_refresh_token": "{{credential:mailbox}}"})
    account = two_days_ago(account)
    async_to_sync(secret_renewal.renew)(account, adapter_of(account))
    assert len(endpoint.asked) == 1 and refresh_token_of(account) == REFRESH_TOKEN


def test_a_server_that_writes_no_name_is_offered(mail: FakeMailServer, endpoint: FakeTokenEndpoint) -> None:
    mail.valid_token, account = "access-*", add(mail, endpoint)
    mail.arrive(
        b"Authentication-Results: spf=pass smtp.mailfrom=a.example; dmarc=pass\r\nFrom: a@a.example\r\n\r\nHi\r\n"
    )
    adapter = adapter_of(account)
    unset = {name: value for name, value in adapter.account.config.items() if name != "auth_server"}
    checked = async_to_sync(Email(replace(adapter.account, config=unset)).check)()
    assert checked.offered == {"auth_server": "unnamed"} and any("writes no name" in line for line in checked.lines)


def test_the_endpoint_follows_from_the_server() -> None:
    assert endpoint_of("imap.gmail.com", "") == ("https://oauth2.googleapis.com/token", "")
    url, scopes = endpoint_of("outlook.office365.com", "tenant-1")
    assert url == "https://login.microsoftonline.com/tenant-1/oauth2/v2.0/token"
    assert "IMAP.AccessAsUser.All" in scopes and "SMTP.Send" in scopes
    assert endpoint_of("evil-gmail.com", "") == endpoint_of("imap.example.org", "") == ("", "")


@pytest.mark.parametrize("missing", ["oauth_client_id", "oauth_token_url", "oauth_refresh_token"])
def test_what_is_missing_is_named(missing: str) -> None:
    given = {"oauth_client_id": CLIENT_ID, "oauth_token_url": "https://login.example.org/token"}
    config = {"address": ADDRESS, "imap_host": "a.example.org", "smtp_host": "b.example.org", "auth": "oauth2", **given}
    secrets = {"link_key": "k" * 43, "oauth_refresh_token": REFRESH_TOKEN}
    for values in (config, secrets):
        values.pop(missing, None)
    with pytest.raises(InvalidInput, match=f"{missing} is missing"):
        Email(AccountSettings("main", config, secrets))
