"""Faults of definitions, with their places."""

import pytest

from agents_app.networks.checks import check
from agents_app.networks.definition import Condition, Group, Loop, MapOver, Network, OnError, Operator, Task

UNTIL = Condition("tasks.b.output.good", Operator.EQUALS, True)


@pytest.mark.parametrize(
    ("tasks", "fault"),
    [
        ([], "tasks: a network must have 1 to 100 tasks, not 0"),
        ([Task("a", depends_on=("x",))], "tasks[0].depends_on[0]: there is no task or group 'x'"),
        ([Task("a", depends_on=("b",)), Task("b", depends_on=("a",))], "these tasks wait for each other"),
        ([Task("a", depends_on=("a",))], "tasks[0].depends_on: these tasks wait for each other: a → a"),
        ([Task("a"), Task("a")], "tasks[0].name: 'a' is the name of several tasks or groups"),
        ([Group("g", (Task("a"), Task("g")))], "tasks[0].tasks[1].name: 'g' is the name of several"),
        ([Group("g", ())], "tasks[0].tasks: a group needs at least one task"),
        ([Task("no name")], "tasks[0].name: 'no name' is not a valid name"),
        ([Task("optional")], "tasks[0].name: 'optional' is not a valid name"),
        ([Task("a", agent="")], "tasks[0].agent: it needs the id of an agent"),
        ([Task("a", optional=True)], "tasks[0].optional: no task activates it, so it would never run"),
        (
            [Task("a", activates=("b",)), Task("b", optional=True, depends_on=("a",))],
            "tasks[1].depends_on: an optional task cannot depend on others",
        ),
        ([Task("a", activates=("b",)), Task("b")], "tasks[0].activates[0]: 'b' is not optional"),
        ([Task("a", activates=("b",))], "tasks[0].activates[0]: there is no task 'b'"),
        ([Task("a", retries=9)], "tasks[0].retries: it must be from 0 to 5"),
        ([Task("a", time_limit=0)], "tasks[0].time_limit: it must be a number of seconds"),
        ([Task("a", on_error=OnError.FALLBACK)], "tasks[0].fallback: `on_error: fallback` and `fallback: TASK` need"),
        ([Task("a", fallback="b"), Task("b")], "tasks[0].fallback: `on_error: fallback` and `fallback: TASK` need"),
        ([Task("a", on_error=OnError.FALLBACK, fallback="b")], "tasks[0].fallback: there is no task 'b'"),
        (
            [Task("a", on_error=OnError.FALLBACK, fallback="b"), Task("b", depends_on=("a",))],
            "tasks[0].fallback: 'b' must not be optional",
        ),
        (
            [Task("a", prompt="{{ tasks.b.output }}"), Task("b")],
            "tasks[0].prompt: 'tasks.b.output' has no value: 'a' does",
        ),
        ([Task("a", prompt="{{ tasks.x.output }}")], "has no value: there is no such task"),
        (
            [Task("a", prompt="{{ customer }}")],
            "tasks[0].prompt: 'customer' is not a reference: a reference begins with one of message",
        ),
        (
            [Task("a", prompt="{{ item }}")],
            "tasks[0].prompt: 'item' has a value only in the prompt, value or question of a task with `map`",
        ),
        ([Task("a", value={"x": ["{{ item }}"]})], "tasks[0].value: 'item' has a value only in the prompt"),
        ([Task("a", value="{{ tasks.b.text }}"), Task("b")], "tasks[0].value: 'tasks.b.text' has no value: 'a' does"),
        ([Task("a", value="x", prompt="y")], "tasks[0].prompt: a task with `value` calls no model"),
        ([Task("a", ask="Yes?", model="m")], "tasks[0].model: a task with `ask` calls no model"),
        ([Task("a", ask="Yes?", value="x")], "tasks[0].value: a task with `ask` calls no model"),
        ([Task("a", options=("x",))], "tasks[0].options: only a task with `ask` can have this field"),
        ([Task("a", value="x", timeout=5)], "tasks[0].timeout: a task with `value` calls no model"),
        ([Task("a", ask=" ")], "tasks[0].ask: it must have 1 to 2,000 characters"),
        ([Task("a", ask="{{ item }}?")], "tasks[0].ask: 'item' has a value only in the prompt"),
        ([Task("a", ask="{{ tasks.b.text }}?"), Task("b")], "tasks[0].ask: 'tasks.b.text' has no value: 'a' does"),
        ([Task("a", ask="Yes?", options=("x", "X"))], "tasks[0].options: two of them are the same"),
        ([Task("a", ask="Yes?", options=("x", ""))], "tasks[0].options[1]: it must have 1 to 200 characters"),
        ([Task("a", ask="Yes?", options=tuple("abcdefghijk"))], "tasks[0].options: it has more than 10 answers"),
        ([Task("a", ask="Yes?", timeout=0)], "tasks[0].timeout: it must be a number of seconds up to 2,592,000"),
        ([Task("a", value="x", retries=1)], "tasks[0].retries: a task with `value` calls no model"),
        ([Task("a", prompt="{{ previous.a.text }}")], "has a value only within a loop"),
        ([Task("a"), Task("b", when=Condition("tasks.a"))], "tasks[1].when: 'tasks.a' needs a task and a field"),
        ([Task("a", when=Condition("context.x", Operator.IN, "abc"))], "tasks[0].when: `in` needs a list of values"),
        ([Task("a", map_over=MapOver("context.x", 500))], "tasks[0].map.most: it must be from 1 to 200"),
        ([Task("b", loop=Loop(UNTIL, 50))], "tasks[0].loop.most: it must be from 1 to 20"),
        ([Task("a"), Task("b", loop=Loop(UNTIL, 2, "a"))], "tasks[1].loop.back_to: 'b' does not depend on a task 'a'"),
        (
            [Task("a"), Task("c", depends_on=("a",), loop=Loop(UNTIL))],
            "tasks[1].loop.until: it must be about a task of",
        ),
        (
            [
                Task("a"),
                Task("b", depends_on=("a",), loop=Loop(UNTIL, 2, "a")),
                Task("c", depends_on=("b",), loop=Loop(Condition("tasks.c.text"), 2, "a")),
            ],
            "tasks[1].loop: its tasks are also those of the loop of 'c'",
        ),
        ([Task("a", output_schema={"type": "nothing"})], "tasks[0].output_schema: The JSON Schema of the answer"),
    ],
)
def test_a_fault_is_named_with_its_place(tasks: list[Task | Group], fault: str) -> None:
    assert any(fault in str(found) for found in check(Network("net", tuple(tasks)))), check(
        Network("net", tuple(tasks))
    )


def test_loops_that_wait_for_each_other_are_a_cycle() -> None:
    """Two loops, of which each needs a result of the other: none of their tasks alone is in a cycle."""
    one, two = Condition("tasks.a2.text"), Condition("tasks.b3.text")
    network = Network(
        "net",
        (
            Task("a0"),
            Task("a1", depends_on=("a0",)),
            Task("b0"),
            Task("b1", depends_on=("b0",)),
            Task("b2", depends_on=("b0", "a1")),
            Task("b3", depends_on=("b1", "b2"), loop=Loop(two, 2, "b0")),
            Task("a2", depends_on=("a1", "b1"), loop=Loop(one, 2, "a0")),
        ),
    )
    assert any("wait for each other" in str(fault) for fault in check(network))


def test_a_cycle_is_among_other_faults() -> None:
    tasks = Task("a", depends_on=("b",)), Task("b", depends_on=("a", "zz")), Task("c", loop=Loop(UNTIL, 2, "nothing"))
    faults = [str(fault) for fault in check(Network("net", tasks))]
    assert any("there is no task or group 'zz'" in fault for fault in faults)
    assert any("wait for each other" in fault for fault in faults)


def test_a_network_has_faults_of_its_own() -> None:
    network = Network("2nd", (Task("a"),), context={"a": 1}, concurrency=0, result="b", time_limit=10**6)
    assert [fault.place for fault in check(network)] == ["name", "concurrency", "time_limit", "result", "context.a"]
