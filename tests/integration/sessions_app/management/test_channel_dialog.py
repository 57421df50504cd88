"""`manage.py channel add` in a terminal asks for what an account needs, and waits for a first message."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone

from sessions_app.channels import accounts
from sessions_app.management import channel_dialog
from sessions_app.models import ChannelAccount, InboundMessage, Pairing
from sessions_app.platforms.registry import channels
from tests.fakes.telegram import BOT_NAME, TOKEN, FakeTelegram

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


URL = "https://example.org/answers"


def test_it_asks_for_what_is_required_until_it_is_given():
    lines: list[str] = []
    typed = iter(["", "AC" + "0" * 32, "+15005550006"])
    config, secrets = channel_dialog.ask_settings(
        channels.get("sms"), lines.append, lambda _: next(typed), lambda prompt: f" {prompt[:10]} "
    )
    assert config == {"account_sid": "AC" + "0" * 32, "number": "+15005550006"}
    assert secrets == {"auth_token": "auth_token"}
    assert "twilio.com" in lines[0] and "account_sid is required." in lines


def test_secrets_that_are_generated_are_not_asked_for():
    asked: list[str] = []
    typed = iter(["nowhere", URL])
    config, secrets = channel_dialog.ask_settings(
        channels.get("webhook"), asked.append, lambda _: next(typed), asked.append
    )
    assert (config, secrets) == ({"callback_url": URL}, {})
    assert asked[1:] == ["callback_url must be an address such as https://example.org."]


def test_a_list_is_typed_with_commas():
    typed = iter(["", "https://a.example, https://b.example"])
    config, secrets = channel_dialog.ask_settings(channels.get("web"), lambda line: None, lambda _: next(typed))
    assert (config, secrets) == ({"origins": ["https://a.example", "https://b.example"]}, {})


def test_a_first_message_is_waited_for_and_a_refused_sender_gets_a_code():
    lines: list[str] = []

    def arrive(_seconds: float) -> None:
        now = timezone.now()
        ids = {"message_id": "7", "sender_id": "501", "chat_id": "501"}
        InboundMessage.objects.create(
            account=account, reason="not_paired", text="hello", sent_at=now, received_at=now, **ids
        )
        if len(lines) > 4:
            raise KeyboardInterrupt

    with FakeTelegram() as platform:
        config = {"api_url": platform.url}
        account, _ = accounts.add_account("telegram", "main", config=config, secrets={"bot_token": TOKEN})
        with pytest.raises(KeyboardInterrupt):
            channel_dialog.try_out(account, lines.append, arrive)
    text = "\n".join(lines)
    assert BOT_NAME in text and "501: hello" in text and "/pair " in text
    assert Pairing.objects.filter(sender_id="").count() == 1


def test_the_wait_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(channel_dialog, "_LONGEST_WAIT", timedelta())
    monkeypatch.setattr(accounts, "try_out", lambda _account: ())
    lines: list[str] = []
    account, _ = accounts.add_account("webhook", "main", config={"callback_url": URL}, secrets={})
    channel_dialog.try_out(account, lines.append)
    assert lines[-1].startswith("No answered message")


def test_a_test_that_fails_is_told_and_the_account_stays():
    lines: list[str] = []
    secrets = {"bot_token": TOKEN}
    account, _ = accounts.add_account("telegram", "main", config={"api_url": "http://127.0.0.1:9"}, secrets=secrets)
    channel_dialog.try_out(account, lines.append)
    assert lines[0].startswith("The test failed:") and ChannelAccount.objects.exists()


def test_the_command_asks_only_in_a_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(channel_dialog, "ask_settings", lambda *_: ({"callback_url": URL}, {}))
    monkeypatch.setattr(channel_dialog, "try_out", lambda _account, write: write("tried"))
    out = StringIO()
    call_command("channel", "add", "webhook", "main", stdout=out)
    assert "webhook/main was added" in out.getvalue() and out.getvalue().rstrip().endswith("tried")
