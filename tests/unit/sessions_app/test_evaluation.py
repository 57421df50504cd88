"""Cases, checks and reports of evaluations."""

import pytest

from agents_app.types import Usage
from agents_app.yaml_documents import UnusableFile
from sessions_app.evaluation import report
from sessions_app.evaluation.cases import Case, read_cases, write_cases
from sessions_app.evaluation.checks import Outcome, faults_of
from sessions_app.evaluation.report import Column, Result

FILE = """format: 1
cases:
- name: capital
  input: What is the capital of France?
  expect:
    contains: Paris
    excludes: [London, Rome]
    matches: "^P"
    calls: echo
    schema: {type: object}
- input: [Hello., 'And now?']
  reference: Bye.
"""


def test_a_file_is_read_and_written_again() -> None:
    first, second = read_cases(FILE)
    expected = {"contains": ("Paris",), "excludes": ("London", "Rome"), "calls": ("echo",), "matches": "^P"}
    assert first == Case("capital", ("What is the capital of France?",), schema={"type": "object"}, **expected)
    assert second == Case("2", ("Hello.", "And now?"), reference="Bye.")
    assert read_cases(write_cases((first, second))) == (first, second)


def test_all_faults_of_a_file_are_named_with_their_lines() -> None:
    text = """format: 2
cases:
- name: a
  inputs: x
  expect: {contains: [1], equals: 3, matches: "(", schema: {type: 3}, shouts: yes}
- 7
- name: a
  input: x
  expect: Paris
"""
    with pytest.raises(UnusableFile) as refused:
        read_cases(text)
    found = [(problem.line, problem.place) for problem in refused.value.problems]
    for expected in (
        (1, "format"),
        (4, "cases[0].inputs"),
        (3, "cases[0].input"),
        (5, "cases[0].expect.contains"),
        (5, "cases[0].expect.equals"),
        (5, "cases[0].expect.matches"),
        (5, "cases[0].expect.schema"),
        (5, "cases[0].expect.shouts"),
        (6, "cases[1]"),
        (7, "cases[2].name"),
        (9, "cases[2].expect"),
    ):
        assert expected in found, (expected, found)
    for odd in ("", "cases: []", "format: 1\ncases: []", "[1"):
        with pytest.raises(UnusableFile, match="The cases cannot be used"):
            read_cases(odd)


@pytest.mark.parametrize(
    ("expect", "answer", "fault"),
    [
        ({"contains": ("PARIS",)}, "In Paris.", ""),
        ({"contains": ("Rome",)}, "In Paris.", "lacks 'Rome'"),
        ({"excludes": ("paris",)}, "In Paris.", "contains 'paris'"),
        ({"equals": "In Paris."}, " In Paris.\n", ""),
        ({"equals": "Paris"}, "In Paris.", "is not 'Paris'"),
        ({"matches": r"P\w+s"}, "In Paris.", ""),
        ({"matches": r"^P"}, "In Paris.", "does not match '^P'"),
        ({"schema": {"type": "object"}}, '{"a": 1}', ""),
        ({"schema": {"type": "object"}}, "[1]", "the schema"),
        ({"schema": {"type": "object"}}, "no JSON", "the schema"),
        ({"calls": ("echo",)}, "", ""),
        ({"calls": ("fetch",)}, "", "fetch was not called"),
        ({"avoids": ("echo",)}, "", "echo was called"),
    ],
)
def test_checks(expect: dict[str, object], answer: str, fault: str) -> None:
    case = Case("a", ("x",), **expect)  # type: ignore[arg-type]
    found = list(faults_of(case, Outcome(answer, tools=("echo",))))
    assert (fault in found[0]) if fault else found == []
    assert list(faults_of(case, Outcome(answer, "it failed"))) == ["it failed"]


def test_a_report_compares_two_versions() -> None:
    good = Outcome("yes", usage=Usage(10, 2), cost=0.5, seconds=1.0)
    bad = Outcome("no", usage=Usage(10, 3), seconds=3.0)
    now = Column("version 2", (Result("a", bad, ("the answer lacks 'yes'",)), Result("b", good, ())))
    before = Column("version 1", (Result("a", good, ()), Result("b", good, ())))
    assert report.worse(now, before) == ["a"] and report.worse(before, now) == []
    assert list(report.lines((now, before), "EUR")) == [
        "                 version 2      version 1",
        "a                FAIL           pass",
        "b                pass           pass",
        "",
        "passed           1 of 2 (50 %)  2 of 2 (100 %)",
        "cost             0.5 EUR        1 EUR",
        "tokens in / out  20 / 5         20 / 4",
        "median seconds   2.00           1.00",
        "version 2: a: the answer lacks 'yes'",
    ]
    assert now.to_dict()["passed"] == 1 and now.to_dict()["cases"][0]["faults"] == ["the answer lacks 'yes'"]
