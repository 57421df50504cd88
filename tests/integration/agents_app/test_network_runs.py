"""Runs of networks: tasks as child runs of the real engine, with a model that is a script."""

import json
import threading
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from agents_app import services as runs
from agents_app.models import Agent, Run, StoredNetwork
from agents_app.network_runs import library
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from agents_app.runs import children
from agents_app.types import RunOptions, RunStatus
from agents_app.workstreams.control import SteerWorkstream
from audit_app.kernel import context
from audit_app.kernel.errors import NotFound
from sessions_app import integrity_checks
from sessions_app.models import Turn
from tests.support.engine import EngineRig, until
from tests.support.team_script import TeamScript
from tools_app.models import Approval, SharedValue
from tools_app.types import ToolCall, ToolContext

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


def start(rig: EngineRig, tasks: str, /, values: dict[str, Any] | None = None, **replies: list[Reply]) -> Any:
    """Start a network; its tasks reply as given, by the names of their attempts."""
    rig.agent(Reply(), always_ask=["echo"], tool_profile="teams")
    ScriptedProvider.scripts["script"] = TeamScript([Reply(("main",))], replies)
    definition = f"name: net\n{tasks}"
    network = {"name": "net", "version": 1, "definition": definition, "context": values or {}}
    return rig.send("Hello", run=RunOptions(network=network)).run_id


def tasks_of(run_id: Any) -> dict[str, str]:
    rows = Run.objects.filter(parent_id=run_id).order_by("created_at", "id")
    return {run.workstream: run.status for run in rows}


def check() -> None:
    assert integrity_checks.find_violations() == []


def says(text: Any) -> list[Reply]:
    return [Reply((text if isinstance(text, str) else json.dumps(text),))]


def test_tasks_run_in_order_and_the_last_result_is_the_answer(rig: EngineRig) -> None:
    tasks = """
tasks:
- name: plan
- parallel: research
  depends_on: [plan]
  tasks: [{name: web}, {name: files}]
- name: write
  depends_on: [research]
  prompt: "{{ tasks.web.text }} and {{ tasks.files.text }}"
"""
    run_id = start(rig, tasks, plan=says("a plan"), web=says("W"), files=says("F"), write=says("All of it."))
    ended = rig.wait(run_id)
    assert (ended.run.status, ended.answer) == (RunStatus.COMPLETED, "All of it.")
    assert tasks_of(run_id) == dict.fromkeys(("plan", "web", "files", "write"), "completed")
    last = ScriptedProvider.scripts["script"].requests_of("write")[0]  # type: ignore[attr-defined]
    assert last.messages[-1].content == "W and F"
    assert [turn.content for turn in Turn.objects.order_by("ordinal", "part")] == ["Hello", "All of it."]
    check()


def test_an_answer_routes_to_optional_tasks(rig: EngineRig) -> None:
    tasks = """
tasks:
- {name: triage, activates: [billing, technical]}
- {name: billing, optional: true}
- {name: technical, optional: true}
"""
    run_id = start(rig, tasks, triage=says({"activate": ["billing"]}), billing=says("Paid."), technical=says("No."))
    assert rig.wait(run_id).answer == "Paid."
    assert list(tasks_of(run_id)) == ["triage", "billing"]
    schema = Run.objects.get(parent_id=run_id, workstream="triage").output_schema
    assert schema and schema["properties"]["activate"]["items"]["enum"] == ["billing", "technical"]
    check()


def test_a_task_with_a_value_starts_no_run(rig: EngineRig) -> None:
    tasks = "tasks:\n- {name: a}\n- {name: b}\n- {name: joined, value: ['{{ tasks.a.text }}', '{{ tasks.b.text }}']}\n"
    run_id = start(rig, tasks.replace("]}", "], depends_on: [a, b]}"), a=says("A"), b=says("B"))
    assert rig.wait(run_id).answer == '["A", "B"]' and sorted(tasks_of(run_id)) == ["a", "b"]
    check()


def test_a_task_is_retried_and_its_failure_ends_the_network(rig: EngineRig) -> None:
    tasks = "tasks:\n- {name: first, retries: 1, retry_seconds: 0}\n- {name: next, depends_on: [first]}\n"
    broken = [Reply(("",))]  # an empty answer is a failure
    run_id = start(rig, tasks, **{"first": broken, "first~2": broken})
    ended = rig.wait(run_id)
    assert (ended.run.status, ended.run.error_code) == (RunStatus.FAILED, "network_failed")
    assert ended.run.error_message.startswith("The task first failed: ")
    assert tasks_of(run_id) == {"first": "failed", "first~2": "failed"}
    check()


def test_a_failed_task_cancels_those_that_run(rig: EngineRig) -> None:
    go_on = threading.Event()
    tasks = "tasks:\n- {name: slow}\n- {name: bad}\n"
    run_id = start(rig, tasks, slow=[Reply(("Half",), hangs=True)], bad=[Reply(("",), held_by=go_on)])
    until(lambda: Run.objects.filter(parent_id=run_id, status="running").count() == 2)
    go_on.set()
    assert rig.wait(run_id).run.error_code == "network_failed"
    assert tasks_of(run_id) == {"slow": "cancelled", "bad": "failed"}
    check()


def test_a_map_and_a_loop(rig: EngineRig) -> None:
    tasks = """
tasks:
- name: each
  map: context.files
  prompt: "Read {{ item }}"
- name: draft
  depends_on: [each]
  prompt: "{{ tasks.each.output }} {{ previous.review.output.why }}"
- name: review
  depends_on: [draft]
  output_schema: {type: object, properties: {good: {type: boolean}, why: {type: string}}}
  loop: {until: {value: tasks.review.output.good, equals: true}, most: 3, back_to: draft}
- name: publish
  depends_on: [draft]
  prompt: "{{ tasks.draft.text }}"
"""
    replies = {"each[0]": says("A"), "each[1]": says("B"), "draft": says("v1"), "draft#2": says("v2")}
    replies |= {"review": says({"good": False, "why": "short"}), "review#2": says({"good": True, "why": ""})}
    run_id = start(rig, tasks, {"files": ["a.txt", "b.txt"]}, **replies, publish=says("Done."))
    assert rig.wait(run_id).answer == "Done."
    script: Any = ScriptedProvider.scripts["script"]
    assert script.requests_of("draft#2")[0].messages[-1].content == '["A", "B"] short'
    assert script.requests_of("publish")[0].messages[-1].content == "v2"
    check()


def test_cancelling_a_network_cancels_its_tasks(rig: EngineRig) -> None:
    run_id = start(rig, "tasks: [{name: slow}]\n", slow=[Reply(("Half",), hangs=True)])
    until(lambda: Run.objects.filter(parent_id=run_id, status="running").exists())
    until(lambda: Run.objects.filter(pk=run_id, waiting_on="children").exists())
    runs.cancel_run(run_id)
    assert rig.wait(run_id).run.status is RunStatus.CANCELLED
    until(lambda: tasks_of(run_id) == {"slow": "cancelled"})
    check()


def test_a_network_has_a_time_limit(rig: EngineRig) -> None:
    limit, parked = timedelta(seconds=600), Run.objects.filter(waiting_on="children", owner=None)
    run_id = start(rig, "time_limit: 600\ntasks: [{name: slow}]\n", slow=[Reply(("Half",), hangs=True)])
    until(lambda: parked.exists() and Run.objects.filter(parent_id=run_id, status="running").exists())
    row = parked.get()
    assert row.started_at and row.ready_at == row.started_at + limit
    parked.update(started_at=row.started_at - limit, ready_at=Now())
    assert rig.engine
    rig.engine.nudge(run_id)
    ended = rig.wait(run_id)
    assert (ended.run.status, ended.run.error_code) == (RunStatus.TIMED_OUT, "time_limit")
    until(lambda: tasks_of(run_id) == {"slow": "cancelled"})


def test_the_time_limit_of_a_network_stands_still_while_a_person_is_awaited(rig: EngineRig) -> None:
    call = ToolCall("1", "echo", json.dumps({"text": "hi"}))
    run_id = start(rig, "time_limit: 600\ntasks: [{name: act}]\n", act=[Reply(tool_calls=(call,)), Reply(("Acted.",))])
    approval = until(lambda: Approval.objects.first())
    parked = Run.objects.filter(pk=run_id, waiting_on="children", owner=None)
    until(parked.exists)
    now = timezone.now()
    Approval.objects.update(created_at=now - timedelta(seconds=700))
    parked.update(started_at=now - timedelta(seconds=900), ready_at=Now())
    assert rig.engine
    rig.engine.nudge(run_id)
    row = until(lambda: parked.filter(ready_at__gt=now + timedelta(minutes=1)).first())
    assert timedelta(seconds=390) < row.ready_at - now < timedelta(seconds=500), "200 of 600 seconds are used"
    runs.decide_approval(approval.pk, decision="allow_once", actor=f"user:{rig.owner.pk}")
    assert rig.wait(run_id).answer == "Acted."
    check()


def test_an_approval_in_a_network_is_decided_by_the_person(rig: EngineRig) -> None:
    call = ToolCall("1", "echo", json.dumps({"text": "hi"}))
    tasks = "tasks:\n- {name: act}\n- {name: report, depends_on: [act]}\n"
    run_id = start(rig, tasks, act=[Reply(tool_calls=(call,)), Reply(("Acted.",))], report=says("Reported."))
    approval = until(lambda: Approval.objects.first())
    assert not Run.objects.filter(workstream="report").exists()
    runs.decide_approval(approval.pk, decision="allow_once", actor=f"user:{rig.owner.pk}")
    assert rig.wait(run_id).answer == "Reported."
    check()


def test_a_tool_runs_a_network_whose_result_reaches_its_caller(rig: EngineRig) -> None:
    definition = "name: net\ntasks:\n- name: only\n  prompt: '{{ message }} {{ context.tone }}'\n"
    arguments = {"name": "net", "message": "Sum up", "context": {"tone": "kindly"}}
    rig.agent(Reply(), tool_profile="teams")
    library.create(definition, Agent.objects.all(), owner_id=rig.owner.pk)
    main = [
        Reply(tool_calls=(ToolCall("1", "run_network", json.dumps(arguments)),)),
        Reply(tool_calls=(ToolCall("2", "wait_workstreams", "{}"),)),
        Reply(("It says: short.",)),
    ]
    script = ScriptedProvider.scripts["script"] = TeamScript(main, {"only": says("short.")})
    with context.bind(actor=f"user:{rig.owner.pk}"):
        ended = rig.wait(rig.send("go").run_id)
    assert ended.answer == "It says: short."
    assert script.requests_of("only")[0].messages[-1].content == "Sum up kindly"
    assert any("short." in message.content for message in script.requests_of("main")[-1].messages)
    assert Run.objects.get(workstream="only").depth == 2
    check()


def call_network(rig: EngineRig, tasks: str, main: list[Reply], **replies: list[Reply]) -> tuple[Any, TeamScript]:
    """Let an agent run a network of these tasks and wait for it; `main` is what it replies then."""
    rig.agent(Reply(), tool_profile="teams")
    library.create(f"name: net\ntasks:\n{tasks}", Agent.objects.all(), owner_id=None, is_shared=True)
    started = ToolCall("1", "run_network", json.dumps({"name": "net", "message": "Sum up"}))
    first = [Reply(tool_calls=(started,)), Reply(tool_calls=(ToolCall("2", "wait_workstreams", "{}"),))]
    script = ScriptedProvider.scripts["script"] = TeamScript([*first, *main], replies)
    with context.bind(actor=f"user:{rig.owner.pk}"):
        return rig.send("go").run_id, script


def steer(command: str, text: str = "") -> None:
    network = Run.objects.get(workstream__startswith="network_")
    assert network.parent_id
    children.steer_child(network.parent_id, network.pk, command, text)


def test_a_paused_network_starts_no_task_and_instructions_go_to_those_that_start_later(rig: EngineRig) -> None:
    one, long = threading.Event(), threading.Event()
    tasks = "- {name: one}\n- {name: two, depends_on: [one]}\n- {name: long}\n"
    replies = {"one": [Reply(("1",), held_by=one)], "two": says("2"), "long": [Reply(("3",), held_by=long)]}
    run_id, script = call_network(rig, tasks, [Reply(("Done.",))], **replies)
    until(lambda: script.requests_of("one") and script.requests_of("long"))
    steer(children.PAUSE)
    one.set()
    until(lambda: Run.objects.filter(workstream="one", end_stored=True).exists())
    steer(children.ADD_INSTRUCTION, "in French")
    until(lambda: Run.objects.filter(workstream__startswith="network_", owner=None, ready_at=None).exists())
    assert not Run.objects.filter(workstream="two").exists()
    steer(children.RESUME)
    until(lambda: Run.objects.filter(workstream="two", status="completed").exists())
    assert script.requests_of("two")[0].messages[-1].content.endswith("\n\nFurther instruction: in French")
    assert "French" not in str(script.requests_of("long"))
    long.set()
    assert rig.wait(run_id).answer == "Done."
    check()


def test_a_network_that_is_paused_between_its_tasks_waits_for_its_parent(rig: EngineRig) -> None:
    one, resumed = threading.Event(), threading.Event()
    tasks = "- {name: one}\n- {name: two, depends_on: [one]}\n"
    waits = Reply(("It is paused.",), tool_calls=(ToolCall("3", "wait_workstreams", "{}"),), held_by=resumed)
    replies = {"one": [Reply(("1",), held_by=one)], "two": says("2")}
    run_id, script = call_network(rig, tasks, [waits, Reply(("Done.",))], **replies)
    until(lambda: script.requests_of("one"))
    steer(children.PAUSE)
    one.set()
    until(lambda: len(script.requests_of("main")) == 3)
    assert "is paused]" in str(script.requests_of("main")[-1].messages)
    network = Run.objects.get(workstream__startswith="network_")
    assert (network.waiting_on, network.deadline_at) == ("parent", None) and not script.requests_of("two")
    call = ToolContext(uuid4(), run_id, network.conversation_id, "default", "user:1", "key", 30)
    arguments = {"workstream": network.workstream, "command": children.RESUME}
    assert "none start" in SteerWorkstream().act(arguments, call)["note"]
    resumed.set()
    assert rig.wait(run_id).answer == "Done." and len(script.requests_of("two")) == 1
    check()


def test_a_lost_nudge_and_a_restart_change_nothing(rig: EngineRig) -> None:
    """Lose every nudge and stop the engine while a task runs: the rows are enough to continue."""
    go_on = threading.Event()
    tasks = "tasks:\n- {name: one}\n- {name: two, depends_on: [one]}\n"
    run_id = start(rig, tasks, one=[Reply(("1",), held_by=go_on)], two=says("2"))
    until(lambda: Run.objects.filter(parent_id=run_id, status="running").exists())
    rig.drops = lambda task_name: task_name == "agents.advance_run"
    assert rig.engine
    rig.engine.stop()
    go_on.set()
    rig.start()
    assert rig.wait(run_id, 40).answer == "2"
    assert tasks_of(run_id) == {"one": "completed", "two": "completed"}
    check()


def remember(key: str, value: str, **more: Any) -> ToolCall:
    return ToolCall("w", "shared_memory_write", json.dumps({"key": key, "value": value, **more}))


def recall(key: str, **more: Any) -> ToolCall:
    return ToolCall("r", "shared_memory_read", json.dumps({"key": key, **more}))


def test_tasks_share_memory_and_wait_for_each_other(rig: EngineRig) -> None:
    tasks = "tasks:\n- {name: writer}\n- {name: reader}\n"
    run_id = start(
        rig,
        tasks,
        writer=[Reply(tool_calls=(remember("facts.capital", "Paris"),)), Reply(("Stored.",))],
        reader=[Reply(tool_calls=(recall("facts.*", wait_seconds=20),)), Reply(("Read.",))],
    )
    rig.wait(run_id, 30)
    script: Any = ScriptedProvider.scripts["script"]
    read = script.requests_of("reader")[-1].messages[-1].content
    assert "Paris" in read and "default/writer" in read
    assert SharedValue.objects.get().owner_id == run_id
    check()


@pytest.mark.parametrize("space", ["run", "session", "network"])
def test_the_keys_of_a_task_are_the_same_in_every_space(rig: EngineRig, space: str) -> None:
    run_id = start(
        rig,
        "memory: [facts.*]\ntasks:\n- {name: writer}\n- {name: reader, depends_on: [writer], memory: none}\n",
        writer=[
            Reply(tool_calls=(remember("plan", "x", space=space),)),
            Reply(tool_calls=(remember("facts.a", "hidden", space=space),)),
            Reply(("Ok.",)),
        ],
        reader=[Reply(tool_calls=(recall("*", space=space),)), Reply(("Ok.",))],
    )
    rig.wait(run_id)
    assert [value.key for value in SharedValue.objects.all()] == ["facts.a"]
    script: Any = ScriptedProvider.scripts["script"]
    assert "hidden" not in script.requests_of("reader")[-1].messages[-1].content


def test_a_network_that_was_deleted_meanwhile_is_not_found(rig: EngineRig) -> None:
    rig.agent(Reply(("Ok.",)))
    stored = library.create("name: own\ntasks:\n- name: a\n  agent: default\n", Agent.objects.all(), owner_id=None)
    StoredNetwork.objects.get().delete()
    with pytest.raises(NotFound, match="no such network"):
        library.change(stored, Agent.objects.all(), is_shared=True)


def test_a_task_has_only_the_keys_that_it_may_use(rig: EngineRig) -> None:
    tasks = "memory: [facts.*]\ntasks:\n- {name: writer}\n- {name: closed, depends_on: [writer], memory: none}\n"
    run_id = start(
        rig,
        tasks,
        writer=[
            Reply(tool_calls=(remember("plan", "x"),)),
            Reply(tool_calls=(remember("facts.a", "1"),)),
            Reply(("Ok.",)),
        ],
        closed=[Reply(tool_calls=(recall("facts.*"),)), Reply(("Ok.",))],
    )
    rig.wait(run_id)
    assert [value.key for value in SharedValue.objects.all()] == ["facts.a"]
    script: Any = ScriptedProvider.scripts["script"]
    assert "may not use the key" in script.requests_of("writer")[1].messages[-1].content
    assert '"values": []' in script.requests_of("closed")[-1].messages[-1].content.replace(
        '"values":[]', '"values": []'
    )
