"""AG-UI: runs, interrupts, tools of the front end, runs that are shown again, refusals. Access: objects of others."""

import asyncio
import json
import threading
from typing import Any
from uuid import uuid4

import pytest
from channels.routing import URLRouter

from agents_app.models import Agent, ModelProvider, Run
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from agents_app.services import cancel_run
from audit_app.kernel.database import in_db
from audit_app.kernel.ids import new_id
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import Session, Turn
from sessions_app.surfaces.ag_ui.consumers import routes
from tests.support.conditions import happens
from tests.support.engine import EngineRig
from tests.support.rest import LiveCaller, make_user
from tests.support.team_script import TeamScript
from tools_app.models import Approval
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

Event = dict[str, Any]
STORE = ToolCall("c1", "memory_store", '{"key": "car", "text": "blue"}')
STORE_TOO = ToolCall("c2", "memory_store", '{"key": "hat", "text": "red"}')
SUM = ToolCall("c3", "calculator", '{"expression": "6*7"}')
ASK = ToolCall("c4", "ask_user", '{"question": "Which colour?", "options": ["red", "blue"], "allow_text": false}')
WEATHER = ToolCall("c5", "get_weather", '{"city": "Oslo", "token": "sk-proj-aaaaaaaaaaaaaaaaaaaaaaaa"}')
PLAN = ToolCall("c6", "update_plan", '{"tasks": [{"id": 1, "goal": "Look"}]}')
LAUNCH = ToolCall("c7", "launch_workstream", '{"id": "b", "name": "Bee", "instruction": "Ask."}')
TOOLS = [{"name": "get_weather", "description": "Weather", "parameters": {"type": "object", "properties": {}}}]


class FrontEnd:
    """A front end with one thread: it keeps messages and open interrupts as the events say."""

    def __init__(self, key: str, agent: str = "default") -> None:
        self.key, self.caller = key, LiveCaller(URLRouter(routes), bearer=key)
        self.path, self.thread = f"/ag-ui/agents/{agent}", uuid4().hex
        self.messages: list[Event] = []
        self.interrupts: list[Event] = []

    async def post(self, **body: Any) -> tuple[int, str]:
        given = {"threadId": self.thread, "runId": uuid4().hex, "messages": self.messages, **body}
        return await self.caller.ask("POST", self.path, given)

    async def run(self, **body: Any) -> list[Event]:
        status, text = await self.post(**body)
        assert status == 200, text
        events = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
        for event in events:
            if event["type"] == "TOOL_CALL_START":
                call = {"id": event["toolCallId"], "type": "function", "function": {"name": event["toolCallName"]}}
                self.messages.append({"id": event["toolCallId"], "role": "assistant", "toolCalls": [call]})
            elif event["type"] == "TOOL_CALL_RESULT":
                result = {"id": event["messageId"], "role": "tool", "toolCallId": event["toolCallId"]}
                self.messages.append({**result, "content": event["content"]})
            elif event["type"] == "TEXT_MESSAGE_START":
                self.messages.append({"id": event["messageId"], "role": "assistant", "content": ""})
            elif event["type"] == "TEXT_MESSAGE_CONTENT":
                self.messages[-1]["content"] += event["delta"]
        if "outcome" in events[-1]:
            self.interrupts = events[-1]["outcome"].get("interrupts", [])
        return events

    async def say(self, text: str, **body: Any) -> list[Event]:
        self.messages.append({"id": uuid4().hex, "role": "user", "content": text})
        return await self.run(**body)

    def answers(self, payload: Any) -> list[Event]:
        return [{"interruptId": each["id"], "status": "resolved", "payload": payload} for each in self.interrupts]


def types(events: list[Event]) -> list[str]:
    return [event["type"] for event in events]


def of(events: list[Event], kind: str) -> list[Event]:
    return [event for event in events if event["type"] == kind]


def text(events: list[Event]) -> str:
    return "".join(event["delta"] for event in of(events, "TEXT_MESSAGE_CONTENT"))


def error(events: list[Event]) -> str:
    assert types(events) == ["RUN_STARTED", "RUN_ERROR"]
    return str(events[-1]["code"])


@pytest.fixture
def key(alice: Any, settings: Any) -> str:
    settings.KOMAND_APPROVERS = "owners"
    return create_api_key(alice, "k", scopes=["all"]).key


async def test_text_reasoning_and_calls_are_parts_that_start_and_end(rig: EngineRig, key: str) -> None:
    replies = Reply(("Let me ", "see."), reasoning="Hm.", tool_calls=(SUM,)), Reply(("It is 42.",))
    script = await in_db(rig.agent, *replies)
    front = FrontEnd(key)
    events = await front.say("What is 6*7?", context=[{"description": "page", "value": "sums"}], state={"dark": True})
    shown = [kind for place, kind in enumerate(types(events)) if kind not in types(events)[place - 1 : place]]
    assert shown == [
        "RUN_STARTED",
        "STEP_STARTED",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "STEP_FINISHED",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ]
    assert text(events) == "Let me see.It is 42." and '"42"' in of(events, "TOOL_CALL_RESULT")[0]["content"]
    assert events[-1]["outcome"] == {"type": "success"} and events[-1]["usage"]
    system = str(script.requests[0].messages[0].content)
    assert '"value": "sums"' in system and '"dark": true' in system
    await front.say("Again?")
    turns = await in_db(lambda: list(Turn.objects.filter(role="user").values_list("content", flat=True)))
    assert sorted(turns) == ["Again?", "What is 6*7?"] and await in_db(Session.objects.count) == 1


async def test_approvals_are_interrupts_that_the_next_run_answers(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(tool_calls=(STORE, SUM, STORE_TOO)), Reply(("Stored.",)))
    front = FrontEnd(key)
    asked = await front.say("remember")
    assert [each["reason"] for each in front.interrupts] == ["tool_call", "tool_call"]
    assert len(of(asked, "TOOL_CALL_RESULT")) == 1 and types(asked)[-2:] == ["MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert {each["toolCallId"] for each in front.interrupts} < {
        each["toolCallId"] for each in of(asked, "TOOL_CALL_END")
    }
    assert error(await front.say("never mind")) == "interrupts_open"
    front.messages.pop()
    yes = front.answers({"approved": True})
    for resume, code in (
        (yes[:1], "missing_interrupt"),
        ([{**yes[0], "interruptId": str(uuid4())}], "unknown_interrupt"),
        (front.answers({"allowed": True}), "invalid_payload"),
    ):
        assert error(await front.run(resume=resume)) == code
    assert await in_db(Approval.objects.filter(status="pending").count) == 2
    given, no = front.answers({"approved": True}), {"approved": False, "note": "It is green."}
    given[1]["payload"] = no
    events = await front.run(resume=given, runId="resumed")
    results = {each["toolCallId"]: each["content"] for each in of(events, "TOOL_CALL_RESULT")}
    assert "stored" in results[asked[-1]["outcome"]["interrupts"][0]["toolCallId"]]
    assert "It is green." in results[asked[-1]["outcome"]["interrupts"][1]["toolCallId"]]
    assert "TOOL_CALL_START" not in types(events) and text(events) == "Stored."
    front.messages = front.messages[:-3]  # what the answers to the interrupts brought
    again = await front.run(resume=given)
    assert text(again) == "Stored." and await in_db(Run.objects.count) == 1


async def test_a_question_is_an_interrupt(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(tool_calls=(ASK,)), Reply(("Blue it is.",)))
    front = FrontEnd(key)
    await front.say("paint it")
    (asked,) = front.interrupts
    assert (asked["reason"], asked["message"]) == ("input_required", "Which colour?")
    assert asked["responseSchema"]["properties"]["answer"] == {"enum": ["red", "blue"]}
    assert error(await front.run(resume=front.answers({}))) == "invalid_payload"
    events = await front.run(resume=front.answers({"answer": "blue"}))
    assert '"blue"' in of(events, "TOOL_CALL_RESULT")[0]["content"] and text(events) == "Blue it is."


async def test_tools_of_the_front_end_take_two_runs(rig: EngineRig, key: str) -> None:
    script = await in_db(rig.agent, Reply(tool_calls=(SUM, WEATHER)), Reply(("18 degrees.",)))
    front = FrontEnd(key)
    events = await front.say("How warm?", tools=TOOLS)
    pending = events[-1]["outcome"]["pendingToolCallIds"]
    arguments = {each["toolCallId"]: each["delta"] for each in of(events, "TOOL_CALL_ARGS")}
    assert json.loads(arguments[pending[0]]) == json.loads(WEATHER.arguments), "unmasked"
    front.messages.append({"id": "o", "role": "tool", "toolCallId": pending[0], "content": "18"})
    last = await front.run(tools=TOOLS)
    assert text(last) == "18 degrees." and "TOOL_CALL_START" not in types(last)
    assert [message.role for message in script.requests[-1].messages][-2:] == ["tool", "tool"]
    front.messages.pop()
    assert text(await front.run(tools=TOOLS)) == "18 degrees.", "sent again"
    assert await in_db(Run.objects.count) == 1


async def test_the_plan_is_state_beside_that_of_the_front_end(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(tool_calls=(PLAN,)), Reply(tool_calls=(PLAN,)), Reply(("Ok.",)), tool_profile="teams")
    events = await FrontEnd(key).say("plan", state={"dark": True})
    (snapshot,), (delta,) = of(events, "STATE_SNAPSHOT"), of(events, "STATE_DELTA")
    assert snapshot["snapshot"]["dark"] and snapshot["snapshot"]["plan"][0]["goal"] == "Look"
    assert delta["delta"][0]["path"] == "/plan"


async def test_workstreams_are_subagents(rig: EngineRig, key: str) -> None:
    team = {"Bee": [Reply(("Wait. ",), tool_calls=(ASK,)), Reply(("Blue.",))]}
    await in_db(rig.agent, Reply(), tool_profile="teams")
    main = [Reply(tool_calls=(LAUNCH,)), Reply(("Asked.",)), Reply(("Blue!",))]
    ScriptedProvider.scripts["script"] = TeamScript(main, team)
    front = FrontEnd(key)
    events = await front.say("go")
    (started,) = of(events, "SUBAGENT_STARTED")
    launch = of(events, "TOOL_CALL_START")[0]["toolCallId"]
    assert (started["name"], started["description"], started["parentToolCallId"]) == ("Bee", "Ask.", launch)
    child = started["subagentRunId"]
    of_child = [each for each in events if each.get("subagentRunId") == child]
    assert [each["toolCallName"] for each in of(of_child, "TOOL_CALL_START")] == ["ask_user"]
    assert text(of_child) == "Wait. "
    (asked,) = front.interrupts
    assert asked["subagentRunId"] == child
    (suspended,) = of(events, "SUBAGENT_FINISHED")
    assert suspended["outcome"] == {"type": "suspended", "interruptIds": [asked["id"]]}
    rest = await front.run(resume=front.answers({"answer": "blue"}))
    (finished,) = of(rest, "SUBAGENT_FINISHED")
    assert (finished["result"], finished["outcome"]) == ("Blue.", {"type": "success"})
    own = [each["delta"] for each in of(rest, "TEXT_MESSAGE_CONTENT") if "subagentRunId" not in each]
    assert "".join(own) == "Blue!" and rest[-1]["outcome"] == {"type": "success"}


async def test_a_run_is_shown_again_by_its_id(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(tool_calls=(SUM,)), Reply(("It is 42.",)))
    front = FrontEnd(key)
    first = await front.say("6*7?", runId="r")
    front.messages[-1]["content"] = "It is"
    rest = await front.run(runId="r")
    assert text(rest) == " 42." and "TOOL_CALL_START" not in types(rest)
    front.messages = []
    assert types(await front.run(runId="r"))[0] == "RUN_STARTED" and text(first) == "It is 42."
    assert text(await front.run(runId="r", messages=[])) == "It is 42." and await in_db(Run.objects.count) == 1


async def test_a_thread_may_be_any_session_of_the_user_by_its_id(rig: EngineRig, key: str) -> None:
    held = threading.Event()
    await in_db(rig.agent, Reply(("Hello ", "there."), held_by=held), Reply(("And here.",)))
    front, other = FrontEnd(key), FrontEnd(key, "other")
    accepted = await in_db(rig.send, "hi")  # over another surface
    front.thread = other.thread = str(accepted.session_id)
    following = asyncio.create_task(front.run(runId=str(accepted.run_id)))
    await happens(lambda: b"Hello " in b"".join(each.get("body", b"") for each in front.caller.sent))
    held.set()
    events = await following
    assert text(events) == "Hello there." and events[0]["metadata"]["komand"]["runId"] == str(accepted.run_id)
    shown = await front.run(messages=[], forwardedProps={"komand": {"view": "page", "thread": True}})
    assert "Hello there." in acts(shown)[0]["html"]
    assert text(await front.say("again", runId=str(new_id()))) == "And here."
    assert await in_db(Session.objects.count) == 1 and await in_db(Run.objects.count) == 2
    provider = await in_db(ModelProvider.objects.get)
    await in_db(lambda: Agent.objects.create(agent_id="other", provider=provider, is_shared_with_everyone=True))
    assert error(await other.say("hi")) == "other_agent"


async def test_a_client_that_leaves_does_not_stop_its_run(rig: EngineRig, key: str) -> None:
    held = threading.Event()
    await in_db(rig.agent, Reply(("Hello ", "there."), held_by=held))
    leaving = FrontEnd(key)
    leaving.messages.append({"id": "m", "role": "user", "content": "hi"})
    posting = asyncio.create_task(leaving.post(runId="r"))
    await happens(lambda: b"Hello " in b"".join(each.get("body", b"") for each in leaving.caller.sent))
    leaving.caller.leave()
    await posting
    held.set()
    front = FrontEnd(key)
    front.thread, front.messages = leaving.thread, leaving.messages
    assert text(await front.run(runId="r")) == "Hello there." and await in_db(Run.objects.count) == 1


async def test_a_run_that_is_stopped_elsewhere_is_cancelled(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(("Hello ",), hangs=True))
    front = FrontEnd(key)
    saying = asyncio.create_task(front.say("hi"))
    await happens(lambda: b"Hello " in b"".join(each.get("body", b"") for each in front.caller.sent))
    await in_db(lambda: cancel_run(Run.objects.get().pk))
    assert (await saying)[-1]["outcome"] == {"type": "cancelled"}


async def test_a_message_instead_of_outputs_leaves_the_calls(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(tool_calls=(WEATHER,)), Reply(("All right.",)))
    front = FrontEnd(key)
    await front.say("How warm?", tools=TOOLS)
    assert text(await front.say("Never mind.", tools=TOOLS)) == "All right."
    assert await in_db(lambda: {run.status for run in Run.objects.all()}) == {"completed"}


async def test_a_failed_run_ends_with_an_error(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(error="model_auth"))
    events = await FrontEnd(key).say("hello")
    assert types(events)[-1] == "RUN_ERROR" and events[-1]["code"] == "model_auth"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"messages": "x"}, "invalid_value"),
        ({"messages": []}, "no_message"),
        ({"messages": [{"id": "m", "role": "robot", "content": "x"}]}, "invalid_value"),
        ({"messages": [{"role": "user", "content": "x"}]}, "invalid_value"),
        ({"messages": [{"id": "m", "role": "user", "content": [{"type": "hologram"}]}]}, "unsupported_content"),
        (
            {"messages": [{"id": "m", "role": "user", "content": [{"type": "image", "source": {"type": "url"}}]}]},
            "unsupported_content",
        ),
        ({"threadId": ""}, "invalid_value"),
        ({"runId": 7}, "invalid_value"),
        ({"tools": [{"name": "calculator", "description": "x"}]}, "tool_name_taken"),
        ({"tools": [*TOOLS, *TOOLS]}, "invalid_value"),
        ({"resume": [{"interruptId": "x", "status": "maybe"}]}, "invalid_value"),
        ({"context": [{"description": "x"}]}, "invalid_value"),
        ({"forwardedProps": {"komand": {"busy": "wait"}}}, "invalid_value"),
        ({"forwardedProps": {"komand": {"before": "1"}}}, "invalid_value"),
        ({"forwardedProps": {"komand": {"replaces": 7}}}, "invalid_value"),
    ],
)
@pytest.mark.usefixtures("default_agent")
async def test_unfit_input_is_400_and_stores_nothing(key: str, change: Event, code: str) -> None:
    status, body = await FrontEnd(key).post(**{"messages": [{"id": "m", "role": "user", "content": "x"}], **change})
    assert (status, json.loads(body)["code"]) == (400, code), body
    assert not await in_db(Session.objects.exists)


@pytest.mark.usefixtures("default_agent")
async def test_threads_and_agents_of_others_are_not_found(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(tool_calls=(ASK,)), Reply(("Red.",)))
    alices = FrontEnd(key)
    await alices.say("paint it")
    bob = await in_db(make_user, "bob")
    bobs = FrontEnd((await in_db(create_api_key, bob, "k", scopes=["all"])).key)
    bobs.thread = alices.thread
    assert error(await bobs.run(resume=alices.answers({"answer": "red"}))) == "unknown_interrupt"
    assert await in_db(Session.objects.filter(owner=bob).count) == 0
    await in_db(Agent.objects.update, is_shared_with_everyone=False)
    status, body = await bobs.post(messages="not even read")
    assert (status, json.loads(body)["code"]) == (404, "unknown_agent")
    reader = FrontEnd((await in_db(create_api_key, rig.owner, "r", scopes=["read"])).key)
    assert (await reader.post())[0] == 403


def acts(events: list[Event]) -> list[Event]:
    return [act for event in of(events, "CUSTOM") for act in event["value"]["acts"]]


async def test_a_client_that_asks_gets_what_the_page_shows_beside_the_events(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(("**Let** me see.",), tool_calls=(ASK,)), Reply(("It is *blue*.",)))
    front = FrontEnd(key)
    view = {"forwardedProps": {"komand": {"view": "page"}}}
    asked = await front.say("Which?", **view)
    assert [act["do"] for act in acts(asked)][:1] == ["turn"]
    assert "<strong>Let</strong>" in json.dumps(acts(asked)), "text is rendered by the server"
    assert any("Which colour?" in act["html"] for act in acts(asked) if act["do"] == "call")
    shown = await front.run(messages=[], forwardedProps={"komand": {"view": "page", "thread": True}})
    assert types(shown)[:2] == ["RUN_STARTED", "CUSTOM"]
    assert "Which colour?" in acts(shown)[0]["html"]
    assert shown[-1]["outcome"]["type"] == "interrupt", "a page that is opened later can answer"
    answered = await front.run(messages=[], resume=front.answers({"answer": "blue"}), **view)
    assert answered[-1]["outcome"] == {"type": "success"}
    assert [act["do"] for act in acts(answered)][-1] == "answer", "the run is over when its answer is shown"
    assert "<em>blue</em>" in acts(answered)[-1]["html"]
    plain = await front.say("Again?")
    assert of(plain, "CUSTOM") == []


async def test_a_thread_is_shown_to_its_user_alone_and_showing_it_stores_nothing(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(("A secret.",)))
    front = FrontEnd(key)
    await front.say("Tell me")
    other = FrontEnd((await in_db(create_api_key, await in_db(make_user, "mallory"), "k", scopes=["all"])).key)
    other.thread = front.thread
    mallorys = FrontEnd(other.key)
    mallorys.thread = str((await in_db(Session.objects.get)).pk)
    thread = {"forwardedProps": {"komand": {"view": "page", "thread": True}}}
    assert types(await mallorys.run(messages=[], **thread)) == ["RUN_STARTED", "RUN_FINISHED"]
    run_id = str((await in_db(Run.objects.get)).pk)
    status, body = await mallorys.post(runId=run_id)
    assert (status, json.loads(body)["code"]) == (400, "no_message"), "a run of another is none"
    sessions = await in_db(Session.objects.count)
    shown = await other.run(messages=[], forwardedProps={"komand": {"view": "page", "thread": True}})
    assert types(shown) == ["RUN_STARTED", "RUN_FINISHED"]
    assert await in_db(Session.objects.count) == sessions
    mine = await front.run(messages=[], forwardedProps={"komand": {"view": "page", "thread": True}})
    assert "A secret." in acts(mine)[0]["html"]
