"""The set-up page of a channel account shows what to create, the test, and how far a first message has come."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents_app.models import Agent, ModelProvider, Run
from sessions_app.channels import accounts
from sessions_app.models import ChannelAccount, Delivery, InboundMessage, Pairing
from tests.fakes.mail_server import PASSWORD, FakeMailServer
from tests.fakes.telegram import BOT_NAME, TOKEN, FakeTelegram

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

ACCOUNTS = "/admin/sessions_app/channelaccount/"


@pytest.fixture
def account(db):
    made, _ = accounts.add_account("telegram", "main", config={}, secrets={"bot_token": TOKEN})
    return made


def shown(pages, account, **query):
    since = timezone.now() - timedelta(minutes=1)
    asked = {"since": f"{since.timestamp():.0f}", **query}
    return pages.get(f"{ACCOUNTS}{account.pk}/set-up/", asked).content.decode()


def arrive(account, **columns):
    now = timezone.now()
    given = {"message_id": "7", "sender_id": "501", "sender_name": "Ann", "chat_id": "501", "text": "hello <b>"}
    return InboundMessage.objects.create(account=account, sent_at=now, received_at=now, **{**given, **columns})


def run_of(**columns):
    provider = ModelProvider.objects.create(name="scripted", kind="scripted")
    agent = Agent.objects.create(agent_id="helper", name="Helper", provider=provider)
    return Run.objects.create(
        conversation_id=agent.pk, ordinal=1, agent=agent, actor="user:1", created_at=timezone.now(), **columns
    )


def deliver(account, run, status, error=""):
    now = timezone.now()
    times = {"ready_at": now, "expires_at": now, "created_at": now}
    Delivery.objects.create(
        dedupe_key=f"{run.pk}:{status}", account=account, run=run, ordering_key="l", status=status, error=error, **times
    )


def test_a_new_account_goes_on_to_its_set_up_page(pages):
    fields = {"channel": "telegram", "account_id": "main", "access": "paired", "telegram__bot_token": TOKEN}
    response = pages.post(f"{ACCOUNTS}add/", {**fields, "tools": "", "allowed_senders": "", "is_enabled": "on"})
    account = ChannelAccount.objects.get()
    assert response["Location"] == f"{ACCOUNTS}{account.pk}/set-up/"
    page = pages.get(response["Location"], follow=True)
    assert "since=" in page.redirect_chain[0][0]
    text = page.content.decode()
    assert "@BotFather</a>" in text and "bot_token" in text and TOKEN not in text
    assert "waiting for the first message" in text and 'hx-trigger="every 2s' in text


def test_the_test_is_run_from_the_page(pages, account):
    with FakeTelegram() as platform:
        accounts.change_account(account, config={"api_url": platform.url})
        response = pages.post(f"{ACCOUNTS}{account.pk}/set-up/?since=1", {"action": "test"}, follow=True)
    assert BOT_NAME in response.content.decode()


def test_a_refused_sender_is_explained_and_gets_a_code(pages, account):
    arrive(account, reason="not_paired")
    text = shown(pages, account)
    assert "not paired with the account" in text and "Ann: hello &lt;b&gt;" in text
    response = pages.post(f"{ACCOUNTS}{account.pk}/set-up/?since=1", {"action": "pair"}, follow=True)
    assert "/pair " in response.content.decode()
    assert Pairing.objects.filter(account=account, sender_id="").count() == 1


def test_the_round_trip_ends_when_the_answer_was_sent(pages, account):
    run = run_of(status="completed")
    arrive(account, run=run)
    assert "is being answered" in shown(pages, account)
    deliver(account, run, "pending")
    assert "is being answered" in shown(pages, account)
    Delivery.objects.update(status="sent")
    text = shown(pages, account)
    assert "works in both directions" in text and "hx-trigger" not in text.partition('id="first-message"')[2][:200]


def test_an_answer_that_did_not_arrive_is_shown_with_its_error(pages, account):
    run = run_of(status="completed")
    arrive(account, run=run)
    deliver(account, run, "failed", "Forbidden: bot was blocked by the user")
    assert "bot was blocked by the user" in shown(pages, account)


def test_a_failed_run_is_shown_with_its_reason(pages, account):
    arrive(account, run=run_of(status="failed", error_message="The model server does not answer."))
    assert "The model server does not answer." in shown(pages, account)


def test_messages_from_before_do_not_count(pages, account):
    row = arrive(account)
    InboundMessage.objects.filter(pk=row.pk).update(received_at=timezone.now() - timedelta(hours=1))
    assert "waiting for the first message" in shown(pages, account)


@pytest.mark.parametrize("since", ["", "x", "-1", "9" * 30])
def test_a_nonsense_time_counts_from_now_on(pages, account, since):
    row = arrive(account)
    InboundMessage.objects.filter(pk=row.pk).update(received_at=timezone.now() - timedelta(minutes=1))
    assert "waiting for the first message" in shown(pages, account, since=since)


def test_viewers_do_not_open_it(pages, account, client, django_user_model):
    client.force_login(django_user_model.objects.create_user("viewer", is_staff=True))
    assert client.get(f"{ACCOUNTS}{account.pk}/set-up/?since=1").status_code in (302, 403, 404)


def test_a_web_chat_has_the_line_for_the_site_and_a_test_page(pages, settings):
    settings.KOMAND_PUBLIC_URL = "https://komand.example"
    made, _ = accounts.add_account("web", "shop", config={"origins": ["https://a.example"]}, secrets={})
    text = shown(pages, made)
    assert "https://komand.example/webchat/shop/embed.js" in text and "{origin}" not in text
    assert 'href="/webchat/shop/test"' in text
    response = pages.post(f"{ACCOUNTS}{made.pk}/set-up/?since=1", {"action": "test"}, follow=True)
    assert "Pages of https://a.example can show the chat." in response.content.decode()


def test_a_web_chat_has_the_address_under_which_the_page_was_asked_for(pages, settings):
    settings.KOMAND_PUBLIC_URL = ""
    made, _ = accounts.add_account("web", "shop", config={"origins": ["https://a.example"]}, secrets={})
    text = shown(pages, made)
    assert "http://testserver/webchat/shop/embed.js" in text and "komand.example" not in text
    assert "<code>KOMAND_PUBLIC_URL</code> is not set" in text


def test_steps_before_the_account_are_folded_once_it_exists(pages):
    made, _ = accounts.add_account("web", "shop", config={"origins": ["https://a.example"]}, secrets={})
    now, _, earlier = shown(pages, made).partition("<details>")
    assert "Paste this line" in now and "Paste this line" not in earlier
    assert "Enter the addresses of the sites" in earlier and "Enter the addresses of the sites" not in now


def test_after_pairing_the_page_says_so_and_offers_no_second_code(pages, account):
    assert 'value="pair"' in shown(pages, account)
    arrive(account, reason="paired")
    text = shown(pages, account)
    assert "The sender is paired now." in text and 'value="pair"' not in text
    assert "not given to the agent" not in text


def test_the_server_of_the_newest_mail_is_offered_and_set_only_if_the_test_offers_it(pages):
    with FakeMailServer() as server:
        server.arrive(b"Authentication-Results: mx.komand.example; dmarc=pass\r\nFrom: zoe@example.org\r\n\r\nHi\r\n")
        config = {name: value for name, value in server.config.items() if name != "auth_server"}
        made, _ = accounts.add_account("email", "main", config=config, secrets={"password": PASSWORD})
        page = f"{ACCOUNTS}{made.pk}/set-up/?since=1"
        assert "Set auth_server to mx.komand.example" in pages.post(page, {"action": "test"}).content.decode()
        pages.post(page, {"accept": "smtp_host", "value": "evil.example"})
        made.refresh_from_db()
        assert made.config == config
        pages.post(page, {"accept": "auth_server", "value": "evil.example"})
    made.refresh_from_db()
    assert made.config == {**config, "auth_server": "mx.komand.example"}
