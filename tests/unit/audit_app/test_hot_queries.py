"""Compiled statements stand in one module of each app, where they can be read together."""

import re

from tests.architecture.source import modules


def test_statements_are_compiled_in_hot_queries_alone() -> None:
    """Except the two updates of a run that only its transitions may make."""
    compiled = re.compile(r"\bCompiled(Query|Objects|Update|Insert)\(")
    allowed = {"agents_app.runs.transitions", "audit_app.kernel.compiled_queries"}
    found = {module.name for module in modules() if compiled.search(module.text)} - allowed
    assert found == {f"{app}.hot_queries" for app in ("agents_app", "audit_app", "sessions_app", "tools_app")}
