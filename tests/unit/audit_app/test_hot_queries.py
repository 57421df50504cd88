"""Compiled statements stand in one module of each app, where they can be read together."""

import re

from audit_app.kernel import compile_ahead
from tests.architecture.source import modules


def test_statements_are_compiled_in_hot_queries_alone() -> None:
    """Except the two updates of a run that only its transitions may make. `compile_all` looks there alone."""
    compiled = re.compile(r"\bCompiled(Query|Objects|Update|Insert)\(")
    allowed = {"agents_app.runs.transitions", "audit_app.kernel.compiled_queries"}
    found = {module.name for module in modules() if compiled.search(module.text)} - allowed
    assert {name.partition(".")[2] for name in found | {"agents_app.runs.transitions"}} == set(compile_ahead._MODULES)
    assert found == {f"{app}.hot_queries" for app in ("agents_app", "audit_app", "sessions_app", "tools_app")}
