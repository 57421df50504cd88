"""Channels in the admin: accounts, traffic, and secrets that are never shown."""

import html
import re

import pytest
from django.urls import reverse
from django.utils import timezone

from audit_app.kernel.ids import new_id
from audit_app.kernel.redact import MASK
from audit_app.models import AuditEntry
from sessions_app.admin import account_form
from sessions_app.channels import accounts
from sessions_app.channels.connections import claims
from sessions_app.models import ChannelAccount, ChannelConnection, Delivery, InboundMessage, Pairing
from sessions_app.platforms.registry import channels
from sessions_app.platforms.signatures import make_secret
from tests.fakes.telegram import BOT_NAME, TOKEN, FakeTelegram

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

ACCOUNTS = "/admin/sessions_app/channelaccount/"
DELIVERIES = "/admin/sessions_app/delivery/"
INBOUND = "/admin/sessions_app/inboundmessage/"


def fields(**changed):
    given = {
        "channel": "telegram",
        "account_id": "main",
        "access": "open",
        "tools": "web_fetch",
        "allowed_senders": "",
        "telegram__bot_token": TOKEN,
        "own__bot_token": TOKEN,
        "is_enabled": "on",
    }
    return {**given, **changed}


@pytest.fixture
def account(db):
    made, _ = accounts.add_account("telegram", "main", config={}, secrets={"bot_token": TOKEN}, access="open", tools=[])
    return made


@pytest.fixture
def delivery(account):
    now = timezone.now()
    return Delivery.objects.create(
        dedupe_key="k",
        account=account,
        ordering_key="l",
        target={"chat": "1", "type": "direct", "thread": ""},
        status="unknown",
        text="<b>hello</b>",
        ready_at=now,
        expires_at=now,
        created_at=now,
    )


def test_an_account_is_made_and_its_secrets_are_not_shown_again(pages):
    pages.post(f"{ACCOUNTS}add/", fields(), follow=True)
    account = ChannelAccount.objects.get()
    assert set(accounts.secret_names(account)) == {"bot_token", "webhook_secret"}
    secret = accounts.make_adapter(account).account.secrets["webhook_secret"]
    for address in (ACCOUNTS, f"{ACCOUNTS}{account.pk}/change/"):
        shown = pages.get(address).content.decode()
        assert TOKEN not in shown and secret not in shown
    assert TOKEN not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"telegram__bot_token": ""}, "This is required."),
        ({"telegram__bot_token": "abc"}, "does not look like a bot"),
        ({"telegram__api_url": "example"}, "This must be an address such as"),
        ({"telegram__chat_seconds": "-1"}, "greater than or equal to 0"),
        ({"shared__denied_tools": "a b c("}, "denied tools"),
        ({"channel": "webhook"}, "This is required."),
    ],
)
def test_what_cannot_work_is_not_stored(pages, changed, error):
    shown = pages.post(f"{ACCOUNTS}add/", fields(**changed))
    assert shown.status_code == 200 and not ChannelAccount.objects.exists()
    assert error.lower() in html.unescape(shown.content.decode()).lower()


def test_each_setting_and_secret_has_a_field(pages, account):
    page = pages.get(f"{ACCOUNTS}{account.pk}/change/").content.decode()
    adapter = channels.get("telegram")
    for name in (*adapter.config_fields, *adapter.secret_fields):
        assert f'name="own__{name}"' in page
    for name in adapter.secret_fields:
        assert re.search(rf'<input type="password" name="own__{name}"(?![^>]*value=)[^>]*>', page)
    added = pages.get(f"{ACCOUNTS}add/").content.decode()
    for slug in channels.names():
        adapter = channels.get(slug)
        assert all(f'name="{slug}__{name}"' in added for name in (*adapter.config_fields, *adapter.secret_fields))


def test_the_guide_stands_before_the_fields_that_it_fills(pages, settings):
    settings.KOMAND_PUBLIC_URL = ""
    added = pages.get(f"{ACCOUNTS}add/").content.decode()
    guide, fields_of_it = added.index("api.slack.com/apps"), added.index('name="slack__bot_token"')
    assert guide < fields_of_it < added.index("More settings") < added.index('name="slack__api_url"')
    assert added.index("More settings") < added.index('name="shared__groups"')
    for slug in channels.names():
        guides = [text for when, text in account_form.guides("main", "https://a.example") if f"'{slug}'" in when]
        assert guides == [] if slug == "fake" else all(guides), slug


@pytest.mark.parametrize(
    ("public", "default"), [("", "Socket"), ("https://gateway.example", "webhook")], ids=["socket", "webhook"]
)
def test_the_page_shows_the_guide_and_the_tokens_of_the_way_of_receiving(settings, public, default):
    settings.KOMAND_PUBLIC_URL = public
    shown = account_form.conditions()
    is_socket = default == "Socket"
    assert ("'', " in shown["slack__app_token"]) is is_socket and "'socket'" in shown["slack__app_token"]
    assert ("'', " in shown["slack__signing_secret"]) is not is_socket and "'webhook'" in shown["slack__signing_secret"]
    guides = {when: text for when, text in account_form.guides("s1", "") if "slack" in when}
    assert len(guides) == 2
    [by_default] = [text for when, text in guides.items() if "['', " in when]
    assert ("socket_mode_enabled: true" in by_default) is is_socket


def test_the_page_of_a_mail_account_asks_for_what_its_login_needs(pages):
    shown = account_form.conditions()
    assert "['', 'password'].includes(email__auth" in shown["email__password"]
    assert "['oauth2'].includes(email__auth" in shown["email__oauth_refresh_token"]
    hosts = {"email__imap_host": "imap.gmail.com", "email__smtp_host": "smtp.gmail.com"}
    given = {"email__address": "a@example.org", "email__auth": "oauth2", **hosts}
    page = pages.post(f"{ACCOUNTS}add/", fields(channel="email", **given)).content.decode()
    assert page.count("This is required.") == 2
    given |= {"email__oauth_client_id": "id", "email__oauth_refresh_token": "token"}
    pages.post(f"{ACCOUNTS}add/", fields(channel="email", **given))
    assert ChannelAccount.objects.get().config["auth"] == "oauth2"


def test_required_fields_are_marked(pages):
    added = pages.get(f"{ACCOUNTS}add/").content.decode()
    marked = {
        name
        for name, label in re.findall(r'<label[^>]*for="id_(\w+)"[^>]*>(.*?)</label>', added, re.DOTALL)
        if "k-required" in label
    }
    assert marked >= {"slack__bot_token", "slack__app_token", "email__address", "email__password", "web__origins"}
    assert not marked & {"slack__receive", "email__smtp_port", "telegram__webhook_secret", "email__link_key"}


def test_a_new_mail_account_needs_no_auth_server(pages):
    given = {"email__address": "a@example.org", "email__imap_host": "i", "email__smtp_host": "s"}
    pages.post(f"{ACCOUNTS}add/", fields(channel="email", email__password="pw", **given))
    assert ChannelAccount.objects.get().channel == "email"


def test_what_slack_lacks_is_marked_at_its_field(pages, settings):
    settings.KOMAND_PUBLIC_URL = ""
    shown = pages.post(f"{ACCOUNTS}add/", fields(channel="slack", slack__bot_token="xoxb-1"))
    assert shown.context["adminform"].form.errors == {"slack__app_token": ["This is required."]}


def test_the_webhook_address_has_its_host(pages, account, settings):
    path, page = "/channels/telegram/main/webhook", f"{ACCOUNTS}{account.pk}/change/"
    settings.KOMAND_PUBLIC_URL = ""
    assert f"http://testserver{path} (as this page was reached" in pages.get(page).content.decode()
    settings.KOMAND_PUBLIC_URL = "https://komand.example.org"
    shown = pages.get(page).content.decode()
    assert f"https://komand.example.org{path}" in shown and "testserver" not in shown


def test_an_optional_secret_can_be_removed(pages):
    given = {"channel": "webhook", "account_id": "crm", "webhook__callback_url": "https://example.org/in"}
    pages.post(f"{ACCOUNTS}add/", fields(**given, webhook__previous_secret=make_secret()))
    [account] = ChannelAccount.objects.all()
    assert "previous_secret" in accounts.secret_names(account)
    page = f"{ACCOUNTS}{account.pk}/change/"
    kept = fields(own__callback_url="https://example.org/in")
    pages.post(page, {**kept, "remove_secrets": ["secret"]})
    pages.post(page, {**kept, "remove_secrets": ["previous_secret"]})
    account.refresh_from_db()
    assert accounts.secret_names(account) == ("secret",)


def test_who_may_only_look_sees_an_account(staff, account):
    shown = staff("sessions_app.view_channelaccount").get(f"{ACCOUNTS}{account.pk}/change/")
    assert shown.status_code == 200 and TOKEN not in shown.content.decode()


def test_an_account_is_changed_and_keeps_its_secrets(pages, account):
    change = fields(
        own__bot_token="",
        allowed_senders="1, 2",
        access="allow_list",
        own__read_all_groups="true",
        own__known_bots="7, 8",
        own__chat_seconds="2.5",
        shared__denied_tools="echo",
    )
    pages.post(f"{ACCOUNTS}{account.pk}/change/", change)
    account.refresh_from_db()
    assert account.allowed_senders == ["1", "2"] and account.config == {
        "read_all_groups": True,
        "known_bots": ["7", "8"],
        "chat_seconds": 2.5,
        "denied_tools": ["echo"],
    }
    assert "bot_token" in accounts.secret_names(account)


def test_a_pairing_code_is_made(pages, account):
    pages.post(f"{ACCOUNTS}{account.pk}/pair/", {"_form_submitted": "True"})
    assert Pairing.objects.get().account == account


def test_an_account_is_tried_out(pages, account):
    with FakeTelegram() as platform:
        accounts.change_account(account, config={"api_url": platform.url})
        pages.post(f"{ACCOUNTS}{account.pk}/test/", {"_form_submitted": "True"})
        assert "getMe" in platform.methods()
    account.refresh_from_db()
    assert account.config["bot_username"] == BOT_NAME
    shown = pages.post(f"{ACCOUNTS}{account.pk}/test/", {"_form_submitted": "True"}, follow=True).content.decode()
    assert "No connection to 127.0.0.1" in shown and TOKEN not in shown


def test_traffic_is_shown_as_text(pages, account, delivery):
    now = timezone.now()
    row = InboundMessage.objects.create(
        account=account,
        message_id="1:1",
        sender_id="1",
        sender_name="<i>Eve",
        chat_id="1",
        text="<u>evil",
        raw='{"a": "<img>"}',
        sent_at=now,
        received_at=now,
        reason="no_text",
    )
    for address in (INBOUND, f"{INBOUND}{row.pk}/change/", DELIVERIES, f"{DELIVERIES}{delivery.pk}/change/"):
        shown = pages.get(address).content.decode()
        assert not [text for text in ("<u>evil", "<i>Eve", "<b>hello", "<img>") if text in shown]


@pytest.mark.parametrize(
    "raw",
    [
        r'{"id": "m1", "back": ["https:\/\/reply.test\/T0\/B1/x"], "token": "T0/B1"}',
        "id=m1&back=https%3A%2F%2Freply.test%2FT0%2FB1",
    ],
    ids=["json", "form"],
)
def test_what_a_platform_wants_back_with_the_answer_is_not_shown(pages, account, raw):
    now = timezone.now()
    row = InboundMessage.objects.create(
        account=account,
        message_id="m1",
        sender_id="1",
        chat_id="1",
        raw=raw,
        sent_at=now,
        received_at=now,
        metadata={"chatId": "1", "reference": {"url": "https://reply.test/T0/B1", "ttl": 7}},
    )
    shown = pages.get(f"{INBOUND}{row.pk}/change/").content.decode()
    assert not [secret for secret in ("T0/B1", "T0%2FB1") if secret in shown]
    assert "url" in shown and "ttl" in shown and shown.count(MASK) >= 3


def test_what_was_given_up_is_sent_again_after_a_question(pages, delivery):
    posted = {"action": "send_again", "_selected_action": [delivery.pk]}
    assert "twice" in pages.post(DELIVERIES, posted).content.decode()
    assert Delivery.objects.get().status == "unknown"
    pages.post(DELIVERIES, {**posted, "confirmed": "yes"})
    assert Delivery.objects.get().status == "pending"
    assert AuditEntry.objects.filter(action="DeliveriesSentAgain").exists()


def test_who_may_only_look_sends_nothing_again(staff, delivery):
    client = staff("sessions_app.view_delivery")
    client.post(DELIVERIES, {"action": "send_again", "_selected_action": [delivery.pk], "confirmed": "yes"})
    assert Delivery.objects.get().status == "unknown"


@pytest.mark.parametrize("secrets", [{}, {"own__webhook_secret": "another-secret-of-ours"}])
def test_stored_secrets_are_not_sent_to_another_address(pages, account, secrets):
    elsewhere = {**fields(own__bot_token="", own__api_url="https://evil.test"), **secrets}
    shown = pages.post(f"{ACCOUNTS}{account.pk}/change/", elsewhere).content.decode()
    assert "The address has changed. Enter these secrets again:" in shown
    account.refresh_from_db()
    assert account.config == {}


MAIL = {
    "address": "bot@ours.test",
    "imap_host": "imap.ours.test",
    "imap_port": 993,
    "imap_security": "tls",
    "smtp_host": "smtp.ours.test",
    "smtp_port": 465,
    "smtp_security": "tls",
}


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("imap_host", "evil.test"),
        ("imap_port", 1993),
        ("imap_security", "none"),
        ("smtp_host", "evil.test"),
        ("smtp_port", 2465),
        ("smtp_security", "starttls"),
        ("oauth_token_url", "https://evil.test/token"),
    ],
)
def test_the_password_of_a_mailbox_is_not_sent_to_another_server(pages, name, other):
    account, _ = accounts.add_account(
        "email", "main", config=MAIL, secrets={"password": "secret-of-the-mailbox"}, access="open", tools=[]
    )
    page = f"{ACCOUNTS}{account.pk}/change/"
    given = {f"own__{field}": value for field, value in {**MAIL, name: other}.items()}
    same = {"access": "open", "tools": "web_fetch", "is_enabled": "on"}
    shown = pages.post(page, {**same, **given}).content.decode()
    assert "The address has changed. Enter these secrets again: password." in shown
    account.refresh_from_db()
    assert account.config == MAIL
    pages.post(page, {**same, **given, "own__password": "secret-of-the-other"})
    account.refresh_from_db()
    assert account.config[name] == other


def test_an_account_may_move_with_all_its_secrets_entered_anew(pages, account):
    moved = fields(own__webhook_secret="another-secret-of-ours", own__api_url="https://a.test")
    pages.post(f"{ACCOUNTS}{account.pk}/change/", moved)
    account.refresh_from_db()
    assert account.config == {"api_url": "https://a.test"}


def test_secrets_that_cannot_be_opened_any_more_are_entered_again(pages, account):
    ChannelAccount.objects.update(secrets_sealed="sealed-with-a-key-that-is-gone")
    page = f"{ACCOUNTS}{account.pk}/change/"
    assert "Enter it again" in pages.post(page, fields(own__bot_token="")).content.decode()
    pages.post(page, fields())
    account.refresh_from_db()
    assert set(accounts.secret_names(account)) == {"bot_token", "webhook_secret"}


def test_a_secret_that_nobody_enters_anywhere_is_not_shown(pages):
    shown = pages.post(f"{ACCOUNTS}add/", fields(), follow=True).content.decode()
    [account] = ChannelAccount.objects.all()
    assert accounts.make_adapter(account).account.secrets["webhook_secret"] not in shown
    assert "you will not see it again" not in shown


def test_a_secret_that_was_made_is_shown_once(pages):
    given = fields(channel="webhook", account_id="crm", webhook__callback_url="https://example.org/in")
    shown = pages.post(f"{ACCOUNTS}add/", given, follow=True).content.decode()
    [account] = ChannelAccount.objects.all()
    secret = accounts.make_adapter(account).account.secrets["secret"]
    assert f'id="secret-secret" readonly autocomplete="off" spellcheck="false" value="{secret}"' in shown
    assert "Secret, " in shown and secret not in pages.get(ACCOUNTS).content.decode()


def test_only_who_may_change_credentials_names_one_of_the_installation(staff, account):
    browser = staff("sessions_app.change_channelaccount", "sessions_app.view_channelaccount")
    named = fields(own__bot_token="{{credential:BOSS}}")
    refused = browser.post(f"{ACCOUNTS}{account.pk}/change/", named).content.decode()
    assert "takes the right tools_app.change_credential" in refused


def test_the_page_shows_the_connection_of_an_account_without_a_webhook(pages, account, settings):
    claims.claim(account, new_id(), set())
    claims.note_attention(account, ChannelConnection.objects.get().holder, "Enter the <b>bot_token</b> again.")
    page = pages.get(f"{ACCOUNTS}{account.pk}/change/").content.decode()
    assert "needs attention since" in page and "Enter the &lt;b&gt;bot_token&lt;/b&gt; again." in page
    settings.KOMAND_PUBLIC_URL = "https://gateway.example"
    accounts.change_account(account, config={"receive": "webhook"})
    page = pages.get(f"{ACCOUNTS}{account.pk}/change/").content.decode()
    assert "it receives by webhook" in page and '<option value="webhook" selected' in page


def test_an_empty_list_offers_to_clear_filters_only_if_there_are_some(pages):
    address = reverse("admin:sessions_app_delivery_changelist")
    assert "Answers to channels appear here" in pages.get(address).content.decode()
    assert "Clear the search and the filters" in pages.get(f"{address}?status__exact=sent").content.decode()
