"""Channel accounts over REST: their state without secrets, routes, and deliveries that were given up."""

from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from agents_app.models import StoredNetwork
from audit_app.models import AuditEntry
from sessions_app.channels import accounts
from sessions_app.channels.outbound import outbox
from sessions_app.models import ChannelAccount, ChannelRoute, Delivery
from sessions_app.rights import MANAGE_CHANNELS, RESEND_DELIVERIES, VIEW_CHANNELS, VIEW_DELIVERIES
from tests.fakes.telegram import TOKEN
from tests.support.rest import RestCaller, make_agent, make_user
from tests.support.rights import make_operator

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.fixture
def account(db: None) -> ChannelAccount:
    make_agent()
    config = {"agents": ["default"], "receive": "polling", "api_url": "https://bots.example.org/private"}
    made, _ = accounts.add_account("telegram", "main", config=config, secrets={"bot_token": TOKEN})
    return made


@pytest.fixture
def api(account: ChannelAccount) -> RestCaller:
    return RestCaller(make_operator("op", MANAGE_CHANNELS))


def make_delivery(account: ChannelAccount, status: str, **fields: Any) -> Delivery:
    now, chat = timezone.now(), {"chat": "501", "type": "direct", "thread": ""}
    key = outbox.question_key(uuid4())
    times = {"ready_at": now, "expires_at": now, "created_at": now}
    given = {"dedupe_key": key, "ordering_key": key, "target": chat, "status": status, "text": "hello", **fields}
    return Delivery.objects.create(account=account, **given, **times)


def test_an_account_is_shown_with_its_state_and_no_secrets(api: RestCaller, account: ChannelAccount) -> None:
    accounts.note_error(account, "The platform is away.")
    for status in ("pending", "failed", "failed", "sent"):
        make_delivery(account, status)
    answer = api.get(f"channels/{account.pk}")
    shown = answer.data
    assert shown["accountId"] == "main" and shown["agentId"] == "default" and shown["access"] == "paired"
    assert shown["queue"] == {"pending": 1, "sending": 0, "failed": 2, "unknown": 0, "expired": 0}
    assert shown["lastError"] == "The platform is away." and shown["lastInboundAt"] is None
    assert shown["connection"]["isOk"] is False and "sockets" in shown["connection"]["remedy"]
    assert shown["choosableAgents"] == ["default"] and shown["warnings"] == [] and shown["refusedLastDay"] == 0
    secret = accounts.make_adapter(account).account.secrets["webhook_secret"]
    assert not [word for word in (TOKEN, secret, "private") if word in str(answer.data)]
    assert api.get("channels").data == [shown]


def test_a_route_is_added_changed_and_deleted(api: RestCaller, account: ChannelAccount) -> None:
    make_agent("sales")
    StoredNetwork.objects.create(
        name="desk", definition="name: desk\ntasks:\n- name: only\n", is_shared_with_everyone=True
    )
    made = api.post(f"channels/{account.pk}/routes", {"chatId": "501", "agentId": "sales"}).data
    assert (made["chatId"], made["senderId"], made["agentId"], made["network"]) == ("501", "", "sales", None)
    path = f"channels/{account.pk}/routes/{made['id']}"
    changed = api.put(path, {"network": "desk"}).data
    assert (changed["chatId"], changed["agentId"], changed["network"]) == ("501", None, "desk")
    assert api.put(path, {"senderId": "7"}).data == api.get(path).data
    assert ChannelRoute.objects.get().sender_id == "7" and len(api.get(f"channels/{account.pk}/routes").data) == 1
    assert api.delete(path).data is None and api.get(path).meta["code"] == "unknown_route"
    assert AuditEntry.objects.filter(action__startswith="ChannelRoute").count() == 4


def test_what_cannot_be_a_route_is_refused(api: RestCaller, account: ChannelAccount) -> None:
    make_agent("secret", is_shared_with_everyone=False)
    make_agent("web", allowed_channels=["WebChat"])
    for name, agent in (("hidden", "default"), ("theirs", "secret"), ("webs", "web")):
        definition = f"name: {name}\ntasks:\n- name: only\n  agent: {agent}\n"
        StoredNetwork.objects.create(name=name, definition=definition, is_shared_with_everyone=name != "hidden")
    path = f"channels/{account.pk}/routes"
    api.post(path, {"chatId": "1", "agentId": "default"})
    refused = {
        "route_exists": {"chatId": "1", "agentId": "default"},
        "route_target": {"chatId": "2"},
        "unknown_agent": {"agentId": "secret"},
        "unknown_network": {"network": "hidden"},
        "channel_not_allowed": {"network": "webs"},
    }
    for code, body in refused.items():
        assert api.post(path, body).meta["code"] == code
    assert "there is no agent 'secret'" in api.post(path, {"network": "theirs"}).error
    both = {"agentId": "default", "network": "webs", "chatId": "3"}
    assert api.post(path, both).meta["code"] == "route_target" and ChannelRoute.objects.count() == 1


def test_routes_of_another_account_are_not_found(api: RestCaller, account: ChannelAccount) -> None:
    other, _ = accounts.add_account("telegram", "other", config={}, secrets={"bot_token": TOKEN})
    made = api.post(f"channels/{account.pk}/routes", {"agentId": "default"}).data
    for call in (api.get, api.delete):
        assert call(f"channels/{other.pk}/routes/{made['id']}").meta["code"] == "unknown_route"
    assert api.get(f"channels/{uuid4()}/routes").meta["code"] == "unknown_channel_account"


def test_each_right_opens_its_part(account: ChannelAccount) -> None:
    dead, path = make_delivery(account, "failed"), f"channels/{account.pk}"
    opened = {
        VIEW_CHANNELS: [("GET", path), ("GET", f"{path}/routes")],
        VIEW_DELIVERIES: [("GET", f"{path}/deliveries")],
        RESEND_DELIVERIES: [("GET", f"{path}/deliveries"), ("POST", f"{path}/deliveries/{dead.pk}/send-again")],
        MANAGE_CHANNELS: [("GET", path), ("GET", f"{path}/routes"), ("POST", f"{path}/routes")],
    }
    every = sorted({request for requests in opened.values() for request in requests})
    for number, (right, requests) in enumerate(opened.items()):
        caller = RestCaller(make_operator(f"ann{number}", right))
        allowed = [one for one in every if caller(*one, {}).status != 403]
        assert sorted(requests) == allowed, right
    sam = RestCaller(make_user("sam"))
    assert {sam(*one, {}).status for one in every} == {403}


def test_deliveries_that_were_given_up_are_sent_again(account: ChannelAccount) -> None:
    api = RestCaller(make_operator("op", RESEND_DELIVERIES))
    failed, expired, sent = (make_delivery(account, status) for status in ("failed", "expired", "sent"))
    listed = api.get(f"channels/{account.pk}/deliveries")
    assert [row["id"] for row in listed.data] == [expired.pk, failed.pk] and listed.meta["total"] == 2
    assert listed.data[0]["chatId"] == "501" and listed.data[0]["text"] == "hello"
    assert [row["id"] for row in api.get(f"channels/{account.pk}/deliveries?status=failed").data] == [failed.pk]
    assert api.get(f"channels/{account.pk}/deliveries?status=sent").status == 400
    again = api.post(f"channels/{account.pk}/deliveries/{failed.pk}/send-again")
    assert again.data["status"] == "pending"
    for pk in (failed.pk, sent.pk):
        assert api.post(f"channels/{account.pk}/deliveries/{pk}/send-again").meta["code"] == "not_given_up"
    assert api.post(f"channels/{account.pk}/deliveries/{2**40}/send-again").status == 404
    entry = AuditEntry.objects.filter(action="DeliveriesSentAgain").latest("id")
    assert entry.details["deliveries"] in ([failed.pk], [sent.pk])
