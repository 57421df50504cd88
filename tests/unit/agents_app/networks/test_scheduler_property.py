"""Property of the scheduler: any network, failures and timings; each task runs once when it should, and else never."""

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from agents_app.networks.checks import check
from agents_app.networks.definition import Condition, Loop, Network, Operator, Task
from agents_app.networks.outcomes import Attempt, AttemptKey, AttemptStatus, Call, Decision, TaskResult, TaskStatus
from agents_app.networks.scheduler import decide
from tests.support.networks import networks

CALL = Call("Go", {"items": ["a", "b", "c"], "none": []})


class World:
    """Outcomes of agents: the end of an attempt depends on its key alone, whenever it comes."""

    def __init__(self, network: Network, seed: int) -> None:
        self.tasks, self.seed = network.flat(), seed

    def end_of(self, key: AttemptKey) -> Attempt:
        chance = random.Random(f"{self.seed} {key}")
        if chance.random() < 0.3:
            status = chance.choice([AttemptStatus.FAILED, AttemptStatus.FAILED, AttemptStatus.CANCELLED])
            return Attempt(key, status, error="broken")
        activated = [name for name in self.tasks[key.task].activates if chance.random() < 0.5]
        output = {"flag": chance.random() < 0.5, "list": [1] * chance.randrange(3), "activate": activated}
        return Attempt(key, AttemptStatus.SUCCEEDED, "text", output)


def play(network: Network, world: World, timing: random.Random) -> tuple[Decision, dict[AttemptKey, Attempt]]:
    """Run a network: attempts end in random order, and the scheduler is also asked when nothing has changed."""
    attempts: dict[AttemptKey, Attempt] = {}
    for _ in range(2_000):
        shuffled = random.Random(timing.random()).sample(list(attempts.values()), len(attempts))
        decision = decide(network, CALL, shuffled)
        assert decision == decide(network, CALL, attempts.values())
        running = [key for key, one in attempts.items() if one.status is AttemptStatus.RUNNING]
        if decision.ending:
            assert not running and not decision.starts
            return decision, attempts
        assert decision.starts or running, "it waits for nothing"
        assert set(decision.cancels) <= set(running) and not (decision.cancels and decision.starts)
        for start in decision.starts:
            assert start.key not in attempts, "it was started twice"
            attempts[start.key] = Attempt(start.key)
        assert sum(one.status is AttemptStatus.RUNNING for one in attempts.values()) <= network.concurrency
        running = [key for key, one in attempts.items() if one.status is AttemptStatus.RUNNING]
        for key in timing.sample(running, timing.randint(0 if decision.starts else 1, len(running))):
            attempts[key] = world.end_of(key)
    raise AssertionError("it does not end")


class Expectation:
    """The attempts that a network without loops should have, found by recursion from the definition."""

    def __init__(self, network: Network, world: World) -> None:
        self.tasks, self.world = network.flat(), world
        self.served = {task.fallback: task for task in self.tasks.values() if task.fallback}

    def keys(self) -> set[AttemptKey]:
        return {
            key for name in self.tasks if self.runs(name) for item in self.items(name) for key in self.tries(name, item)
        }

    def runs(self, name: str) -> bool:
        task = self.tasks[name]
        if name in self.served:
            return self.fails(self.served[name].name)
        if task.when:
            return bool(self.output(task.when.path.split(".")[1]).get("flag") is True)
        if task.optional:
            return any(
                name in self.output(one.name, raw=True).get("activate", [])
                for one in self.tasks.values()
                if name in one.activates
            )
        needed = [*task.depends_on]
        if task.map_over and task.map_over.items.startswith("tasks."):
            needed.append(task.map_over.items.split(".")[1])
        return not needed or any(self.runs(self.standing(one)) for one in needed)

    def standing(self, name: str) -> str:
        """Return the task whose result stands for that of a task."""
        return self.tasks[name].fallback if self.tasks[name].fallback and self.fails(name) else name

    def items(self, name: str) -> list[int]:
        over = self.tasks[name].map_over
        if over is None:
            return [-1]
        if over.items.startswith("context."):
            return list(range(len(CALL.context[over.items.split(".")[1]])))
        return list(range(len(self.output(over.items.split(".")[1]).get("list", []))))

    def tries(self, name: str, item: int) -> Iterable[AttemptKey]:
        for number in range(1, self.tasks[name].retries + 2):
            key = AttemptKey(name, 1, item, number)
            yield key
            if self.world.end_of(key).status is not AttemptStatus.FAILED:
                return

    def fails(self, name: str) -> bool:
        if not self.runs(name):
            return False
        over = self.tasks[name].map_over
        if over and over.items.startswith("tasks.") and "list" not in self.output(over.items.split(".")[1]):
            return True  # nothing to map over
        last = [list(self.tries(name, item))[-1] for item in self.items(name)]
        return any(self.world.end_of(key).status is not AttemptStatus.SUCCEEDED for key in last)

    def output(self, name: str, *, raw: bool = False) -> dict[str, Any]:
        name = name if raw else self.standing(name)
        if not self.runs(name) or self.fails(name) or self.tasks[name].map_over:
            return {}
        return dict(self.world.end_of(list(self.tries(name, -1))[-1]).output)


@given(networks(), st.integers(0, 2**32), st.integers(0, 2**32), st.integers(0, 2**32))
def test_each_task_runs_once_when_it_should_and_else_never(
    network: Network, seed: int, first: int, second: int
) -> None:
    world = World(network, seed)
    decision, attempts = play(network, world, random.Random(first))
    other, others = play(network, world, random.Random(second))
    assert decision.ending and other.ending
    assert bool(decision.ending.failed) is bool(other.ending.failed)
    event(f"failed: {bool(decision.ending.failed)}, loop: {any(task.loop for task in network.flat().values())}")
    if not decision.ending.failed:
        assert (decision, set(attempts)) == (other, set(others)), "timing decides what runs"
        assert all(result.status.is_ended for result in decision.results.values())
    for name, result in decision.results.items():
        if result.status is TaskStatus.SKIPPED and not decision.ending.failed:
            assert result.reason and not any(key.task == name for key in attempts if key.iteration == result.iteration)
    if not any(task.loop for task in network.flat().values()):
        expected = Expectation(network, world).keys()
        assert set(attempts) <= expected
        assert decision.ending.failed or set(attempts) == expected


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 4))
def test_a_loop_runs_until_its_condition_holds_or_its_limit_is_reached(length: int, most: int, good_at: int) -> None:
    names = [f"t{number}" for number in range(length)]
    until = Condition(f"tasks.{names[-1]}.output.flag", Operator.EQUALS, True)
    tasks = [Task(name, depends_on=tuple(names[:at][-1:])) for at, name in enumerate(names)]
    tasks[-1] = replace(tasks[-1], loop=Loop(until, most, names[0]))
    network = Network("loop", (*tasks, Task("after", depends_on=(names[0],))))
    assert not check(network)
    order: list[AttemptKey] = []
    attempts: dict[AttemptKey, Attempt] = {}
    while not (decision := decide(network, CALL, attempts.values())).ending:
        for start in decision.starts:
            order.append(start.key)
            output = {"flag": start.key.iteration > good_at}
            attempts[start.key] = Attempt(start.key, AttemptStatus.SUCCEEDED, "text", output)
    rounds = min(most, good_at + 1)
    assert order == [AttemptKey(name, at) for at in range(1, rounds + 1) for name in names] + [AttemptKey("after")]
    expected = TaskResult(TaskStatus.SUCCEEDED, "text", {"flag": most > good_at}, attempts=1, iteration=rounds)
    assert decision.results[names[-1]] == expected
