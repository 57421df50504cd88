"""The tools and MCP servers that a message chooses: accepted over REST, stored, offered and enforced."""

from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents_app.models import Agent, Run
from agents_app.providers.kinds.scripted import Reply
from agents_app.rights import CHANGE_AGENTS
from agents_app.runs import run_policy
from agents_app.types import RunOptions
from sessions_app.identity import access_tokens
from sessions_app.surfaces.rest.consumers import WebChatMessage
from tests.support.engine import EngineRig
from tests.support.rest import Answer, LiveCaller
from tests.support.rights import grant
from tools_app import services as tools
from tools_app.policy.scope import Scope, ScopeMode
from tools_app.types import ExecutionStatus, ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

NONE = Scope(ScopeMode.NONE)
PATH = "/api/webchat/message?wait=0"


def only(*names: str) -> Scope:
    return Scope(ScopeMode.LIST, names)


@pytest.fixture(autouse=True)
def _agent(idle: EngineRig) -> None:
    idle.agent(Reply(("Hello.",)))


def offered(idle: EngineRig, **wishes: Any) -> set[str]:
    """Return the names of the tools that the model is offered for a message with these options."""
    run = Run.objects.select_related("agent").get(pk=idle.send(run=RunOptions(**wishes)).run_id)
    return {spec.name for spec in tools.specs_for(run_policy.policy_of(run), run_policy.session_policy_of(run))}


def post(idle: EngineRig, **fields: Any) -> Answer:
    caller = LiveCaller(WebChatMessage.as_asgi(), bearer=access_tokens.open_login(idle.owner).access)
    return async_to_sync(caller)("POST", PATH, {"senderId": str(idle.owner.pk), "text": "hi", **fields})


def test_a_message_is_content_with_fewer_tools(idle: EngineRig) -> None:
    every = offered(idle)
    assert {"echo", "calculator"} < every
    assert offered(idle, tools=only("echo", "no_such_tool")) == {"echo"}
    assert offered(idle, tools=NONE) == offered(idle, tools=only()) == set()
    assert offered(idle, mcp_servers=NONE) == every  # none of these is of a server


def test_nobody_gets_more_by_a_message_than_the_agent_has(idle: EngineRig, settings: Any) -> None:
    Agent.objects.update(enabled_tools=["echo", "calculator"])
    assert offered(idle, tools=only("echo", "date_time")) == {"echo"}
    Agent.objects.update(enabled_tools=[])
    assert offered(idle, tools=only("echo")) == set()
    Agent.objects.update(enabled_tools=None)
    settings.KOMAND_AGENT_TOOLS = ["calculator"]
    assert offered(idle) == {"calculator"} and offered(idle, tools=only("echo")) == set()


@pytest.mark.parametrize("how", ["operator", "maker"])
def test_who_might_set_the_agent_up_lists_whatever_there_is_but_what_is_denied(idle: EngineRig, how: str) -> None:
    if how == "operator":
        idle.owner = grant(idle.owner, CHANGE_AGENTS)
    maker = idle.owner.pk if how == "maker" else None
    Agent.objects.update(owner_id=maker, enabled_tools=["calculator"], denied_tools=["echo"])
    assert offered(idle) == {"calculator"}
    assert offered(idle, tools=only("date_time", "echo")) == {"date_time"}
    assert offered(idle, mcp_servers=NONE) == {"calculator"}


def test_call_agent_network_and_installation_are_asked_in_this_order(settings: Any) -> None:
    settings.KOMAND_AGENT_TOOLS, settings.KOMAND_AGENT_MCP_SERVERS = ["general"], ["none"]
    open_agent, own_agent = Agent(), Agent(enabled_tools=["own"], mcp_servers_mode="list", mcp_servers=["own"])
    assert (run_policy.tools_of(open_agent), run_policy.mcp_servers_of(open_agent)) == (("general",), ())
    for names_of in (run_policy.tools_of, run_policy.mcp_servers_of):
        assert names_of(open_agent, network=only("network")) == ("network",)
        assert names_of(own_agent, network=only("network")) == ("own",)
        assert names_of(own_agent, network=NONE, call=only("call")) == ("call",)
        assert names_of(own_agent, call=NONE) == ()


def test_a_tool_that_was_not_chosen_is_neither_offered_nor_run(idle: EngineRig) -> None:
    calls = (ToolCall("1", "calculator", '{"expression": "1+1"}'), ToolCall("2", "echo", '{"text": "hi"}'))
    script = idle.agent(Reply(tool_calls=calls), Reply(("Done.",)))
    idle.start()
    run = idle.wait(idle.send(run=RunOptions(tools=only("echo"))).run_id)
    assert [spec.name for spec in script.requests[0].tools] == ["echo"]
    refused, done = run.executions
    assert (refused.status, done.status) == (ExecutionStatus.FAILED, ExecutionStatus.COMPLETED)
    assert "calculator is not among those that the message allows" in (refused.error or "")
    again = idle.wait(idle.send().run_id)
    assert again.answer == "Done." and len(script.requests[-1].tools) > 1  # the next message is not bound by it


def test_a_message_with_tools_of_its_own_joins_no_run_under_way(idle: EngineRig) -> None:
    function = {"name": "get_weather", "description": "", "parameters": {"type": "object"}}
    choices = RunOptions(), RunOptions(), RunOptions(tools=only("echo")), RunOptions(client_tools=[function])
    first, joined, own, clients = (idle.send(busy="steer", run=options) for options in choices)
    assert joined.run_id == first.run_id
    assert len({first.run_id, own.run_id, clients.run_id}) == 3


def test_the_choice_comes_over_rest_and_belongs_to_the_message(idle: EngineRig) -> None:
    chosen = {"tools": {"mode": "list", "names": ["echo", "echo"]}, "mcpServers": {"mode": "none"}}
    assert post(idle, **chosen).status == 202
    assert RunOptions.from_dict(Run.objects.get().options) == RunOptions(tools=only("echo"), mcp_servers=NONE)
    assert post(idle, tools={"mode": "inherit"}).status == 202
    assert Run.objects.latest("ordinal").options == {}


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "none",
        ["echo"],
        {},
        {"mode": "all"},
        {"mode": ["list"]},
        {"mode": "list"},
        {"names": ["echo"]},
        {"mode": "none", "names": ["echo"]},
        {"mode": "list", "names": "echo"},
        {"mode": "list", "names": [1]},
        {"mode": "list", "names": [""]},
        {"mode": "list", "names": ["a\0"]},
        {"mode": "list", "names": ["a"] * 101},
        {"mode": "inherit", "more": 1},
    ],
)
def test_nonsense_is_400_and_stores_nothing(idle: EngineRig, wrong: Any) -> None:
    for field in ("tools", "mcpServers"):
        answer = post(idle, **{field: wrong})
        assert answer.status == 400 and field in (answer.error or ""), answer
    assert not Run.objects.exists()
