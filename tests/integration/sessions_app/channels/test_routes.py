"""The agent or network that answers a message: routes of operators, choices of senders, sessions that follow."""

from typing import Any

import pytest

from agents_app.models import Agent, Run, StoredNetwork
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from audit_app.kernel.errors import Conflict, Forbidden, InvalidInput
from audit_app.models import AuditEntry
from sessions_app.channels import open_access, routes
from sessions_app.channels.outbound.chat_migration import move_chat
from sessions_app.models import ChannelAccount, ChannelRoute, Delivery, InboundMessage, Session, Turn
from sessions_app.services import bind_session
from tests.fakes.telegram import FakeTelegram, group_update, private_update
from tests.support.channels import add_telegram, settle, telegram
from tests.support.engine import EngineRig
from tests.support.rest import make_agent
from tests.support.team_script import TeamScript

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

GROUP = -100777


@pytest.fixture
def account(valkey: object, monkeypatch: pytest.MonkeyPatch, platform: FakeTelegram) -> ChannelAccount:
    """Return an account whose senders may choose between two agents. The engine is not started."""
    EngineRig(monkeypatch).agent(Reply(("fine",)))
    for agent_id in ("sales", "support", "secret"):
        make_agent(agent_id, name=agent_id.capitalize(), is_shared_with_everyone=False)
    return add_telegram(platform, config={"groups": "all", "agents": ["sales", "support"]})


def add(
    account: ChannelAccount, agent_id: str = "", network: StoredNetwork | None = None, **place: str
) -> ChannelRoute:
    agent = Agent.objects.get(agent_id=agent_id) if agent_id else None
    return routes.save(ChannelRoute(account=account, agent=agent, network=network, **place))


def make_network(definition: str = "tasks:\n- name: only\n", name: str = "desk") -> StoredNetwork:
    return StoredNetwork.objects.create(name=name, definition=f"name: {name}\n{definition}")


class Sender:
    """Somebody who writes, each message with a number that no test names. chat: None for the direct chat."""

    numbers = iter(range(1_000, 10_000))

    def __init__(self, user: int = 501, chat: int | None = None) -> None:
        self._user, self._chat = user, chat

    def __call__(self, text: str) -> str:
        """Send a message; return the agent of its run, else the notice that it gets."""
        number = next(self.numbers)
        if self._chat:
            telegram(group_update(number, text, user=self._user, chat=self._chat))
        else:
            telegram(private_update(number, text, user=self._user))
        row = InboundMessage.objects.select_related("run__agent").order_by("-id")[0]
        if row.run:
            return row.run.agent.agent_id
        return Delivery.objects.get(dedupe_key=f"inbound:{row.pk}:0").text


def test_the_most_specific_route_answers(account: ChannelAccount) -> None:
    add(account, "sales")
    assert Sender()("hi") == "sales"
    add(account, "support", chat_id=str(GROUP))
    assert Sender(chat=GROUP)("hi") == "support" and Sender(502)("hi") == "sales"
    add(account, "secret", sender_id="501")
    assert Sender(chat=GROUP)("hi") == "secret" and Sender(502, GROUP)("hi") == "support"
    add(account, "default", chat_id=str(GROUP), sender_id="501")
    assert Sender(chat=GROUP)("hi") == "default" and Sender()("hi") == "secret"


def test_a_session_follows_the_route_and_returns_when_it_is_gone(account: ChannelAccount) -> None:
    ada = Sender()
    assert ada("hi") == "default"
    route = add(account, "sales", chat_id="501")
    assert ada("and now?") == "sales"
    session = Session.objects.get()
    assert session.agent.agent_id == "sales" and Turn.objects.filter(session=session).count() == 2
    routes.remove(route)
    assert ada("and now?") == "default" and Session.objects.count() == 1
    assert AuditEntry.objects.filter(action="SessionBound").count() == 2
    changes = AuditEntry.objects.filter(action__startswith="ChannelRoute").order_by("id")
    assert [entry.action for entry in changes] == ["ChannelRouteCreated", "ChannelRouteDeleted"]


def test_a_session_that_began_under_a_route_returns_too(account: ChannelAccount) -> None:
    ada, route = Sender(), add(account, "sales", sender_id="501")
    assert ada("hi") == "sales"
    routes.remove(route)
    assert ada("hi") == "default"


def test_what_an_operator_has_bound_stays_without_a_route(account: ChannelAccount) -> None:
    ada = Sender()
    ada("hi")
    bind_session(Session.objects.get(), Agent.objects.get(agent_id="secret"))
    assert ada("hi") == "secret"
    route = add(account, "sales", sender_id="501")
    assert ada("hi") == "sales"
    bind_session(Session.objects.get(), Agent.objects.get(agent_id="secret"))
    routes.remove(route)
    assert ada("hi") == "secret"


def test_a_message_does_not_join_the_run_of_another_agent(account: ChannelAccount) -> None:
    Agent.objects.update(busy_policy="steer")
    ada = Sender()
    ada("one")
    ada("two")
    assert Run.objects.get().user_turn_count == 2
    add(account, "sales", sender_id="501")
    assert ada("three") == "sales" and Run.objects.count() == 2


def test_a_route_needs_one_target_and_is_unique(account: ChannelAccount) -> None:
    with pytest.raises(InvalidInput):
        add(account, chat_id="501")
    with pytest.raises(InvalidInput):
        add(account, "sales", make_network())
    add(account, "sales", chat_id="501")
    with pytest.raises(Conflict):
        add(account, "support", chat_id="501")


def test_a_sender_chooses_and_goes_back(account: ChannelAccount) -> None:
    ada = Sender()
    assert ada("hi") == "default"
    listed = ada("/agent")
    assert "sales: Sales" in listed and "support: Support" in listed and "secret" not in listed
    assert ada("/agent secret").startswith("There is no such agent")
    assert ada("/agent Sales").startswith("Sales answers here from now on.")
    assert ada("hi") == "sales" and Sender(502)("hi") == "default"
    assert "sales: Sales (now)" in ada("/agent") and "Sales is working" in ada("/status")
    assert "operator's choice" in ada("/agent default") and ada("hi") == "default"
    chosen = AuditEntry.objects.filter(action="AgentChosen").order_by("id")
    assert [entry.details["sender_id"] for entry in chosen] == ["501", "501"]


def test_a_choice_in_a_group_is_for_the_group(account: ChannelAccount) -> None:
    assert Sender(501, GROUP)("/agent sales").startswith("Sales answers here")
    assert Sender(502, GROUP)("hi") == "sales" and Sender(501)("hi") == "default"


def test_a_choice_ends_when_the_operator_withdraws_it(account: ChannelAccount) -> None:
    ada = Sender()
    ada("/agent sales")
    assert ada("hi") == "sales"
    ChannelAccount.objects.update(config={**account.config, "agents": ["support"]})
    assert ada("hi") == "default"
    ada("/agent support")
    Agent.objects.filter(agent_id="support").update(allowed_channels=["WebChat"])
    assert ada("hi") == "default" and "operator has chosen" in ada("/agent")
    Agent.objects.filter(agent_id="support").update(allowed_channels=["Telegram"])
    assert ada("hi") == "support"
    Agent.objects.filter(agent_id="support").update(retired_at=account.created_at)
    assert ada("hi") == "default"


def test_nothing_can_be_chosen_where_the_operator_has_chosen(account: ChannelAccount) -> None:
    ada, refusal = Sender(), "The operator has chosen who answers here."
    ada("/agent sales")
    add(account, "secret", sender_id="501")
    assert ada("/agent support") == refusal and ada("hi") == "secret"
    assert Sender(502)("/agent support").startswith("Support answers")
    ChannelAccount.objects.update(config={})
    assert Sender(503)("/agent") == refusal


def test_an_operator_replaces_a_choice(account: ChannelAccount) -> None:
    Sender()("/agent sales")
    add(account, "support", chat_id="501", sender_id="501")
    assert ChannelRoute.objects.get().is_chosen is False and Sender()("hi") == "support"


def test_a_network_answers_with_the_tools_of_the_account(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply())
    ScriptedProvider.scripts["script"] = TeamScript([], {"first": [Reply(("noted",))], "last": [Reply(("Solved.",))]})
    account = add_telegram(platform, tools=["echo"])
    add(account, network=make_network("tasks:\n- name: first\n- name: last\n  depends_on: [first]\n"), chat_id="501")
    telegram(private_update(1, "help me"))
    assert settle(rig) == ["sent"] and platform.chat(501) == ["Solved."]
    root = Run.objects.get(parent=None)
    tasks = Run.objects.exclude(parent=None)
    assert [task.session_policy["tools"] for task in tasks] == [["echo"], ["echo"]]
    assert {task.actor for task in tasks} == {root.actor} == {"sender:Telegram:501"}
    assert "The network desk answers here" in Sender()("/status")


def test_a_network_whose_agent_does_not_serve_the_channel_is_refused(account: ChannelAccount) -> None:
    network = make_network("tasks:\n- name: only\n  agent: sales\n")
    add(account, network=network, sender_id="501")
    Agent.objects.filter(agent_id="sales").update(allowed_channels=["WebChat"])
    assert "does not serve Telegram" in Sender()("hi") and not Run.objects.exists()
    with pytest.raises(Forbidden):
        add(account, network=network, sender_id="502")


def test_a_network_waits_for_its_turn_and_takes_no_second_message(account: ChannelAccount) -> None:
    Agent.objects.update(busy_policy="steer")
    add(account, network=make_network(), sender_id="501")
    ada = Sender()
    ada("one")
    ada("two")
    ChannelRoute.objects.all().delete()
    ada("three")
    assert list(Run.objects.order_by("ordinal").values_list("user_turn_count", flat=True)) == [1, 1, 1]


def test_routes_move_with_their_chat(account: ChannelAccount) -> None:
    add(account, "sales", chat_id="-5")
    move_chat(account, "-5", "-1005")
    move_chat(account, "-5", "-1005")
    assert ChannelRoute.objects.get().chat_id == "-1005"


def test_an_open_account_warns_of_every_agent_without_approval(account: ChannelAccount) -> None:
    def named() -> Any:
        return [line for line in open_access.dangers(account) if "autonomy full" in line]

    assert named() == []
    Agent.objects.filter(agent_id__in=["sales", "secret"]).update(autonomy="full")
    assert ["sales" in line for line in named()] == [True]
    add(account, network=make_network("tasks:\n- name: only\n  agent: secret\n"))
    assert [line.split(" served by ")[1].split(",")[0] for line in named()] == ["sales", "secret"]
