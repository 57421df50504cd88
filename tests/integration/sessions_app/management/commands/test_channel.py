"""`manage.py channel`: adding, listing, testing and disabling accounts; pairing senders."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from sessions_app.channels import accounts
from sessions_app.models import ChannelAccount, Pairing
from tests.fakes.http_server import Fault
from tests.fakes.telegram import BOT_NAME, TOKEN, FakeTelegram
from tests.fakes.webhook_receiver import SECRET, WebhookReceiver

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


def channel(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    call_command("channel", *arguments)
    return capsys.readouterr().out


def files(folder: Path, config: dict[str, Any], secrets: dict[str, Any]) -> list[str]:
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "secrets.json").write_text(json.dumps(secrets))
    return ["--config", str(folder / "config.json"), "--secrets", str(folder / "secrets.json")]


def test_a_bot_is_added_tried_and_registered(
    platform: FakeTelegram, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = files(tmp_path, {"api_url": platform.url}, {"bot_token": TOKEN})
    with override_settings(KOMAND_PUBLIC_URL="https://komand.example.org"):
        printed = channel(capsys, "add", "telegram", "main", *given)
        assert "https://komand.example.org/channels/telegram/main/webhook" in printed
        assert f"@{BOT_NAME}" in channel(capsys, "test", "telegram", "main")
    account = ChannelAccount.objects.get()
    assert account.config["bot_username"] == BOT_NAME and account.access == "paired"
    assert platform.webhook["url"].endswith("/channels/telegram/main/webhook")
    assert platform.webhook["secret_token"] not in printed  # nobody enters it anywhere
    assert TOKEN not in account.secrets_sealed


def test_adding_again_replaces_what_the_files_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    channel(capsys, "add", "telegram", "main", *files(tmp_path, {"known_bots": [5]}, {"bot_token": TOKEN}))
    channel(capsys, "add", "telegram", "main", *files(tmp_path, {}, {"webhook_secret": "another-secret-of-ours"}))
    account = ChannelAccount.objects.get()
    assert account.config == {}
    assert accounts.make_adapter(account).account.secrets == {
        "bot_token": TOKEN,
        "webhook_secret": "another-secret-of-ours",
    }


@pytest.mark.parametrize(
    ("config", "secrets", "why"),
    [
        ({}, {}, "bot_token is missing"),
        ({}, {"bot_token": "nonsense"}, "does not look like"),
        ({}, {"bot_token": TOKEN, "webhook_secret": "short"}, "webhook_secret must have"),
        ({"colour": "red"}, {"bot_token": TOKEN}, "colour is not known"),
        ({"drafts": "no"}, {"bot_token": TOKEN}, "drafts must be true or false"),
        ({"known_bots": 5}, {"bot_token": TOKEN}, "known_bots must be a list"),
        ({"chat_seconds": -1}, {"bot_token": TOKEN}, "chat_seconds must be a number"),
        ({"api_url": "telegram.org"}, {"bot_token": TOKEN}, "api_url must be an address"),
    ],
)
def test_what_cannot_work_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: dict[str, Any], secrets: dict[str, Any], why: str
) -> None:
    with pytest.raises(CommandError, match=why):
        channel(capsys, "add", "telegram", "main", *files(tmp_path, config, secrets))
    assert not ChannelAccount.objects.exists()


def test_files_that_cannot_be_read_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.json").write_text("{")
    for name, why in (("s.json", "s.json is not valid JSON"), ("none.json", "none.json cannot be read")):
        with pytest.raises(CommandError, match=why):
            channel(capsys, "add", "telegram", "main", "--secrets", str(tmp_path / name))


def test_a_wrong_token_is_reported_and_stored_for_the_operator(
    platform: FakeTelegram, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = TOKEN.replace("AA", "ZZ")
    given = files(tmp_path, {"api_url": platform.url}, {"bot_token": wrong})
    channel(capsys, "add", "telegram", "main", *given)
    with pytest.raises(CommandError, match="Unauthorized.*@BotFather"):
        channel(capsys, "test", "telegram", "main")
    assert "Unauthorized" in (printed := channel(capsys, "list")) and wrong not in printed
    channel(capsys, "add", "telegram", "main", *files(tmp_path, {"api_url": platform.url}, {"bot_token": TOKEN}))
    channel(capsys, "test", "telegram", "main")
    assert "Unauthorized" not in channel(capsys, "list")


def test_a_platform_that_is_not_there_is_named_without_the_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = files(tmp_path, {"api_url": "http://127.0.0.1:9"}, {"bot_token": TOKEN})
    channel(capsys, "add", "telegram", "main", *given)
    with pytest.raises(CommandError, match=r"No connection to 127\.0\.0\.1 "):
        channel(capsys, "test", "telegram", "main")


def test_who_may_write_is_changed_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    channel(capsys, "add", "telegram", "main", *files(tmp_path, {}, {"bot_token": TOKEN}))
    channel(capsys, "add", "telegram", "main", "--allow", "7", "--allow", "-100")
    account = ChannelAccount.objects.get()
    assert (account.access, account.allowed_senders) == ("allow_list", ["7", "-100"])
    channel(capsys, "add", "telegram", "main", "--access", "open", "--tools", "none")
    assert ChannelAccount.objects.get().access == "open"


@pytest.mark.parametrize(
    ("name", "secret"),
    [("secret", "whpk_" + "A" * 43), ("public_key", "whsec_" + "A" * 44), ("previous_secret", "whsec_short")],
)
def test_keys_in_the_wrong_place_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, secret: str
) -> None:
    given = files(tmp_path, {"callback_url": "https://e.org/"}, {"secret": SECRET, name: secret})
    with pytest.raises(CommandError, match="Webhook: "):
        channel(capsys, "add", "webhook", "crm", *given)


@pytest.mark.parametrize("url", ["", "ftp://e.org/", "http://127.0.0.1/", "http://[::1]/", "http://localhost/"])
def test_a_callback_must_lead_outside(tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str) -> None:
    with pytest.raises(CommandError, match="Webhook: "):
        channel(capsys, "add", "webhook", "crm", *files(tmp_path, {"callback_url": url}, {"secret": SECRET}))


def test_a_signed_test_reaches_the_callback(
    receiver: WebhookReceiver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with override_settings(KOMAND_CALLBACK_ALLOW_PRIVATE=[receiver.address]):
        given = files(tmp_path, {"callback_url": receiver.url}, {"secret": SECRET})
        channel(capsys, "add", "webhook", "crm", *given)
        assert "accepted a signed test" in channel(capsys, "test", "webhook", "crm")
        receiver.faults.append(Fault("status", 500))
        with pytest.raises(CommandError, match="status 500"):
            channel(capsys, "test", "webhook", "crm")
    assert [callback.is_signed for callback in receiver.callbacks] == [True]


def test_accounts_are_listed_switched_and_paired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    channel(capsys, "add", "telegram", "main", *files(tmp_path, {}, {"bot_token": TOKEN}))
    channel(capsys, "disable", "telegram", "main")
    assert "telegram/main  off  paired" in channel(capsys, "list")
    channel(capsys, "enable", "telegram", "main")
    assert "telegram/main  on" in channel(capsys, "list")
    code = channel(capsys, "pair", "telegram", "main").split()[1]
    assert len(code) == 8 and Pairing.objects.get().code_digest and code not in Pairing.objects.get().code_digest
    with pytest.raises(CommandError, match="no account telegram/other"):
        channel(capsys, "pair", "telegram", "other")


def test_a_change_does_not_enable_an_account_that_was_disabled_meanwhile(platform: FakeTelegram) -> None:
    config = {"api_url": platform.url}
    account, _ = accounts.add_account("telegram", "main", config=config, secrets={"bot_token": TOKEN})
    accounts.set_enabled(ChannelAccount.objects.get(), False, why="The token was revoked.")
    accounts.change_account(account, config={**config, "drafts": False}, access="open", tools=[])
    stored = ChannelAccount.objects.get()
    assert (stored.is_enabled, stored.last_error) == (False, "The token was revoked.")
    assert (stored.config["drafts"], stored.access) == (False, "open") and stored.updated_at == account.updated_at
