"""`manage.py channel add` in a terminal asks for what an account needs, and waits for a first message."""

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.utils import timezone

from audit_app.kernel.errors import InvalidInput
from sessions_app.channels import accounts
from sessions_app.management import channel_dialog
from sessions_app.models import ChannelAccount, InboundMessage, Pairing
from sessions_app.platforms.base import Checked
from sessions_app.platforms.registry import channels
from tests.fakes.mail_server import PASSWORD, FakeMailServer
from tests.fakes.telegram import BOT_NAME, TOKEN, FakeTelegram

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


URL = "https://example.org/answers"


SID = "AC" + "0" * 32
TYPED = {
    "discord": {"bot_token": "abc.def.ghi"},
    "email": {
        "address": "bot@example.org",
        "imap_host": "imap.example.org",
        "smtp_host": "smtp.example.org",
        "smtp_security": "starttls",
        "password": "pw",
    },
    "signal": {"url": "http://127.0.0.1:8080", "number": "+4915112345678"},
    "slack": {"bot_token": "xoxb-1", "app_token": "xapp-1"},
    "sms": {"account_sid": SID, "number": "+15005550006", "auth_token": "secret"},
    "teams": {"app_id": str(uuid4()), "tenant_id": str(uuid4()), "app_password": "secret"},
    "telegram": {"bot_token": TOKEN},
    "web": {"origins": "https://a.example, https://b.example"},
    "webhook": {"callback_url": URL},
    "whatsapp": {"phone_number_id": "106540352242922", "access_token": "EAA", "app_secret": "secret"},
}


class Typist:
    """Somebody who answers each question by name, with the first of the texts that are left for it."""

    def __init__(self, **texts: object) -> None:
        self.left = {name: [text] if isinstance(text, str) else [*text] for name, text in texts.items()}
        self.asked: list[str] = []
        self.lines: list[str] = []

    def answer(self, prompt: str) -> str:
        name = prompt.partition(" ")[0]
        self.asked.append(name)
        assert len(self.asked) < 50, self.lines
        return self.left[name].pop(0) if self.left.get(name) else ""

    def dialog(self, channel: str) -> channel_dialog.Dialog:
        return channel_dialog.Dialog(channel, "main", self.lines.append, self.answer, self.answer)

    def add(self, channel: str) -> ChannelAccount:
        def store(config: dict[str, Any], secrets: dict[str, str]) -> ChannelAccount:
            return accounts.add_account(channel, "main", config=config, secrets=secrets)[0]

        return self.dialog(channel).run(store)


def test_every_channel_of_this_installation_has_a_typist():
    differences = {*TYPED} ^ ({*channels.names()} - {"fake"})
    assert not differences, "TYPED has, for each channel of KOMAND_CHANNELS, what an operator enters to add an account"


@pytest.mark.parametrize("channel", TYPED)
def test_every_channel_is_added_by_questions(channel: str):
    typist = Typist(**TYPED[channel])
    account = typist.add(channel)
    assert accounts.make_adapter(account).account.secrets.keys() >= {*channels.get(channel).required_secrets}
    assert {*TYPED[channel]} <= {*typist.asked} and len(typist.asked) == len({*typist.asked})
    assert not any(left for left in typist.left.values())


def test_slack_is_asked_for_what_its_way_of_receiving_needs(settings):
    settings.KOMAND_PUBLIC_URL = "https://gateway.example"
    typist = Typist(bot_token="xoxb-1", signing_secret="5ec7e7")
    account = typist.add("slack")
    assert typist.asked == ["bot_token", "signing_secret"] and not accounts.make_adapter(account).listens
    guide = typist.lines[0]
    assert 'request_url: "https://gateway.example/channels/slack/main/webhook"' in guide
    assert "socket_mode_enabled: false" in guide and "xapp-" not in guide


def test_without_a_public_address_slack_gets_the_manifest_of_socket_mode():
    typist = Typist(bot_token="xoxb-1", app_token="xapp-1")
    assert accounts.make_adapter(typist.add("slack")).listens
    assert typist.asked == ["bot_token", "app_token"]
    assert "socket_mode_enabled: true" in typist.lines[0] and "request_url" not in typist.lines[0]


def test_the_port_that_is_suggested_follows_from_the_security():
    prompts: list[str] = []
    answers = {**TYPED["email"], "imap_port": "1143"}

    def answer(prompt: str) -> str:
        prompts.append(prompt)
        return answers.get(prompt.partition(" ")[0], "")

    config: dict[str, Any] = channel_dialog.Dialog("email", "main", lambda _: None, answer, answer).run(
        lambda config, _: config
    )
    assert [prompt for prompt in prompts if prompt.startswith("smtp_port") and prompt.endswith("[587]: ")]
    assert config["imap_port"] == 1143 and "smtp_port" not in config and "auth_server" not in config


def test_it_asks_for_what_is_required_until_it_is_given():
    typist = Typist(account_sid=["", SID], number="+15005550006", auth_token=" token ")
    assert typist.add("sms").config == {"account_sid": SID, "number": "+15005550006"}
    assert "twilio.com" in typist.lines[0] and "account_sid is required." in typist.lines


def test_secrets_that_are_generated_are_not_asked_for():
    typist = Typist(callback_url=["nowhere", URL])
    assert typist.add("webhook").config == {"callback_url": URL}
    assert typist.asked == ["callback_url", "callback_url"]
    assert "callback_url must be an address such as https://example.org." in typist.lines


def test_a_list_is_typed_with_commas():
    assert Typist(origins=["", "https://a.example, https://b.example"]).add("web").config == {
        "origins": ["https://a.example", "https://b.example"]
    }


@pytest.mark.parametrize(
    ("channel", "wrong"),
    [
        ("telegram", {"bot_token": "abc"}),
        ("email", {"address": "nobody"}),
        ("teams", {"tenant_id": "mine"}),
        ("web", {"origins": "https://A.example/"}),
        ("webhook", {"callback_url": "http://127.0.0.1:9/"}),
        ("sms", {"number": "12"}),
    ],
)
def test_an_error_keeps_the_answers_and_asks_for_the_wrong_one_alone(channel: str, wrong: dict[str, str]):
    [(name, text)] = wrong.items()
    typist = Typist(**{**TYPED[channel], name: [text, TYPED[channel][name]]})
    typist.add(channel)
    assert typist.asked.count(name) == 2 and len(typist.asked) == len({*typist.asked}) + 1


def test_an_error_that_names_no_setting_ends_the_dialog():
    def refuse(config: dict[str, Any], secrets: dict[str, str]) -> None:
        raise InvalidInput("It needs a list of tools.", code="bad_account")

    with pytest.raises(InvalidInput):
        Typist(**TYPED["telegram"]).dialog("telegram").run(refuse)


HOSTS = {
    "imap.gmail.com": {"oauth_token_url"},
    "outlook.office365.com": {"oauth_token_url", "oauth_tenant"},
    "imap.example.org": {"oauth_token_url"},
}


@pytest.mark.parametrize("host", HOSTS)
def test_a_mailbox_with_oauth_is_asked_for_the_application_and_no_password(host: str):
    given = {**TYPED["email"], "auth": "oauth2", "imap_host": host, "oauth_client_id": "id", "oauth_refresh_token": "r"}
    url = {"oauth_token_url": ["", "https://login.example.org/token"]} if host == "imap.example.org" else {}
    typist = Typist(**{**given, **url})
    account = typist.add("email")
    assert "password" not in typist.asked and {*accounts.make_adapter(account).account.secrets} >= {
        "oauth_refresh_token"
    }
    assert {*typist.asked} & {"oauth_token_url", "oauth_tenant"} == HOSTS[host]
    assert ("oauth_token_url is required." in typist.lines) == bool(url)


@pytest.mark.parametrize(("answer", "stored"), [("", "mx.komand.example"), ("n", None)])
def test_the_server_of_the_newest_mail_is_offered(answer: str, stored: str | None):
    with FakeMailServer() as server:
        server.arrive(b"Authentication-Results: mx.komand.example; dmarc=pass\r\nFrom: zoe@example.org\r\n\r\nHi\r\n")
        config = {name: value for name, value in server.config.items() if name != "auth_server"}
        account, _ = accounts.add_account("email", "main", config=config, secrets={"password": PASSWORD})
        lines: list[str] = []
        asked: list[str] = []

        def agree(prompt: str) -> str:
            asked.append(prompt)
            return answer

        with pytest.raises(KeyboardInterrupt):
            channel_dialog.try_out(account, lines.append, _interrupt, agree)
    assert asked == ["Set auth_server to mx.komand.example? [Y/n] "]
    assert ChannelAccount.objects.get().config.get("auth_server") == stored
    assert any("No sender is verified and answered before auth_server is set" in line for line in lines)


def _interrupt(_seconds: float) -> None:
    raise KeyboardInterrupt


def test_after_pairing_it_says_so_and_offers_no_second_code(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(accounts, "try_out", lambda _account: Checked(()))
    account, _ = accounts.add_account("webhook", "main", config={"callback_url": URL}, secrets={})
    lines: list[str] = []
    codes: list[int] = []

    def arrive(_seconds: float) -> None:
        now, reasons = timezone.now(), ["not_paired", "paired"]
        if len(codes) == len(reasons):
            raise KeyboardInterrupt
        ids = {"message_id": str(len(codes)), "sender_id": "501", "chat_id": "501"}
        reason = reasons[len(codes)]
        InboundMessage.objects.create(account=account, reason=reason, text="x", sent_at=now, received_at=now, **ids)
        codes.append(1)

    with pytest.raises(KeyboardInterrupt):
        channel_dialog.try_out(account, lines.append, arrive)
    text = "\n".join(lines)
    assert text.count("/pair ") == 1 and "The sender is paired now." in text and "not given to the agent" not in text


def test_the_end_of_the_input_ends_the_test_and_the_account_stays(monkeypatch: pytest.MonkeyPatch):
    def end(*_: object) -> None:
        raise EOFError

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(channel_dialog.Dialog, "run", lambda _, store: store({"callback_url": URL}, {}))
    monkeypatch.setattr(channel_dialog, "try_out", end)
    call_command("channel", "add", "webhook", "crm", stdout=StringIO())
    assert ChannelAccount.objects.get().account_id == "crm"


@pytest.mark.parametrize(
    ("public", "told"),
    [
        ("", "Set KOMAND_PUBLIC_URL to the address"),
        ("https://gateway.example", "Its webhook: https://gateway.example/channels/webhook/crm/webhook"),
    ],
)
def test_an_address_is_told_with_its_host_or_with_what_to_set(settings, public: str, told: str, tmp_path: Path):
    settings.KOMAND_PUBLIC_URL, file, out = public, tmp_path / "config.json", StringIO()
    file.write_text(json.dumps({"callback_url": URL}))
    call_command("channel", "add", "webhook", "crm", config=str(file), stdout=out)
    assert told in out.getvalue() and "Its webhook: /" not in out.getvalue()


def test_only_generated_secrets_that_an_operator_needs_are_shown():
    assert accounts.add_account("telegram", "a", config={}, secrets={"bot_token": TOKEN})[1] == {}
    assert [*accounts.add_account("webhook", "a", config={"callback_url": URL}, secrets={})[1]] == ["secret"]


def test_a_first_message_is_waited_for_and_a_refused_sender_gets_a_code():
    lines: list[str] = []

    def arrive(_seconds: float) -> None:
        now = timezone.now()
        ids = {"message_id": "7", "sender_id": "501", "chat_id": "501"}
        InboundMessage.objects.create(
            account=account, reason="not_paired", text="hello", sent_at=now, received_at=now, **ids
        )
        if any("/pair " in line for line in lines):
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
    monkeypatch.setattr(accounts, "try_out", lambda _account: Checked(()))
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
    assert "manage.py channel test telegram main" in lines[1]


def test_the_command_asks_only_in_a_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(channel_dialog.Dialog, "run", lambda _self, store: store({"callback_url": URL}, {}))
    monkeypatch.setattr(channel_dialog, "try_out", lambda _account, write: write("tried"))
    out = StringIO()
    call_command("channel", "add", "webhook", "main", stdout=out)
    assert "webhook/main was added" in out.getvalue() and out.getvalue().rstrip().endswith("tried")
