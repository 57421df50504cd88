"""Misbehaving tools: each ends its own call and nothing else."""

import os
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from komand import wiring
from tools_app import conf, selectors, services
from tools_app.types import ExecutionStatus

pytestmark = [pytest.mark.usefixtures("world"), pytest.mark.one_database]

FAULT = "The tool act failed unexpectedly. It may be faulty."


def recursive():
    value = {}
    value["self"] = value
    return value


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "make",
    [
        recursive,
        deep,
        lambda: b"\x00\xff",
        lambda: {"a": b"x"},
        lambda: float("nan"),
        lambda: {"a": float("inf")},
        lambda: {(1, 2): 3},
        lambda: iter([1]),
        lambda: Exception("as a value"),
    ],
    ids=["recursive", "deep", "bytes", "bytes inside", "nan", "infinity", "keys", "iterator", "exception"],
)
def test_a_value_that_is_no_json_is_a_fault_of_the_tool(plan, make_tool, make):
    make_tool(lambda arguments, context: make())
    (execution,) = plan(("act", "{}"))
    services.execute(execution.id)
    assert selectors.get_execution(execution.id).error == FAULT


@pytest.mark.parametrize(
    "problem", [SystemError("x"), MemoryError(), RecursionError(), AssertionError(), KeyError("a")]
)
def test_an_unexpected_error_reaches_the_model_without_details(plan, make_tool, problem):
    def act(arguments, context):
        raise problem

    make_tool(act)
    (execution,) = plan(("act", "{}"))
    services.execute(execution.id)
    assert selectors.get_execution(execution.id).error == FAULT


def test_a_huge_result_is_cut_before_anybody_else_holds_it(plan, make_tool):
    make_tool(lambda arguments, context: ["x" * 1000] * 20_000)
    (execution,) = plan(("act", "{}"))
    services.execute(execution.id)
    assert len(selectors.get_execution(execution.id).output) <= conf.MAX_OUTPUT_CHARACTERS


def test_a_copy_of_the_process_that_a_tool_makes_ends_with_the_call(plan, make_tool, tmp_path):
    """A forked copy must not continue as a second worker."""
    ledger = tmp_path / "ledger"

    def act(arguments, context):
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return "parent"
        with ledger.open("a") as file:
            file.write("child\n")
        return "child"

    make_tool(act)
    (execution,) = plan(("act", "{}"))
    services.execute(execution.id)
    with ledger.open("a") as file:
        file.write("parent\n")
    done = selectors.get_execution(execution.id)
    assert (done.status, done.output) == (ExecutionStatus.COMPLETED, '"parent"')
    assert ledger.read_text() == "child\nparent\n"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise RuntimeError('out of order')", "out of order"),
        ("import no_such_module", "no_such_module"),
        ("class Bad:\n    def __init__(self): raise ValueError('not today')", "not today"),
        ("class Bad: pass", "spec"),
        ("x = (", "SyntaxError"),
    ],
)
def test_a_tool_that_cannot_be_loaded_stops_the_start_and_is_named(tmp_path, monkeypatch, source, reason):
    Path(tmp_path, "bad_tool_module.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "bad_tool_module", raising=False)
    with pytest.raises(ImproperlyConfigured, match="bad_tool_module.Bad") as error:
        wiring._made("bad_tool_module.Bad")
    assert reason in str(error.value)
