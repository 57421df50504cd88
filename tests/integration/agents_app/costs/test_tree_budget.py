"""Budgets of child runs: caps on the tokens of a run and of all runs below it, reserved before each model call."""

import json
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from agents_app.costs import tree_budget
from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from agents_app.runs import children
from agents_app.runs.children import NewChild
from agents_app.types import RunStatus, Usage
from agents_app.types.child_runs import ChildSpec
from tests.support.engine import EngineRig
from tests.support.team_script import TeamScript
from tools_app.types import ToolCall

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _agent(idle: EngineRig) -> None:
    idle.agent(Reply(("Done.",)), tool_profile="teams")


def child_of(parent: Run, name: str, budget_tokens: int | None = None) -> Run:
    return children.start_child(
        NewChild(uuid4(), parent.pk, name, ChildSpec(name, "Work."), budget_tokens=budget_tokens)
    )


def use(run: Run, tokens: int) -> None:
    Run.objects.filter(pk=run.pk).update(input_tokens=F("input_tokens") + tokens)


def refusal_of(run: Run) -> str:
    assert run.root_id
    return tree_budget.Tree(run.root_id).room_of(run.pk).refusal


def root_of(idle: EngineRig) -> Run:
    return Run.objects.get(pk=idle.send().run_id)


def test_children_without_a_budget_draw_from_that_above_them(idle: EngineRig) -> None:
    team = child_of(root_of(idle), "team", 100)
    first, second = child_of(team, "first"), child_of(team, "second")
    below = child_of(second, "below")
    assert [refusal_of(run) for run in (team, first, second, below)] == ["", "", "", ""]
    use(first, 60)
    use(below, 39)
    assert [refusal_of(run) for run in (team, first, second, below)] == ["", "", "", ""]
    use(team, 1)
    assert refusal_of(team) == "The run has used up its budget of 100 tokens."
    above = "The workstream team, to which it belongs, has used up its budget of 100 tokens."
    assert [refusal_of(run) for run in (first, second, below)] == [above] * 3


def test_a_childs_own_budget_is_a_further_cap(idle: EngineRig) -> None:
    root = root_of(idle)
    team = child_of(root, "team", 100)
    small, large, beside = child_of(team, "small", 10), child_of(team, "large", 1000), child_of(root, "beside")
    use(small, 10)
    use(beside, 5000)
    assert refusal_of(small) == "The run has used up its budget of 10 tokens."
    assert [refusal_of(run) for run in (team, large, beside)] == ["", "", ""]
    use(large, 90)
    assert "workstream team" in refusal_of(large)
    assert refusal_of(beside) == ""


def test_runs_without_a_budget_above_them_pay_nothing(idle: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    root = root_of(idle)
    child_of(child_of(root, "a"), "b")
    assert set(Run.objects.filter(parent__isnull=False).values_list("spec__may_have_budget", flat=True)) == {False}
    for name in ("Tree", "lock", "give_back"):
        monkeypatch.setattr(tree_budget, name, lambda *_, **__: pytest.fail("the budgets were read"))
    ended = idle.start().wait(root.pk)
    assert ended.run.status is RunStatus.COMPLETED
    assert set(Run.objects.values_list("status", "reserved_tokens")) == {("completed", 0)}


def test_budgets_are_looked_for_above_runs_of_earlier_releases(idle: EngineRig) -> None:
    team = child_of(root_of(idle), "team", 100)
    child = child_of(team, "first")
    spec = {name: value for name, value in child.spec.items() if name != "may_have_budget"}
    Run.objects.filter(pk=child.pk).update(spec=spec)
    use(team, 100)
    assert Run.objects.get(pk=child.pk).may_have_budget and "workstream team" in refusal_of(child)


def test_a_budget_of_a_large_tree_costs_one_statement(idle: EngineRig) -> None:
    root = root_of(idle)
    team = child_of(root, "team", 100)
    child = child_of(team, "first")
    fields = {"agent": root.agent, "ordinal": 0, "root": root, "created_at": root.created_at}
    Run.objects.bulk_create(
        Run(parent=team, conversation_id=uuid4(), workstream=f"w{n}", input_tokens=1, **fields) for n in range(99)
    )
    with CaptureQueriesContext(connection) as queries:
        assert refusal_of(child) == ""
    assert len(queries) == 1
    use(child, 1)
    assert "workstream team" in refusal_of(child)


def test_a_workstream_with_a_budget_continues_beside_its_own_workstreams(idle: EngineRig) -> None:
    def calls(name: str, **arguments: object) -> Reply:
        given = {"id": name, "instruction": f"task {name}", **arguments}
        return Reply(tool_calls=(ToolCall(name, "launch_workstream", json.dumps(given)),), usage=Usage(20, 10))

    done = [Reply(("Done.",), usage=Usage(20, 10))]
    script = {"a": [calls("b"), calls("c"), *done], "b": done, "c": done}
    ScriptedProvider.scripts["script"] = TeamScript([calls("a", budget_tokens=1000), *done], script)
    ended = idle.start().wait(idle.send("go").run_id)
    states = dict(Run.objects.filter(root_id=ended.run.id).values_list("workstream", "status"))
    assert (ended.run.status, states) == (RunStatus.COMPLETED, dict.fromkeys("abc", "completed"))
