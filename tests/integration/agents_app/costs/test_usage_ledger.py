"""Records of usage: written with the step, at the prices of its time, by model, and for failed calls that report it."""

import pytest

from agents_app import selectors
from agents_app.models import CostTotal, DailyUsage, ModelPrice, ModelProvider, Run, Step
from agents_app.providers.kinds.scripted import Reply
from agents_app.types import RunStatus, Usage
from agents_app.types.prices import NANOS
from agents_app.types.run_cost import TreeCost
from audit_app.kernel import context
from tests.support.engine import EngineRig
from tests.support.rest import make_run, make_session
from tools_app.types import ToolCall

pytestmark = pytest.mark.django_db(transaction=True)
ECHO = ToolCall("c", "echo", '{"text": "x"}')


def price(model: str, **prices: float) -> None:
    provider = ModelProvider.objects.get(name="scripted")
    ModelPrice.objects.update_or_create(provider=provider, model=model, defaults=prices)


def test_steps_keep_the_cost_of_their_time(rig: EngineRig) -> None:
    usage = Usage(1000, 100, cached_input_tokens=400, reasoning_tokens=60)
    rig.agent(Reply(("One.",), usage=usage))
    price("script", input_price=0.01, cached_input_price=0.005, output_price=0.1)
    first = rig.wait(rig.send().run_id).run
    price("script", input_price=1, output_price=1)
    second = rig.wait(rig.send("again").run_id).run
    stored = {step.run_id: step for step in Step.objects.all()}
    assert (stored[first.id].provider, stored[first.id].cost_nanos) == ("scripted", 18_000_000)
    assert (stored[first.id].cached_input_tokens, stored[first.id].reasoning_tokens) == (400, 60)
    assert selectors.get_cost(first.id).cost == 0.018
    assert selectors.get_cost(second.id).cost == 0.702


def test_the_sums_of_a_day_are_those_of_the_calls(rig: EngineRig) -> None:
    rig.agent(Reply(tool_calls=(ECHO,), usage=Usage(10, 5)), Reply(("Done.",), usage=Usage(30, 7)))
    price("scr*", input_price=1, output_price=2)
    actor = f"user:{rig.owner.pk}"
    with context.bind(actor=actor):
        rig.wait(rig.send().run_id)
    [row] = DailyUsage.objects.all()
    assert (row.agent_id, row.actor, row.provider, row.model) == ("default", actor, "scripted", "script")
    assert (row.calls, row.unpriced_calls, row.input_tokens, row.output_tokens) == (2, 0, 40, 12)
    assert row.cost_nanos == sum(step.cost_nanos or 0 for step in Step.objects.all()) == 64_000_000
    totals = dict(CostTotal.objects.values_list("scope", "cost_nanos"))
    assert totals == dict.fromkeys(("installation", "agent:default", actor), row.cost_nanos)


def test_a_failed_call_that_reports_its_usage_counts(rig: EngineRig) -> None:
    failing = Reply(("Half",), error="model_stream_cut", usage=Usage(50, 3))
    rig.agent(failing, Reply(("Whole.",), usage=Usage(50, 9)))
    run = rig.wait(rig.send().run_id).run
    assert run.usage == Usage(100, 12)
    [row] = DailyUsage.objects.all()
    assert (row.calls, row.unpriced_calls, row.input_tokens, row.output_tokens) == (2, 2, 100, 12)
    rig.agent(Reply(error="model_auth", usage=Usage(7, 0)))
    ended = rig.wait(rig.send("again").run_id).run
    assert (ended.status, ended.usage) == (RunStatus.FAILED, Usage(7, 0))
    row.refresh_from_db()
    assert (row.calls, row.input_tokens) == (3, 107)


def test_a_run_has_its_own_cost_and_that_with_the_runs_below_it(rig: EngineRig) -> None:
    session = make_session(rig.owner)
    root = make_run(session, input_tokens=100, output_tokens=10, cost_nanos=3 * NANOS, priced_calls=1)
    below = {"root_id": root.pk, "kind": "workstream"}
    child = make_run(session, input_tokens=20, cost_nanos=NANOS, priced_calls=1, parent_id=root.pk, **below)
    leaf = make_run(session, output_tokens=5, parent_id=child.pk, **below)
    make_run(session, input_tokens=1000)
    costs = [selectors.get_cost(run.pk) for run in (root, child, leaf)]
    assert [found.cost for found in costs] == [3, 1, None]
    assert [found.with_workstreams for found in costs] == [TreeCost(Usage(120, 15), 4), TreeCost(Usage(20, 5), 1), None]


def test_a_call_without_a_price_has_no_cost_and_is_in_no_cap(rig: EngineRig) -> None:
    rig.agent(Reply(("x" * 400,)))  # a server that reports no tokens
    run_id = rig.send().run_id
    rig.wait(run_id)
    assert selectors.get_cost(run_id).cost is None
    assert Run.objects.get(pk=run_id).cost_nanos == 0
    [row] = DailyUsage.objects.all()
    assert (row.calls, row.unpriced_calls, row.cost_nanos) == (1, 1, 0)
    assert not CostTotal.objects.exists()


def test_a_call_of_a_server_that_reports_no_tokens_is_estimated_for_caps(rig: EngineRig) -> None:
    rig.agent(Reply(("x" * 400,)))
    price("script", input_price=1, output_price=1)
    rig.wait(rig.send().run_id)
    assert CostTotal.objects.get(scope="installation").cost_nanos == 100_000_000  # 100 tokens
