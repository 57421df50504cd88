"""One door for each kind of write, read from the syntax: who sets a status, who writes facts, who opens connections."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.source import Module, modules

# app: fields, and the modules that may write them
GUARDED = {
    "agents_app": ({"status", "owner", "fence"}, {"transitions", "lease", "recording"}),
    "tools_app": ({"status", "owner"}, {"transitions", "planning"}),
}


def writes(module: Module, fields: set[str]) -> Iterator[tuple[int, str]]:
    """`.update(status=…)` and `x.status = …`, with their lines."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update":
            for keyword in node.keywords:
                if keyword.arg in fields:
                    yield node.lineno, keyword.arg
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and target.attr in fields and not _is_self(target.value):
                    yield node.lineno, target.attr


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


@pytest.mark.parametrize("app", GUARDED)
def test_only_the_doors_write_what_a_status_depends_on(app: str) -> None:
    fields, doors = GUARDED[app]
    found = [
        f"{module.path}:{line} writes {field}"
        for module in modules(app)
        if not doors & set(module.name.split("."))
        for line, field in writes(module, fields)
    ]
    assert not found


@pytest.mark.parametrize("app", GUARDED)
def test_the_doors_do_write(app: str) -> None:
    """Else the rule above would be about nothing."""
    fields, doors = GUARDED[app]
    assert any(list(writes(module, fields)) for module in modules(app) if doors & set(module.name.split(".")))


def test_nobody_above_writes_the_rows_of_an_app_below() -> None:
    """Sessions and the project call services; they change no run and no execution themselves."""
    touching = re.compile(
        r"\b(Run|Step|ToolExecution)\.objects\b[^\n]*\.(create|update|delete|bulk_create|get_or_create)\("
    )
    assert not [str(module.path) for module in modules("sessions_app", "komand") if touching.search(module.text)]


def test_facts_are_written_by_their_services_alone() -> None:
    writing = re.compile(
        r"\b(Event|AuditEntry|TimelineHead)(\.objects\.(create|bulk_create|update|filter\([^)]*\)\.update)|\(\s*$)"
    )
    outside = [module for module in modules() if not module.name.startswith("audit_app.services")]
    assert not [str(module.path) for module in outside if writing.search(module.text)]


def test_our_own_connections_to_valkey_are_opened_in_one_place() -> None:
    opening = re.compile(r"\bredis\.(asyncio\.)?(Redis|(Blocking)?ConnectionPool)\b[.(]")
    allowed = "audit_app.kernel.valkey"
    assert [module.name for module in modules() if opening.search(module.text)] == [allowed]


def test_tasks_carry_ids_and_nothing_else() -> None:
    """What a Celery message holds can be read in Valkey, lost and repeated: only ids go in."""
    sending = re.compile(r"\.(apply_async|send_task)\(")
    assert [module.name for module in modules() if sending.search(module.text)] == ["audit_app.kernel.nudges"]


def test_nothing_unpickles() -> None:
    assert not [
        str(module.path) for module in modules() if re.search(r"\b(pickle|marshal|shelve|yaml\.load)\b", module.text)
    ]
