"""Agents of others: used only by those whom they are shared with, and read only by those who may change them."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import Group, User
from django.test import Client, RequestFactory
from django.urls import reverse

from agents_app import services
from agents_app.configuration import agent_access
from agents_app.configuration.agent_access import Sharing
from agents_app.models import Agent, Run, StoredNetwork
from agents_app.rights import CHANGE_AGENTS, DELETE_AGENTS, VIEW_AGENTS
from agents_app.types import RunStatus
from audit_app.kernel.errors import AppError
from audit_app.models import AuditEntry
from sessions_app.access import access_agent
from sessions_app.admin.channels import ChannelAccountAdmin
from sessions_app.conversation.network_start import start_network
from sessions_app.identity.api_keys import create_api_key
from sessions_app.identity.principal import Principal
from sessions_app.models import ChannelAccount, Session
from sessions_app.rights import MANAGE_CHANNELS
from sessions_app.services import NewMessage, open_session, receive, retry_run
from sessions_app.surfaces.agent_messages import agent_runs
from sessions_app.surfaces.agent_messages import commands as agent_messages
from sessions_app.surfaces.chat import commands as chat
from sessions_app.surfaces.mcp.offers import runs as mcp
from sessions_app.surfaces.openai import commands as openai
from sessions_app.surfaces.openai.requests import read_completion
from sessions_app.surfaces.rest import consumers as rest
from sessions_app.surfaces.signalr import commands as signalr
from sessions_app.surfaces.threads import commands as threads
from sessions_app.surfaces.threads.requests import ThreadBody
from tests.support.rest import RestCaller, make_agent, make_run, make_user
from tests.support.rights import make_operator

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

PROMPT = "The door code is 4711."
AGENT = "aliceagent"


@pytest.fixture
def bob() -> User:
    return make_user("bob")


@pytest.fixture
def agent(alice: User) -> Agent:
    """An agent of alice with secrets in its configuration, beside the default agent of everyone."""
    make_agent()
    hosts = {"allowed_hosts": ["intern.example"], "denied_tools": ["launch"], "budgets": {"actionsPerHour": 5}}
    fields = {"system_prompt": PROMPT, "owner_id": alice.pk, "is_shared_with_everyone": False, **hosts}
    return make_agent(AGENT, **fields)


def principal(user: User) -> Principal:
    return Principal(user, "jwt")


def ask_by_rest(user: User, agent_id: str) -> object:
    body = {"senderId": str(user.pk), "text": "hello", "agentId": agent_id}
    return rest.accept_message(principal(user), body, "")


def ask_by_openai(user: User, agent_id: str) -> object:
    parsed = read_completion({"model": agent_id, "messages": [{"role": "user", "content": "hello"}]})
    return openai.accept(principal(user), parsed, "")


def ask_by_thread(user: User, agent_id: str) -> object:
    body = ThreadBody(data={"agent_id": agent_id})
    body.is_valid(raise_exception=True)
    return threads.open_thread(user, body.validated_data)


def ask_on_the_page(user: User, agent_id: str) -> object:
    request = RequestFactory().post("/chat/start", {"text": "hello", "agent": agent_id})
    request.user, request.htmx = user, False  # type: ignore[attr-defined]
    return chat.start.__wrapped__(request)  # type: ignore[attr-defined]


def receive_message(user: User, agent_id: str) -> object:
    return receive(NewMessage("WebChat", "default", str(user.pk), "", "hello"), owner=user, agent_id=agent_id)


ASK: dict[str, Callable[[User, str], object]] = {
    "REST": ask_by_rest,
    "chat page": ask_on_the_page,
    "OpenAI": ask_by_openai,
    "threads": ask_by_thread,
    "agent messages": lambda user, agent_id: agent_messages.start(
        principal(user), {"interaction": agent_id, "data": {"task": "hello"}}
    ),
    "SignalR": lambda user, agent_id: signalr.send_message(principal(user), agent_id, "hello"),
    "MCP": lambda user, agent_id: mcp._accept(principal(user), {"agent": agent_id, "message": "hello"}),
    "any surface": receive_message,
    "a session": lambda user, agent_id: open_session(owner=user, agent_id=agent_id),
}


@pytest.mark.parametrize("way", ASK)
def test_an_agent_of_another_user_is_unknown_on_every_surface(way: str, agent: Agent, alice: User, bob: User) -> None:
    with pytest.raises(AppError) as refused:
        ASK[way](bob, AGENT)
    assert refused.value.code in ("unknown_agent", "interaction_not_found")
    assert not Run.objects.exists()
    assert not Session.objects.exists()
    with pytest.raises(AppError) as unknown:
        access_agent(bob, "no-such-agent")
    assert unknown.value.message.replace("no-such-agent", AGENT) == f"There is no agent {AGENT!r}."
    ASK[way](alice, AGENT)


def test_a_refusal_is_audited(agent: Agent, bob: User) -> None:
    with pytest.raises(AppError):
        receive_message(bob, AGENT)
    with pytest.raises(AppError):
        access_agent(bob, AGENT)
    refusals = AuditEntry.objects.filter(action="AgentRefused", agent_id=AGENT, actor=f"user:{bob.pk}")
    assert refusals.count() == 2


def test_the_lists_of_every_surface_leave_it_out(agent: Agent, alice: User, bob: User) -> None:
    def listed(user: User) -> list[set[str]]:
        caller, page = RestCaller(user), Client()
        page.force_login(user)
        models = page.get("/v1/models", headers={"Authorization": f"Bearer {caller._bearer}"}).json()["data"]
        picker = page.get("/chat/new").content.decode()
        return [
            {row["agentId"] for row in caller.get("agents").data},
            {model["id"] for model in models},
            {name for name in ("default", AGENT) if f'value="{name}"' in picker},
            {row.agent_id for row in agent_access.usable_agents(user)},  # the list of MCP clients
        ]

    assert listed(alice) == [{"default", AGENT}] * 4
    assert listed(bob) == [{"default"}] * 4


def test_its_configuration_is_not_read_by_those_who_only_use_it(agent: Agent, alice: User, bob: User) -> None:
    services.update_agent(agent, sharing=Sharing(users=("bob",)))
    caller = RestCaller(bob)
    summary = {"agentId": AGENT, "name": AGENT, "description": None}
    assert caller.get(f"agents/{AGENT}").data == summary
    listed = {row["agentId"]: row for row in caller.get("agents").data}
    assert listed[AGENT] == summary
    for row in (*listed.values(), caller.get("agents/default").data):
        assert not {"systemPrompt", "allowedHosts", "deniedTools", "budgets", "grants", "sharing"} & row.keys()
    assert PROMPT not in json.dumps([list(listed.values()), summary])
    assert caller.get(f"agents/{AGENT}/skills").status == 403
    assert RestCaller(alice).get(f"agents/{AGENT}").data["systemPrompt"] == PROMPT


@pytest.mark.parametrize("way", ["put", "delete", "install", "revoke"])
def test_it_is_not_changed_by_those_who_only_use_it(way: str, agent: Agent, bob: User) -> None:
    caller = RestCaller(bob)
    requests: dict[str, Callable[[], Any]] = {
        "put": lambda: caller.put(f"agents/{AGENT}", {"sharing": {"users": ["bob"]}}),
        "delete": lambda: caller.delete(f"agents/{AGENT}"),
        "install": lambda: caller.post(f"agents/{AGENT}/skills/paysk", {}),
        "revoke": lambda: caller.delete(f"agents/{AGENT}/grants/{agent.pk}"),
    }
    hidden = requests[way]()
    assert (hidden.status, hidden.meta["code"]) == (404, "unknown_agent")
    services.update_agent(agent, sharing=Sharing(everyone=True))
    refused = requests[way]()
    assert (refused.status, refused.meta["code"]) == (403, "missing_right")


def test_rights_over_agents_see_change_and_delete_it(agent: Agent) -> None:
    viewer, changer = make_operator("viewer", VIEW_AGENTS), make_operator("changer", CHANGE_AGENTS)
    remover = make_operator("remover", DELETE_AGENTS)
    assert RestCaller(viewer).get(f"agents/{AGENT}").data["systemPrompt"] == PROMPT
    assert AGENT in {row["agentId"] for row in RestCaller(viewer).get("agents").data}
    with pytest.raises(AppError):
        receive_message(viewer, AGENT)
    assert RestCaller(viewer).put(f"agents/{AGENT}", {"name": "Mine"}).status == 403
    assert RestCaller(changer).put(f"agents/{AGENT}", {"name": "Ours"}).data["name"] == "Ours"
    receive_message(changer, AGENT)
    assert RestCaller(remover).get(f"agents/{AGENT}").status == 404
    assert RestCaller(remover).delete(f"agents/{AGENT}").status == 200


def test_the_owner_shares_it_over_rest(agent: Agent, alice: User, bob: User) -> None:
    Group.objects.create(name="sales").user_set.add(make_user("carol"))
    caller = RestCaller(alice)

    def users() -> set[str]:
        everyone = User.objects.filter(username__in=("bob", "carol", "dave"))
        return {user.username for user in everyone if agent_access.may_use(user, Agent.objects.get(pk=agent.pk))}

    make_user("dave")
    for wanted, expected in (
        ({"users": ["bob"]}, {"bob"}),
        ({"groups": ["sales"]}, {"carol"}),
        ({"users": ["bob"], "groups": ["sales"]}, {"bob", "carol"}),
        ({"everyone": True}, {"bob", "carol", "dave"}),
        ({}, set()),
    ):
        changed = caller.put(f"agents/{AGENT}", {"sharing": wanted})
        assert changed.data["sharing"] == {"everyone": False, "users": [], "groups": [], **wanted}
        assert users() == expected
    for wanted in ({"users": ["nobody"]}, {"groups": ["nobody"]}):
        assert caller.put(f"agents/{AGENT}", {"sharing": wanted}).status == 400
    assert AuditEntry.objects.filter(action="AgentShared", agent_id=AGENT).count() == 5
    assert users() == set()


def test_an_inactive_user_and_a_former_member_use_nothing(agent: Agent, bob: User) -> None:
    sales = Group.objects.create(name="sales")
    sales.user_set.add(bob)
    services.update_agent(agent, sharing=Sharing(groups=("sales",)))
    assert agent_access.may_use(bob, agent)
    bob.is_active = False
    assert not agent_access.may_use(bob, agent)
    bob.is_active = True
    sales.user_set.remove(bob)
    assert not agent_access.may_use(bob, agent)


def test_a_session_whose_agent_is_no_longer_shared_takes_no_message(agent: Agent, bob: User) -> None:
    services.update_agent(agent, sharing=Sharing(users=("bob",)))
    session = open_session(owner=bob, agent_id=AGENT)
    receive(NewMessage.into(session, "hello"), owner=bob, session=session)
    failed = make_run(Session.objects.get(pk=session.pk), RunStatus.FAILED)
    services.update_agent(agent, sharing=Sharing())
    session = Session.objects.select_related("agent").get(pk=session.pk)
    for again in (
        lambda: receive(NewMessage.into(session, "again"), owner=bob, session=session),
        lambda: retry_run(session, failed.pk, actor=f"user:{bob.pk}"),
    ):
        with pytest.raises(AppError) as refused:
            again()
        assert refused.value.code == "agent_not_shared"
        assert CHANGE_AGENTS.permission in refused.value.message
    assert AuditEntry.objects.filter(action="AgentRefused", actor=f"user:{bob.pk}").count() == 2
    assert RestCaller(bob).get(f"sessions/{session.pk}/history").status == 200  # the past stays readable
    assert RestCaller(bob).post(f"sessions/{session.pk}/bind", {"agentId": "default"}).status == 200


def test_a_session_is_not_bound_to_it(agent: Agent, bob: User) -> None:
    session = open_session(owner=bob)
    refused = RestCaller(bob).post(f"sessions/{session.pk}/bind", {"agentId": AGENT})
    assert (refused.status, refused.meta["code"]) == (404, "unknown_agent")
    page = Client()
    page.force_login(bob)
    assert page.post(reverse("chat-agent", args=[session.pk]), {"agent": AGENT}).status_code == 404
    assert Session.objects.get().agent.agent_id == "default"


def test_the_configuration_of_a_channel_account_gives_its_senders_the_agent(agent: Agent) -> None:
    account = ChannelAccount(channel="fake", account_id="main", agent=agent)
    message = NewMessage("Fake", account.account_id, "501", "", "hello")
    accepted = receive(message, owner=None, agent_id=agent.agent_id)
    assert Session.objects.get(pk=accepted.session_id).agent == agent


def test_who_configures_channel_accounts_chooses_among_the_agents_that_they_may_use(agent: Agent) -> None:
    def choices(user: User) -> list[str]:
        request = RequestFactory().get("/")
        request.user = user
        form = ChannelAccountAdmin(ChannelAccount, site).get_form(request)
        return [agent.agent_id for agent in form().fields["agent"].queryset]

    assert choices(make_operator("channels", MANAGE_CHANNELS)) == ["default"]
    assert choices(make_operator("all")) == [AGENT, "default"]


def test_the_owner_and_an_agent_of_everyone_cost_no_statement(
    agent: Agent, alice: User, bob: User, django_assert_num_queries: Any
) -> None:
    everyones = Agent.objects.get(agent_id="default")
    with django_assert_num_queries(0):
        agent_access.check_still_shared(alice, agent)
        agent_access.check_still_shared(bob, everyones)


def test_a_session_whose_agent_is_no_longer_shared_is_not_summarised(agent: Agent, bob: User) -> None:
    services.update_agent(agent, sharing=Sharing(users=("bob",)))
    session = open_session(owner=bob, agent_id=AGENT)
    receive(NewMessage.into(session, "hello"), owner=bob, session=session)
    services.update_agent(agent, sharing=Sharing())
    refused = RestCaller(bob).post(f"sessions/{session.pk}/compact")
    assert (refused.status, refused.meta["code"]) == (403, "agent_not_shared")
    assert Run.objects.count() == 1
    assert AuditEntry.objects.filter(action="AgentRefused", actor=f"user:{bob.pk}").count() == 1


def test_a_restart_that_is_refused_is_audited(agent: Agent, bob: User) -> None:
    services.update_agent(agent, sharing=Sharing(users=("bob",)))
    session = open_session(owner=bob, agent_id=AGENT, metadata={agent_runs.NAME: {"interactive": False}})
    make_run(session, RunStatus.FAILED)
    services.update_agent(agent, sharing=Sharing())
    with pytest.raises(AppError, match="shared"):
        agent_messages.restart(Principal(bob, "jwt"), agent_runs.load(session))
    assert AuditEntry.objects.filter(action="AgentRefused", actor=f"user:{bob.pk}").count() == 1


@pytest.mark.parametrize("limited_by", ["sharing", "key"])
@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.FAILED])
def test_a_network_is_not_run_again_with_an_agent_that_is_not_usable_now(
    limited_by: str, status: RunStatus, agent: Agent, bob: User
) -> None:
    definition = f"name: net\ntasks:\n- name: a\n  agent: {AGENT}\n"
    caller, session = RestCaller(bob), open_session(owner=bob)
    if limited_by == "key":
        services.update_agent(agent, sharing=Sharing(users=("bob",)))
        caller = RestCaller(bearer=create_api_key(bob, "k", scopes=["all", "agent:default"]).key)
    accepted = start_network(StoredNetwork(name="net", definition=definition), "hello", owner=bob, session=session)
    Run.objects.filter(pk=accepted.run_id).update(status=status.value)
    again = {
        "regenerate": lambda: caller.post(f"sessions/{session.pk}/regenerate", {"runId": str(accepted.run_id)}),
        "edit": lambda: caller.post(f"sessions/{session.pk}/edit", {"runId": str(accepted.run_id), "text": "Hi"}),
        "retry": lambda: caller.post(f"runs/{accepted.run_id}/retry"),
    }
    for way in ("retry",) if status is RunStatus.FAILED else ("regenerate", "edit"):
        refused = again[way]()
        assert (refused.status, refused.meta["code"]) == (400, "unusable_file"), way
    assert Run.objects.count() == 1
