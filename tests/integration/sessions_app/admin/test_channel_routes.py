"""Routes of channel accounts in the admin, and the agents that senders may choose."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from agents_app.models import Agent, StoredNetwork
from audit_app.models import AuditEntry
from sessions_app.channels import accounts
from sessions_app.models import ChannelAccount, ChannelRoute
from tests.fakes.telegram import TOKEN
from tests.support.rest import make_agent

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

ROUTES = "/admin/sessions_app/channelroute/"


@pytest.fixture
def account(db: None) -> ChannelAccount:
    make_agent()
    make_agent("secret", is_shared_with_everyone=False)
    made, _ = accounts.add_account("telegram", "main", config={}, secrets={"bot_token": TOKEN})
    return made


@pytest.fixture
def ann(staff: Callable[..., Client]) -> Client:
    """Return the browser of an operator of channels who may use the default agent alone."""
    return staff("sessions_app.change_channelaccount", name="ann")


def fields(account: ChannelAccount, **given: Any) -> dict[str, Any]:
    return {"account": account.pk, "chat_id": "501", "sender_id": "", "agent": "", "network": "", **given}


def pk_of(agent_id: str) -> Any:
    return Agent.objects.get(agent_id=agent_id).pk


def test_a_route_is_added_changed_and_deleted(ann: Client, account: ChannelAccount) -> None:
    ann.post(f"{ROUTES}add/", fields(account, agent=pk_of("default")))
    route = ChannelRoute.objects.get()
    assert (route.chat_id, route.agent_id) == ("501", pk_of("default"))
    shown = ann.get(f"{ROUTES}?account__id__exact={account.pk}").content.decode()
    assert "anyone in 501" in shown and "an operator" in shown
    ann.post(f"{ROUTES}{route.pk}/change/", fields(account, sender_id="7", agent=pk_of("default")))
    assert ChannelRoute.objects.get().sender_id == "7"
    ann.post(f"{ROUTES}{route.pk}/delete/", {"post": "yes"})
    assert not ChannelRoute.objects.exists()
    actions = (
        AuditEntry.objects.filter(action__startswith="ChannelRoute").order_by("id").values_list("action", flat=True)
    )
    assert list(actions) == ["ChannelRouteCreated", "ChannelRouteUpdated", "ChannelRouteDeleted"]


def test_what_cannot_be_a_route_is_refused(ann: Client, account: ChannelAccount) -> None:
    make_agent("web", allowed_channels=["WebChat"])
    definition = "name: desk\ntasks:\n- name: only\n  agent: secret\n"
    desk = StoredNetwork.objects.create(name="desk", definition=definition, is_shared_with_everyone=True)
    refused = {
        "not both": fields(account),
        "Select a valid choice": fields(account, agent=pk_of("secret")),
        "there is no agent": fields(account, network=desk.pk),
        "does not serve Telegram": fields(account, agent=pk_of("web")),
    }
    for problem, given in refused.items():
        assert problem in ann.post(f"{ROUTES}add/", given).content.decode()
    assert not ChannelRoute.objects.exists()
    given = fields(account, agent=pk_of("default"))
    ann.post(f"{ROUTES}add/", given)
    assert "already exists" in ann.post(f"{ROUTES}add/", given).content.decode()


def test_the_page_of_the_account_leads_to_its_routes(pages: Client, account: ChannelAccount) -> None:
    ChannelRoute.objects.create(account=account, agent=Agent.objects.get(agent_id="default"))
    shown = pages.get(f"/admin/sessions_app/channelaccount/{account.pk}/change/").content.decode()
    assert f'{ROUTES}?account__id__exact={account.pk}">1 route<' in shown


def test_senders_choose_only_agents_that_the_operator_may_use(ann: Client, account: ChannelAccount) -> None:
    page = f"/admin/sessions_app/channelaccount/{account.pk}/change/"
    given = {"access": "paired", "is_enabled": "on", "account_id": "main", "channel": "telegram"}
    refused = ann.post(page, {**given, "shared__agents": "default, secret"}).content.decode()
    assert "names no agent that you may use: secret" in refused
    ann.post(page, {**given, "shared__agents": "default"})
    assert ChannelAccount.objects.get().config == {"agents": ["default"]}
