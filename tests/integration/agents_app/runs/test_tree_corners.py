"""Trees of runs in corners: retries, restrictions of a message, versions of an agent, and runs whose end fails."""

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from agents_app import services as runs
from agents_app.configuration import agent_versions
from agents_app.models import Agent, Run
from agents_app.network_runs.progress import read_progress
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from agents_app.runs import children, claims, deadline_sweep, emergency_stop, lease, reaper, transitions, writes
from agents_app.runs.children import NewChild
from agents_app.runs.run_policy import session_policy_of
from agents_app.types import RunOptions, RunStatus
from agents_app.types.child_runs import ChildSpec, RunKind
from audit_app.kernel.errors import Conflict
from audit_app.kernel.liveness import Observer
from sessions_app import integrity_checks
from tests.support.engine import EngineRig, until
from tests.support.team_script import TeamScript
from tools_app.policy.scope import Scope, ScopeMode
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

NETWORK = "tasks:\n- {name: only, prompt: 'Do: {{ message }}'}\n"


@pytest.fixture(autouse=True)
def _agent(idle: EngineRig) -> None:
    idle.agent(Reply(("Done.",)), tool_profile="teams", owner_id=idle.owner.pk)


def network(tasks: str) -> RunOptions:
    return RunOptions(network={"name": "net", "version": 1, "definition": f"name: net\n{tasks}", "context": {}})


def child_of(parent_id: UUID, name: str = "a") -> Run:
    return children.start_child(NewChild(uuid4(), parent_id, name, ChildSpec(name, "Work.")))


def calling(tool: str, **arguments: Any) -> Reply:
    return Reply(tool_calls=(ToolCall(tool, tool, json.dumps(arguments)),))


def test_one_message_has_a_limited_number_of_runs_over_all_levels(idle: EngineRig, settings: Any) -> None:
    settings.KOMAND_MAX_RUNS_PER_MESSAGE = 4
    root_id, other_id = idle.send("Work").run_id, idle.send("Other").run_id
    first = child_of(root_id)
    child_of(child_of(first.pk).pk)
    for parent_id in (root_id, first.pk):
        with pytest.raises(Conflict) as refused:
            child_of(parent_id, "b")
        assert refused.value.code == "too_many_runs" and "4 runs" in refused.value.message
    Run.objects.filter(pk=first.pk).update(ended_at=timezone.now())
    with pytest.raises(Conflict, match="4 runs"):
        child_of(root_id, "b")
    task = NewChild(uuid4(), root_id, "task", ChildSpec("task", "Work."), kind=RunKind.TASK)
    assert children.start_child(task).root_id == root_id, "its network could not go on"
    assert child_of(other_id).root_id == other_id


def test_a_tree_of_fifty_workstreams_is_within_the_default(idle: EngineRig) -> None:
    root_id = idle.send("Work").run_id
    assert len({child_of(root_id, f"w{number}").pk for number in range(50)}) == 50


def test_a_network_is_retried_with_the_message_of_the_run_before(rig: EngineRig) -> None:
    script = ScriptedProvider.scripts["script"] = TeamScript([], {"only": [Reply(("",))]})
    first = rig.wait(rig.send("Sum up", run=network(NETWORK)).run_id)
    assert first.run.status is RunStatus.FAILED
    ScriptedProvider.scripts["script"] = script = TeamScript([], {"only": [Reply(("Short.",))]})
    second = rig.wait(runs.retry_run(first.run.id, actor=f"user:{rig.owner.pk}"))
    assert (second.run.status, second.answer) == (RunStatus.COMPLETED, "Short.")
    assert script.requests[0].messages[-1].content == "Do: Sum up"
    assert integrity_checks.find_violations() == []


def test_the_progress_of_a_retried_network_is_decided_by_its_message(rig: EngineRig) -> None:
    tasks = f"{NETWORK}- {{name: hint, when: {{value: message, equals: go}}}}\n"
    replies = {"only": [Reply(("",))], "hint": [Reply(("Yes.",))]}
    ScriptedProvider.scripts["script"] = TeamScript([], replies)
    first = rig.wait(rig.send("go", run=network(tasks)).run_id)
    ScriptedProvider.scripts["script"] = TeamScript([], {**replies, "only": [Reply(("Done.",))]})
    second = rig.wait(runs.retry_run(first.run.id, actor=f"user:{rig.owner.pk}"))
    results = read_progress(second.run.id).results
    assert {name: result.status.value for name, result in results.items()} == {"only": "succeeded", "hint": "succeeded"}


def test_the_time_limit_of_a_retried_task_begins_after_its_pause(rig: EngineRig) -> None:
    tasks = "tasks:\n- {name: only, retries: 1, retry_seconds: 600, time_limit: 30}\n"
    ScriptedProvider.scripts["script"] = TeamScript([], {"only": [Reply(("",))]})
    run_id = rig.send(run=network(tasks)).run_id
    again = until(lambda: Run.objects.filter(parent_id=run_id, workstream="only~2").first())
    assert again.ready_at and again.deadline_at and again.alarm_at
    assert (again.deadline_at - again.ready_at).total_seconds() > 25 and again.alarm_at > again.ready_at


def test_child_runs_have_no_more_than_the_message_of_their_root_allows(idle: EngineRig) -> None:
    allowed = Scope(ScopeMode.LIST, ("echo", "launch_workstream"))
    options = RunOptions(tools=allowed, mcp_servers=Scope(ScopeMode.NONE))
    grandchild = child_of(child_of(idle.send(run=options).run_id).pk)
    policy = session_policy_of(grandchild)
    assert (policy.tools, policy.mcp_servers) == (allowed.names, ())


def test_a_workstream_may_have_the_tools_of_the_version_that_its_parent_uses(rig: EngineRig) -> None:
    agent = Agent.objects.get(agent_id="default")
    version = agent_versions.record_version(agent)
    runs.update_agent(agent, denied_tools=["echo"])
    main = [calling("launch_workstream", id="a", instruction="x", allowed_tools=["echo"]), Reply(("Done.",))]
    ScriptedProvider.scripts["script"] = TeamScript(main, {"a": [Reply(("Alpha.",))]})
    ended = rig.wait(rig.send(run=RunOptions(agent_version=version)).run_id)
    assert [execution.error for execution in ended.executions] == [None]
    assert Run.objects.filter(parent_id=ended.run.id, workstream="a").exists()


def test_a_run_finds_the_tools_of_the_version_that_it_uses(idle: EngineRig) -> None:
    agent = Agent.objects.get(agent_id="default")
    Agent.objects.filter(pk=agent.pk).update(tool_profile="chat")
    version = agent_versions.record_version(agent)
    before = claims.list_hidden(idle.send().run_id)
    runs.update_agent(agent, denied_tools=["*"])
    run_id = idle.send(busy="queue", run=RunOptions(agent_version=version)).run_id
    assert before and claims.list_hidden(run_id) == before


@pytest.mark.parametrize("stopped", ["root", "workstream"])
def test_nothing_below_a_run_that_was_cancelled_starts_another_while_its_dead_owner_holds_it(
    idle: EngineRig, stopped: str
) -> None:
    root_id = idle.send().run_id
    child = child_of(root_id)
    below = child_of(child.pk)
    other = child_of(root_id, "other")
    run_id = root_id if stopped == "root" else child.pk
    Run.objects.filter(pk=run_id).update(status="running", owner=uuid4(), fence=1, ready_at=None)
    assert runs.cancel_run(run_id)
    marked = set(Run.objects.filter(cancel_requested_at__isnull=False).values_list("pk", flat=True))
    assert marked == {run_id, child.pk, below.pk, *([other.pk] if stopped == "root" else [])}
    with pytest.raises(Conflict, match="ending"):
        child_of(below.pk)


def test_what_a_run_that_was_cancelled_has_started_says_that_its_parent_ended(idle: EngineRig) -> None:
    root_id = idle.send().run_id
    child = child_of(root_id)
    Run.objects.filter(pk=root_id).update(status="running", owner=uuid4(), fence=1, ready_at=None)
    runs.cancel_run(root_id)
    claim = lease.claim(uuid4(), child.pk)
    assert claim and writes.decide_and_apply(claim, claim.snapshot) is None
    assert Run.objects.values_list("status", "error_code").get(pk=child.pk) == ("cancelled", "parent_ended")


def broken_for(run_id: UUID, function: Any) -> Any:
    """Return the function, which fails for one run."""

    def call(run: Run, *args: Any, **kwargs: Any) -> Any:
        if run.pk == run_id:
            raise RuntimeError("it cannot be written")
        return function(run, *args, **kwargs)

    return call


def test_a_deadline_that_cannot_be_handled_keeps_no_other_from_it(
    idle: EngineRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = idle.send().run_id
    first, second = child_of(run_id, "a"), child_of(run_id, "b")
    Run.objects.filter(parent_id=run_id).update(alarm_at=Now(), deadline_at=Now())
    monkeypatch.setattr(transitions, "end", broken_for(first.pk, transitions.end))
    deadline_sweep.sweep()
    assert dict(Run.objects.filter(parent_id=run_id).values_list("pk", "status")) == {
        first.pk: "queued",
        second.pk: "timed_out",
    }


def test_a_run_that_cannot_be_recovered_keeps_no_other_from_it(
    idle: EngineRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [idle.send().run_id, child_of(idle.send(busy="queue").run_id).pk]
    Run.objects.filter(pk__in=ids).update(status="running", owner=uuid4(), fence=1, ready_at=None)
    monkeypatch.setattr(lease, "recover_crashed", broken_for(ids[0], lease.recover_crashed))
    monkeypatch.setattr(Observer, "dead", lambda self, owners: set(owners))
    reaper.Reaper(lambda run_id: None).sweep()
    assert list(Run.objects.filter(pk__in=ids, owner=None).values_list("pk", flat=True)) == [ids[1]]


def test_a_stopped_run_that_cannot_be_ended_keeps_no_other_from_it(
    idle: EngineRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = child_of(idle.send().run_id)
    second = child_of(idle.send(busy="queue").run_id)
    Run.objects.filter(pk__in=[first.pk, second.pk]).update(status="waiting", waiting_on="retry")
    monkeypatch.setattr(emergency_stop, "end", broken_for(first.pk, transitions.end))
    emergency_stop.stop_agents("default")
    assert Run.objects.get(pk=second.pk).status == "cancelled"
