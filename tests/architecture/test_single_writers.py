"""One module for each kind of write, found in the syntax: statuses, events, connections, tasks."""

import ast
import re
from collections.abc import Iterator

import pytest
from django.apps import apps

from tests.architecture.exemptions import problems
from tests.architecture.source import Module, modules

# app: fields, and the modules that may write them
GUARDED = {
    "agents_app": ({"status", "owner", "fence"}, {"agents_app.runs.transitions"}),
    "tools_app": ({"status", "owner"}, {"tools_app.executions.transitions"}),
    "sessions_app": (
        {"status", "owner"},
        {"sessions_app.channels.outbound.transitions", "sessions_app.attachments.records"},
    ),
}


def writes(module: Module, fields: set[str]) -> Iterator[tuple[int, str]]:
    """Yield the line and the field of every write of one of the fields.

    It sees `x.status = …`, `.update(status=…)`, dict literals inside `CompiledUpdate(…)` or `CompiledReturning(…)`, and
    `.update(**values)` where `values` is a dict literal, a comprehension over literal names, or a name to which the
    module assigns one.
    """
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and target.attr in fields and not _is_self(target.value):
                    yield node.lineno, target.attr
        elif isinstance(node, ast.Call):
            yield from ((node.lineno, name) for name in _names_set_by(node, module) if name in fields)


def _names_set_by(call: ast.Call, module: Module) -> Iterator[str]:
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if called in ("CompiledUpdate", "CompiledReturning"):
        yield from _keys(call)
    elif called == "update" and isinstance(call.func, ast.Attribute):
        for keyword in call.keywords:
            if keyword.arg:
                yield keyword.arg
            elif isinstance(keyword.value, ast.DictComp):
                yield from _texts_of(keyword.value.generators[0].iter, module)
            elif not isinstance(keyword.value, ast.Name):
                yield from _keys(keyword.value)
            else:
                for node in ast.walk(module.tree):
                    if isinstance(node, (ast.Assign, ast.AnnAssign)) and _is_of(node, keyword.value.id):
                        yield from _keys(node)


def _texts_of(listed: ast.expr, module: Module) -> Iterator[str]:
    """Yield the literal texts of a tuple or list, or of those that the module assigns to its name."""
    trees: list[ast.AST] = [listed]
    if isinstance(listed, ast.Name):
        trees = [node for node in ast.walk(module.tree) if isinstance(node, ast.Assign) and _is_of(node, listed.id)]
    for tree in trees:
        yield from (
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )


def _is_of(node: ast.Assign | ast.AnnAssign, name: str) -> bool:
    """Return whether the assignment is to this name, or to an item of it."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    named = [target.value if isinstance(target, ast.Subscript) else target for target in targets]
    return any(isinstance(target, ast.Name) and target.id == name for target in named)


def _keys(tree: ast.AST) -> Iterator[str]:
    """Yield the literal keys of every dict in the tree: `{"a": …}`, `dict(a=…)` and `values["a"] = …`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            yield from (key.value for key in node.keys if isinstance(key, ast.Constant))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "dict":
            yield from (keyword.arg for keyword in node.keywords if keyword.arg)
        elif (
            isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.slice, ast.Constant)
        ):
            yield node.slice.value


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


@pytest.mark.parametrize("app", GUARDED)
def test_only_transitions_write_status_owner_and_fence(app: str) -> None:
    fields, doors = GUARDED[app]
    found = [
        (module.name, f"{module.path}:{line} writes {field}")
        for module in modules(app)
        for line, field in writes(module, fields)
    ]
    assert not problems(found, doors)
    assert fields <= {field.name for model in apps.get_app_config(app).get_models() for field in model._meta.fields}


def test_no_upper_layer_writes_rows_of_a_lower_one() -> None:
    """Check that upper layers change runs and executions through services only."""
    touching = re.compile(
        r"\b(Run|Step|ToolExecution)\.objects\b[^\n]*\.(create|update|delete|bulk_create|get_or_create)\("
    )
    assert not [str(module.path) for module in modules("sessions_app", "komand") if touching.search(module.text)]


def test_events_are_written_by_audit_services_alone() -> None:
    writing = re.compile(
        r"\b(Event|AuditEntry|TimelineHead)(\.objects\.(create|bulk_create|update|filter\([^)]*\)\.update)|\(\s*$)",
        re.MULTILINE,
    )
    assert [module.name for module in modules() if writing.search(module.text)] == ["audit_app.services"]


def test_our_own_connections_to_valkey_are_opened_in_one_place() -> None:
    opening = re.compile(r"\bredis\.(asyncio\.)?(Redis|(Blocking)?ConnectionPool)\b[.(]")
    allowed = "audit_app.kernel.valkey"
    assert [module.name for module in modules() if opening.search(module.text)] == [allowed]


def test_tasks_carry_ids_and_nothing_else() -> None:
    """Check that one module sends Celery messages: they can be read, lost and repeated, so they carry ids only."""
    sending = re.compile(r"\.(apply_async|send_task)\(")
    assert [module.name for module in modules() if sending.search(module.text)] == ["audit_app.kernel.nudges"]


def test_nothing_unpickles() -> None:
    assert not [
        str(module.path) for module in modules() if re.search(r"\b(pickle|marshal|shelve|yaml\.load)\b", module.text)
    ]


def test_decisions_ask_for_rights_and_not_for_the_flags_of_a_user() -> None:
    """Check that `is_staff` and `is_superuser` are read where accounts themselves are managed, and nowhere else."""
    allowed = {
        "sessions_app.admin.users",
        "sessions_app.admin.api_keys",
        "sessions_app.identity.external_users",
        "sessions_app.identity.second_factor",
        "sessions_app.surfaces.threads.responses",  # shows them
        "komand.seed",
        "audit_app.rights",
    }
    flags = re.compile(r"\b(is_staff|is_superuser|check_operator)\b")
    assert not problems([(module.name, module.name) for module in modules() if flags.search(module.text)], allowed)
