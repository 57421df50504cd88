"""Memories that are recalled into the requests of runs, with a database, Valkey and a scripted model."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from agents_app.models import Agent, Run, RunRecall
from agents_app.providers.kinds.demo.response import decide
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from agents_app.runs import lease, transitions
from agents_app.runs.claims import Claim
from agents_app.runs.model_call import build_request
from agents_app.runs.request_view import PartKind, view_request
from agents_app.types import ModelRequest, RunOptions, RunStatus
from audit_app.kernel import context
from audit_app.kernel.ids import new_id
from tests.support.engine import EngineRig
from tests.support.team_script import TeamScript
from tools_app.models import Memory
from tools_app.policy.scope import Scope, ScopeMode
from tools_app.storage import memories
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.fixture(autouse=True)
def _as_owner(idle: EngineRig) -> Iterator[None]:
    with context.bind(actor=f"user:{idle.owner.pk}"):
        yield


def remember(idle: EngineRig, key: str, text: str, *, actor: str = "", **written: Any) -> None:
    holder = memories.Holder("default", actor or f"user:{idle.owner.pk}")
    memories.store(holder, memories.Written(key, text, uuid4(), **written))


def last_message(request: ModelRequest) -> str:
    return [message.content for message in request.messages if message.role == "user"][-1]


def claimed(run_id: UUID, owner: UUID) -> Claim:
    claim = lease.claim(owner, run_id)
    assert claim is not None
    return claim


def test_a_run_gets_trusted_facts_of_its_own_person_with_their_sources(idle: EngineRig) -> None:
    script = idle.agent(Reply(("Hello.",)))
    remember(idle, "diet", "She is vegetarian.", source="person")
    remember(idle, "habit", "Prefers dinner at seven.", source="agent")
    remember(idle, "bank", "The dinner bank is evil.", source="tool", origins=("page:evil.example",))
    remember(idle, "dinner", "Somebody else's dinner.", actor="user:0")
    remember(idle, "unrelated", "Has a red bicycle.", source="agent")
    idle.start()
    idle.wait(idle.send("where shall I have dinner?").run_id)
    content = last_message(script.requests[0])
    day = Memory.objects.get(key="diet").updated_at.date().isoformat()
    assert (
        f"- habit (you concluded, {day}): Prefers dinner at seven.\n- diet (the person said, {day}): She is" in content
    )
    assert content.endswith("\n\nwhere shall I have dinner?")
    assert "evil" not in content and "Somebody" not in content and "bicycle" not in content
    Memory.objects.filter(key="unrelated").update(is_pinned=True)
    idle.wait(idle.send("thanks").run_id)
    assert "- unrelated (you concluded" in last_message(script.requests[1])
    assert "where shall I have dinner?" in [message.content for message in script.requests[1].messages]


def test_each_step_gets_the_same_facts_and_the_view_shows_them(idle: EngineRig) -> None:
    call = ToolCall("1", "memory_store", '{"key": "diet", "text": "She eats meat now."}')
    script = idle.agent(Reply(("Noted.",), tool_calls=(call,)), Reply(("Done.",)), autonomy="full")
    remember(idle, "diet", "She is vegetarian.", source="person")
    idle.start()
    run_id = idle.wait(idle.send("a recipe, please").run_id).run.id
    assert Memory.objects.get().text == "She eats meat now."
    first, second = (last_message(request) for request in script.requests)
    assert first == second and "vegetarian" in first
    view = view_request(run_id, 1)
    [facts] = [part for part in view.parts if part.kind is PartKind.MEMORY]
    [message] = [part for part in view.parts if part.kind is PartKind.MESSAGE]
    assert "vegetarian" in facts.text and facts.tokens > 20 and message.text == "a recipe, please"
    idle.wait(idle.send("and now?").run_id)
    assert "She eats meat now." in last_message(script.requests[2])


def test_a_claim_after_a_crash_uses_the_same_facts(idle: EngineRig) -> None:
    idle.agent(Reply(("Hello.",)))
    remember(idle, "diet", "She is vegetarian.", source="person")
    run_id = idle.send("dinner?").run_id
    first = claimed(run_id, new_id())
    remember(idle, "diet", "She eats meat now.", source="person")
    remember(idle, "dinner", "At eight.", source="person")
    assert lease.recover_crashed(Run.objects.get(pk=run_id)) is RunStatus.RUNNING
    second = claimed(run_id, new_id())
    requests = [build_request(claim, claim.snapshot, may_call_tools=True) for claim in (first, second)]
    assert requests[0].messages == requests[1].messages
    assert "vegetarian" in last_message(requests[1]) and second.fence == 2
    assert not transitions.claim(first.run, new_id()) and RunRecall.objects.count() == 1


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"memory_budget_tokens": 0}, RunOptions()),
        ({"enabled_tools": ["echo"]}, RunOptions()),
        ({"denied_tools": ["memory_recall"]}, RunOptions()),
        ({}, RunOptions(tools=Scope(ScopeMode.NONE))),
    ],
)
def test_nothing_is_recalled_without_a_budget_or_the_tool(
    idle: EngineRig, fields: dict[str, Any], options: RunOptions
) -> None:
    script = idle.agent(Reply(("Hello.",)), **fields)
    remember(idle, "diet", "She is vegetarian.", source="person")
    idle.start()
    idle.wait(idle.send("dinner?", run=options).run_id)
    assert last_message(script.requests[0]) == "dinner?" and not RunRecall.objects.exists()


def test_the_budget_limits_what_is_recalled(idle: EngineRig) -> None:
    script = idle.agent(Reply(("Hello.",)), memory_budget_tokens=80)
    for number in range(20):
        remember(idle, f"dinner {number}", "A long story about dinner. " * 3, source="person")
    idle.start()
    idle.wait(idle.send("dinner?").run_id)
    assert last_message(script.requests[0]).count("- dinner ") == 2
    Agent.objects.update(max_context_tokens=500)  # a tenth of the context at most
    idle.wait(idle.send("dinner!").run_id)
    assert last_message(script.requests[-1]).count("- dinner ") == 1


def test_a_child_run_recalls_what_fits_its_own_task(idle: EngineRig) -> None:
    idle.agent(Reply(), tool_profile="teams")
    launch = ToolCall("1", "launch_workstream", '{"id": "a", "instruction": "plan the dinner"}')
    main = [
        Reply(tool_calls=(launch,)),
        Reply(tool_calls=(ToolCall("2", "wait_workstreams", "{}"),)),
        Reply(("Done.",)),
    ]
    script = ScriptedProvider.scripts["script"] = TeamScript(main, {"a": [Reply(("Planned.",))]})
    remember(idle, "diet", "She has dinner without meat.", source="agent")
    idle.start()
    idle.wait(idle.send("go").run_id)
    recalling = [last_message(request) for request in script.requests if "without meat" in last_message(request)]
    assert len(recalling) == 1 and "plan the dinner" in recalling[0]


def test_a_failed_recall_does_not_stop_the_answer(idle: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("no index")

    idle.agent(Reply(("Hello.",)))
    remember(idle, "diet", "She is vegetarian.", source="person")
    monkeypatch.setattr(memories, "recall_trusted", fail)
    idle.start()
    assert idle.wait(idle.send("dinner?").run_id).answer == "Hello."


def test_the_demo_model_reads_the_message_and_not_the_facts(idle: EngineRig) -> None:
    idle.agent(Reply(("Hello.",)))
    remember(idle, "weather", "Asks for the weather in Paris.", source="person")
    claim = claimed(idle.send("hello").run_id, new_id())
    request = build_request(claim, claim.snapshot, may_call_tools=True)
    assert "Paris" in last_message(request) and decide(request.messages, request.tools).intents == ()
