"""Compiled statements stand in one module of each app, where they can be read together."""

import re

from audit_app.kernel import compile_ahead
from tests.architecture.source import modules


def test_statements_are_compiled_in_hot_queries_alone() -> None:
    """Except the updates that only the transitions of runs and executions may make. `compile_all` looks there alone."""
    compiled = re.compile(r"\bCompiled(Query|Objects|Update|Insert)\(")
    transitions = {"agents_app.runs.transitions", "tools_app.executions.transitions"}
    found = {module.name for module in modules() if compiled.search(module.text)}
    found -= {*transitions, "audit_app.kernel.compiled_queries"}
    assert {name.partition(".")[2] for name in found | transitions} == set(compile_ahead._MODULES)
    assert found == {f"{app}.hot_queries" for app in ("agents_app", "audit_app", "sessions_app", "tools_app")}
