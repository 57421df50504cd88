"""Networks as YAML files, and as Mermaid text."""

import pytest
from hypothesis import given

from agents_app.networks import yaml_format
from agents_app.networks.definition import Condition, Group, Loop, MapOver, Network, OnError, Operator, Task
from agents_app.networks.mermaid import to_mermaid
from agents_app.networks.outcomes import TaskResult, TaskStatus
from agents_app.yaml_documents import UnusableFile
from tests.support.networks import networks
from tools_app.policy.scope import Scope, ScopeMode

FILE = """\
format: 1
name: support
description: Answers requests.
context:
  language: en
mcp_servers: none
tasks:
- name: triage
  prompt: |-
    Who should answer?
    {{ message }}
  activates: [billing]
  retries: 2
- name: billing
  optional: true
  tools: [read_file, grep]
- parallel: research
  depends_on: [triage]
  tasks:
  - name: web
    map: {items: tasks.triage.output.topics, most: 5}
    on_error: fallback
    fallback: manual
  - name: files
    time_limit: 30
- name: manual
- name: review
  depends_on: [research]
  loop: {until: {value: tasks.review.output.good, equals: true}, most: 2}
- name: german
  when: {value: context.language, in: [de, at]}
  depends_on: [review]
- name: joined
  value: {reply: '{{ tasks.review.output }}', parts: [1, true]}
  depends_on: [german]
- name: approval
  depends_on: [joined]
  ask: "Send {{ tasks.joined.text }}?"
  options: [send, discard]
  timeout: 3600
"""

NETWORK = Network(
    "support",
    (
        Task("triage", prompt="Who should answer?\n{{ message }}", activates=("billing",), retries=2),
        Task("billing", optional=True, tools=Scope(ScopeMode.LIST, ("read_file", "grep"))),
        Group(
            "research",
            (
                Task(
                    "web",
                    map_over=MapOver("tasks.triage.output.topics", 5),
                    on_error=OnError.FALLBACK,
                    fallback="manual",
                ),
                Task("files", time_limit=30.0),
            ),
            ("triage",),
        ),
        Task("manual"),
        Task(
            "review",
            depends_on=("research",),
            loop=Loop(Condition("tasks.review.output.good", Operator.EQUALS, True), 2),
        ),
        Task("german", when=Condition("context.language", Operator.IN, ["de", "at"]), depends_on=("review",)),
        Task("joined", value={"reply": "{{ tasks.review.output }}", "parts": [1, True]}, depends_on=("german",)),
        Task(
            "approval",
            depends_on=("joined",),
            ask="Send {{ tasks.joined.text }}?",
            options=("send", "discard"),
            timeout=3600.0,
        ),
    ),
    description="Answers requests.",
    context={"language": "en"},
    mcp_servers=Scope(ScopeMode.NONE),
)


def test_a_file_is_read() -> None:
    assert yaml_format.load(FILE) == NETWORK
    assert yaml_format.load(yaml_format.dump(NETWORK)) == NETWORK


@given(networks())
def test_a_written_file_is_read_as_the_same_network(network: Network) -> None:
    assert yaml_format.load(yaml_format.dump(network)) == network


def test_a_written_file_leaves_out_defaults() -> None:
    assert yaml_format.dump(Network("a", (Task("b"),))) == "format: 1\nname: a\ntasks:\n- name: b\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: the file: it must be an object"),
        ("name: [", "it is not YAML"),
        ("name: a\nformat: 2\ntasks: []", "line 2: format: it must be 1"),
        ("name: a\ntasks: {}", "line 2: tasks: it must be a list of tasks"),
        ("name: a\ncolour: red\ntasks:\n- name: b", "line 2: colour: there is no such field"),
        ("name: a\ntasks:\n- 5", "line 3: tasks[0]: it must be an object with a `name`"),
        ("name: a\ntasks:\n- name: b\n  depends: c", "line 4: tasks[0].depends: there is no such field"),
        ("name: a\ntasks:\n- name: b\n  depends_on: c", "line 4: tasks[0].depends_on: it must be a list of names"),
        ("name: a\ntasks:\n- name: b\n  ask: Ok?\n  options: [yes, no]", "line 5: tasks[0].options: `yes`, `no`"),
        (
            "name: a\ntasks:\n- name: b\n  depends_on:\n  - c",
            "line 5: tasks[0].depends_on[0]: there is no task or group 'c'",
        ),
        ("name: a\ntasks:\n- name: b\n  retries: many", "line 4: tasks[0].retries: it must be a whole number"),
        (
            "name: a\ntasks:\n- name: b\n  on_error: explode",
            "line 4: tasks[0].on_error: it must be one of stop, continue",
        ),
        ("name: a\ntasks:\n- name: b\n  tools: all", "line 4: tasks[0].tools: it must be `inherit`, `none` or a list"),
        (
            "name: a\ntasks:\n- name: b\n  when: {value: x, like: y}",
            "line 4: tasks[0].when: it must have a value and one",
        ),
        ("name: a\ntasks:\n- name: b\n  loop: 3", "line 4: tasks[0].loop: it must be an object with `until`"),
        ("name: a\ntasks:\n- name: b\n  map: {each: x}", "line 4: tasks[0].map.each: there is no such field"),
        ("name: a\ncontext: {day: 2026-01-01}\ntasks:\n- name: b", "line 2: context: its values must be JSON"),
        (
            "name: a\ntasks:\n- parallel: g\n  retries: 1\n  tasks: []",
            "line 4: tasks[0].retries: a group has no such field",
        ),
    ],
)
def test_a_fault_is_named_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(UnusableFile) as refused:
        yaml_format.load(text)
    assert any(problem in str(one) for one in refused.value.problems), refused.value.message
    assert refused.value.message.startswith("The network cannot be used:\n")


def test_all_problems_are_found_at_once() -> None:
    with pytest.raises(UnusableFile) as refused:
        yaml_format.load("name: a\ntasks:\n- name: b\n  depends_on: [c]\n- name: d\n  retries: 7\n")
    assert [problem.line for problem in refused.value.problems] == [4, 6]


def test_mermaid_shows_tasks_arrows_and_states() -> None:
    results = {"triage": TaskResult(TaskStatus.SUCCEEDED), "web": TaskResult(TaskStatus.RUNNING)}
    lines = [line.strip() for line in to_mermaid(NETWORK, results).splitlines()]
    assert lines[:3] == ["flowchart TD", 'subgraph g0["research"]', 't2["web<br><small>default</small>"]']
    for line in (
        't1(["billing<br><small>default</small>"])',
        "t0 --> t2",
        "t0 -. activates .-> t1",
        "t2 -. on error .-> t4",
        "t5 -. up to 2 times .-> t5",
        "class t0 succeeded",
        "class t2 running",
    ):
        assert line in lines


def test_mermaid_shows_names_as_text() -> None:
    picture = to_mermaid(Network("a", (Task("b", agent='x"]; click t0 "https://example.org"'),)))
    assert 't0["b<br><small>x#34;#93;#59; click t0 #34;https#58;#47;#47;example.org#34;</small>"]' in picture


@pytest.mark.parametrize("field", ["time_limit", "retry_seconds"])
def test_a_number_beyond_all_limits_is_refused(field: str) -> None:
    with pytest.raises(UnusableFile, match=f"line 2: tasks\\[0\\].{field}"):
        yaml_format.load(f"name: n\ntasks: [{{name: a, {field}: 1{'0' * 400}}}]")
