"""Decisions of the scheduler in cases that the definition names: routing, results, prompts, maps, failures."""

from typing import Any

import pytest

from agents_app.networks.checks import check
from agents_app.networks.definition import Condition, Group, Loop, MapOver, Network, OnError, Operator, Task
from agents_app.networks.outcomes import Attempt, AttemptKey, AttemptStatus, Call, Decision, Start, TaskStatus
from agents_app.networks.scheduler import decide


class Run:
    """A run of a network whose attempts end when the test says so."""

    def __init__(self, *tasks: Task | Group, call: Call | None = None, **fields: Any) -> None:
        self.network = Network("test", tasks, **fields)
        assert not check(self.network)
        self.call = call or Call("Hello")
        self.attempts: dict[AttemptKey, Attempt] = {}
        self.started: list[Start] = []
        self.decision = self.advance()

    def advance(self) -> Decision:
        self.decision = decide(self.network, self.call, self.attempts.values())
        for start in self.decision.starts:
            self.started.append(start)
            self.attempts[start.key] = Attempt(start.key)
        return self.decision

    def end(self, name: str, output: Any = "done", status: AttemptStatus = AttemptStatus.SUCCEEDED) -> Decision:
        """End the first running attempt of a task."""
        key = min(key for key, one in self.attempts.items() if key.task == name and one.status == "running")
        error = "" if status is AttemptStatus.SUCCEEDED else "it broke"
        self.attempts[key] = Attempt(key, status, str(output), None if error else output, error)
        return self.advance()

    def fail(self, name: str) -> Decision:
        return self.end(name, "", AttemptStatus.FAILED)

    def running(self) -> list[str]:
        return sorted(key.task for key, one in self.attempts.items() if one.status == "running")

    def prompt_of(self, name: str) -> str:
        return next(start.prompt for start in self.started if start.key.task == name)


def test_a_task_starts_when_its_own_inputs_are_ready() -> None:
    run = Run(Task("fast"), Task("slow"), Task("next", depends_on=("fast",)), Task("both", depends_on=("next", "slow")))
    run.end("fast")
    assert run.running() == ["next", "slow"]
    run.end("next")
    assert run.running() == ["slow"]
    run.end("slow")
    decision = run.end("both", "all of it")
    assert decision.ending and decision.ending.output == "all of it"


def test_no_more_tasks_run_at_once_than_allowed() -> None:
    run = Run(*(Task(f"t{number}") for number in range(4)), concurrency=2)
    assert run.running() == ["t0", "t1"]
    run.end("t0")
    assert run.running() == ["t1", "t2"]


def test_the_name_of_a_group_stands_for_its_tasks() -> None:
    group = Group("research", (Task("web"), Task("files")), depends_on=("plan",))
    run = Run(Task("plan"), group, Task("write", depends_on=("research",)))
    assert run.running() == ["plan"]
    run.end("plan")
    run.end("web")
    assert run.running() == ["files"]
    run.end("files")
    assert run.running() == ["write"]


def test_an_answer_activates_optional_tasks() -> None:
    triage = Task("triage", activates=("billing", "technical"))
    reply = Task("reply", depends_on=("billing", "technical"))
    run = Run(triage, Task("billing", optional=True), Task("technical", optional=True), reply)
    decision = run.end("triage", {"activate": ["billing"]})
    assert run.running() == ["billing"]
    assert decision.results["technical"].reason == "no task activated it"
    run.end("billing", "Paid")
    assert run.prompt_of("reply") == "Hello\n\n## Result of billing\n\nPaid"


def test_an_answer_cannot_activate_other_tasks() -> None:
    run = Run(Task("triage", activates=("billing",)), Task("billing", optional=True), Task("secret"))
    run.end("secret")
    decision = run.end("triage", {"activate": ["secret"]})
    assert (
        decision.ending and decision.ending.error == "The task triage failed: It activated 'secret', which it may not."
    )


@pytest.mark.parametrize(
    ("operator", "wanted", "found", "runs"),
    [
        (Operator.EQUALS, "bill", "bill", True),
        (Operator.EQUALS, "bill", "other", False),
        (Operator.NOT_EQUALS, "bill", "other", True),
        (Operator.IN, ["a", "b"], "b", True),
        (Operator.CONTAINS, "urgent", ["urgent", "new"], True),
        (Operator.CONTAINS, "urgent", 5, False),
        (Operator.GREATER_THAN, 3, 4, True),
        (Operator.GREATER_THAN, 3, "4", False),
        (Operator.LESS_THAN, 3, 4, False),
        (Operator.EXISTS, True, "x", True),
        (Operator.EXISTS, False, None, True),
    ],
)
def test_a_condition_decides_about_a_task(operator: Operator, wanted: Any, found: Any, runs: bool) -> None:
    condition = Condition("tasks.triage.output.kind", operator, wanted)
    run = Run(Task("triage"), Task("bill", when=condition))
    decision = run.end("triage", {"kind": found})
    assert run.running() == (["bill"] if runs else [])
    assert runs or decision.results["bill"].reason == "its condition does not hold"


def test_what_only_depends_on_skipped_tasks_is_skipped() -> None:
    never = Condition("context.country", Operator.EQUALS, "de")
    run = Run(Task("german", when=never), Task("check", depends_on=("german",)), Task("last", depends_on=("check",)))
    assert run.decision.ending and run.decision.ending.output is None
    assert run.decision.results["last"].reason == "everything it depends on was skipped"


def test_a_failed_task_is_retried_after_growing_pauses_and_then_ends_the_network() -> None:
    run = Run(Task("first", retries=2, retry_seconds=5.0), Task("beside"), Task("next", depends_on=("first",)))
    run.fail("first")
    run.fail("first")
    assert [(start.key.number, start.delay_seconds) for start in run.started if start.key.task == "first"] == [
        (1, 0.0),
        (2, 5.0),
        (3, 10.0),
    ]
    decision = run.fail("first")
    assert not decision.ending and [key.task for key in decision.cancels] == ["beside"]
    decision = run.end("beside", "", AttemptStatus.CANCELLED)
    assert decision.ending and decision.ending.failed == "first"
    assert decision.ending.error == "The task first failed: it broke"
    assert decision.results["next"].status is TaskStatus.WAITING


def test_a_cancelled_attempt_is_not_retried() -> None:
    run = Run(Task("first", retries=2))
    assert run.end("first", "", AttemptStatus.CANCELLED).ending


def test_a_failure_may_be_ignored() -> None:
    run = Run(Task("first", on_error=OnError.CONTINUE), Task("next", depends_on=("first",)))
    run.fail("first")
    assert run.prompt_of("next") == "Hello\n\n## Result of first\n\nit broke"
    assert run.end("next", "fine").ending


def test_a_fallback_stands_for_a_failed_task() -> None:
    first = Task("first", on_error=OnError.FALLBACK, fallback="second")
    tasks = (first, Task("second"), Task("next", prompt="{{ tasks.first.output }}", depends_on=("first",)))
    run = Run(*tasks)
    run.fail("first")
    assert run.running() == ["second"]
    run.end("second", "spare")
    assert run.prompt_of("next") == "spare"
    unneeded = Run(*tasks)
    decision = unneeded.end("first", "own")
    assert unneeded.prompt_of("next") == "own" and decision.results["second"].reason == "first did not fail"


def test_a_map_runs_once_for_each_item_and_keeps_their_order() -> None:
    each = Task("each", prompt="{{ index }}: {{ item.name }}", map_over=MapOver("tasks.split.output"))
    run = Run(Task("split"), each, Task("join", prompt="{{ tasks.each.output }}", depends_on=("each",)))
    run.end("split", [{"name": "a"}, {"name": "b"}])
    assert [start.prompt for start in run.started[1:]] == ["0: a", "1: b"]
    second = AttemptKey("each", 1, 1)
    run.attempts[second] = Attempt(second, AttemptStatus.SUCCEEDED, "B", "B")
    run.advance()
    run.end("each", "A")
    assert run.prompt_of("join") == '["A", "B"]'


def test_a_map_over_nothing_has_an_empty_result() -> None:
    run = Run(Task("each", map_over=MapOver("context.files")), call=Call("Hello", {"files": []}))
    assert run.decision.ending and run.decision.ending.output == []


@pytest.mark.parametrize(("files", "error"), [("a", "is not a list"), ([1, 2, 3], "has 3 items; at most 2")])
def test_a_map_refuses_what_it_cannot_go_through(files: Any, error: str) -> None:
    run = Run(Task("each", map_over=MapOver("context.files", most=2)), call=Call("Hello", {"files": files}))
    assert run.decision.ending and error in run.decision.ending.error


def test_items_that_fail_leave_a_gap() -> None:
    each = Task("each", map_over=MapOver("context.files"), on_error=OnError.CONTINUE)
    run = Run(each, Task("join", depends_on=("each",)), call=Call("Hello", {"files": ["x", "y"]}))
    run.fail("each")
    decision = run.end("each", "Y")
    assert decision.results["each"].output == [None, "Y"]
    assert decision.results["each"].error == "1 of 2 items failed, the first with: it broke"
    assert run.running() == ["join"]


def test_a_loop_shows_the_previous_results() -> None:
    until = Condition("tasks.review.output.good", Operator.EQUALS, True)
    draft = Task("draft", prompt="Improve: {{ previous.draft.output }} because {{ previous.review.output.why }}")
    review = Task("review", depends_on=("draft",), loop=Loop(until, 3, "draft"))
    run = Run(draft, review, Task("publish", depends_on=("draft",)))
    run.end("draft", "v1")
    run.end("review", {"good": False, "why": "too short"})
    assert run.started[-1].prompt == "Improve: v1 because too short"
    run.end("draft", "v2")
    assert run.running() == ["review"], "what comes after a loop waits for its end"
    run.end("review", {"good": True})
    assert run.prompt_of("publish").endswith("v2")


def test_contexts_are_merged_key_by_key_and_results_stand_under_the_names_of_tasks() -> None:
    task = Task("b", prompt="{{ context }}", depends_on=("a",), context={"customer": {"tone": "warm"}})
    call = Call("Hello", {"customer": {"name": "Ada", "tone": "cold"}})
    run = Run(Task("a"), Task("other"), task, context={"customer": {"tags": [1]}}, call=call)
    run.end("other", "unrelated")
    run.end("a", {"x": 1})
    assert run.prompt_of("b") == '{"customer": {"tags": [1], "name": "Ada", "tone": "warm"}, "a": {"x": 1}}'


def test_a_prompt_that_needs_a_missing_value_fails_its_task() -> None:
    decision = Run(Task("a", prompt="{{ context.name }}")).decision
    assert decision.ending and decision.ending.error == "The task a failed: there is no value for context.name."


def test_the_result_is_that_of_the_last_tasks_or_of_the_named_one() -> None:
    for fields, expected in ({}, {"b": 2, "c": 3}), ({"result": "a"}, 1):
        run = Run(Task("a"), Task("b", depends_on=("a",)), Task("c", depends_on=("a",)), **fields)
        run.end("a", 1)
        run.end("b", 2)
        decision = run.end("c", 3)
        assert decision.ending and decision.ending.output == expected


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (AttemptKey("draft"), "draft"),
        (AttemptKey("draft-2", 2), "draft-2#2"),
        (AttemptKey("each", 1, 0), "each[0]"),
        (AttemptKey("each", 3, 12, 2), "each#3[12]~2"),
    ],
)
def test_an_attempt_has_a_name(key: AttemptKey, text: str) -> None:
    assert (str(key), AttemptKey.parse(text)) == (text, key)


def test_a_condition_can_wait_for_other_tasks() -> None:
    condition = Condition("tasks.triage.output.kind", Operator.EQUALS, "bill")
    for kind, waits in (("bill", ["slow"]), ("other", ["slow"])):
        run = Run(Task("triage"), Task("slow"), Task("bill", when=condition, depends_on=("slow",)))
        run.end("triage", {"kind": kind})
        assert run.running() == waits
        decision = run.end("slow")
        assert run.running() == (["bill"] if kind == "bill" else [])
        assert (decision.results["bill"].status is TaskStatus.SKIPPED) is (kind == "other")


def test_a_condition_alone_decides_about_a_task_whose_dependencies_were_skipped() -> None:
    none = Condition("tasks.bill.status", Operator.EQUALS, "skipped")
    bill = Task("bill", when=Condition("context.bill"))
    run = Run(bill, Task("reply", when=none, depends_on=("bill",)))
    assert run.running() == ["reply"]


def test_a_task_with_a_value_joins_results_and_calls_no_model() -> None:
    joined = Task(
        "joined",
        value={
            "both": ["{{ tasks.a.output }}", "{{ tasks.b.output.n }}"],
            "text": "{{ tasks.b.output.n }} of {{ message }}",
        },
        depends_on=("a", "b"),
    )
    run = Run(Task("a"), Task("b"), joined, Task("last", prompt="{{ tasks.joined.text }}", depends_on=("joined",)))
    run.end("a", "A")
    decision = run.end("b", {"n": 2})
    assert run.running() == ["last"]
    assert decision.results["joined"].output == {"both": ["A", 2], "text": "2 of Hello"}
    assert run.prompt_of("last") == '{"both": ["A", 2], "text": "2 of Hello"}'


def test_a_network_of_values_alone_ends_at_once() -> None:
    run = Run(
        Task("each", value="{{ index }}: {{ item }}", map_over=MapOver("context.list")),
        call=Call(context={"list": ["x", "y"]}),
    )
    assert run.decision.ending and run.decision.ending.output == ["0: x", "1: y"]


def test_a_value_that_is_missing_fails_its_task_whose_fallback_may_be_a_value() -> None:
    first = Task("a", value="{{ context.none }}", on_error=OnError.FALLBACK, fallback="b")
    run = Run(first, Task("b", value=0), Task("c", prompt="{{ tasks.a.output }}", depends_on=("a",)))
    assert run.prompt_of("c") == "0"
    run = Run(Task("a", value="{{ context.none }}"))
    assert run.decision.ending and run.decision.ending.error == "The task a failed: there is no value for context.none."


def test_a_question_gets_its_values_and_fails_if_they_make_it_too_long() -> None:
    asking = Task("consent", ask="Publish {{ tasks.draft.text }}?", depends_on=("draft",), on_error=OnError.CONTINUE)
    run = Run(Task("draft"), asking)
    run.end("draft", "this")
    assert run.prompt_of("consent") == "Publish this?"
    decision = run.end("consent", "yes")
    assert decision.ending and decision.ending.output == "yes"
    run = Run(Task("draft"), asking)
    decision = run.end("draft", "x" * 2_000)
    assert decision.results["consent"].error == "Its question has 2,009 characters; it must have 1 to 2,000."
    assert decision.ending and not run.running()
