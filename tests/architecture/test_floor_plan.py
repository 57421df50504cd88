"""The floor plan: a role has one name, one form and one content in every app (`docs/architecture.md`)."""

import ast
import re
from importlib import import_module

import pytest
from django.apps import apps
from django.contrib import admin

from audit_app.event_types import event_types
from tests.architecture.exemptions import problems
from tests.architecture.source import APPS, PACKAGES, ROOT, Module, functions, modules

FOLDERS = {"admin", "management", "migrations", "models", "templatetags", "types"}
_MODULES = "access apps conf errors events hot_queries retention rights selectors services tasks"
MODULES = set(_MODULES.split())
# Subjects of one module. A subject of several is a folder, which the contracts of imports list.
SUBJECTS = {
    "audit_app": {"event_types", "fresh_login", "live_copies", "pagination", "stream", "timeline"},
    "tools_app": {
        "catalogue",
        "host_rules",
        "parameters",
        "profiles",
        "registry",
        "run_progress",
        "run_tools",
        "schema",
    },
    "agents_app": {"conversation_port", "direct_calls", "structured_output", "yaml_documents"},
    "sessions_app": {"feedback", "integrity_checks"},
}


def of_role(role: str, app: str = r"\w+") -> list[Module]:
    return [module for module in modules() if re.fullmatch(rf"{app}\.{role}(\..*)?", module.name)]


@pytest.mark.parametrize("app", APPS)
def test_modules_at_the_root_of_an_app_are_roles_or_subjects(app: str) -> None:
    found = [(path.stem, path.name) for path in (ROOT / app).glob("[!_]*.py") if path.stem not in MODULES]
    assert not problems(found, SUBJECTS[app])


@pytest.mark.parametrize("app", PACKAGES)
def test_a_role_is_a_folder_everywhere_or_a_module_everywhere(app: str) -> None:
    assert not [role for role in FOLDERS if (ROOT / app / f"{role}.py").exists()]
    assert not [role for role in MODULES if (ROOT / app / role).exists()]


def test_packages_of_models_types_and_admin_pages_export_names_alone() -> None:
    roots = [module for module in modules() if re.fullmatch(r"\w+\.(models|types|admin)\.__init__", module.name)]
    assert len(roots) >= 10
    for module in roots:
        rest = [node for node in module.tree.body[1:] if not isinstance(node, ast.ImportFrom)]
        assert [ast.unparse(node).split(" ")[0] for node in rest] == ["__all__"], module.name


def test_models_hold_all_tables() -> None:
    tables = [model for model in apps.get_models() if model._meta.app_label in APPS]
    assert len(tables) > 50
    for table in tables:
        home = f"{table._meta.app_label}.models"
        assert table.__module__.startswith(f"{home}.") and getattr(import_module(home), table.__name__) is table


def test_types_are_pure() -> None:
    """Require the claim, which `test_layers` checks."""
    assert of_role("types") and not [
        module.name for module in of_role("types") if "Pure." not in (ast.get_docstring(module.tree) or "")
    ]


def test_events_declare_all_types_of_events() -> None:
    declared = [value for app in APPS[1:] for value in vars(import_module(f"{app}.events")).values()]
    assert not [one.name for one in event_types if one not in declared]


def test_admin_holds_all_pages_of_tables() -> None:
    ours = [
        type(page).__module__ for page in admin.site._registry.values() if type(page).__module__.startswith(PACKAGES)
    ]
    assert len(ours) > 20 and not [name for name in ours if name.split(".")[1] != "admin"]


@pytest.mark.parametrize(
    ("role", "mark"),
    [
        ("rights", r"\bdeclare_right\("),
        ("hot_queries", r"(?m)^\w+ = Compiled(Query|Objects|Insert)\("),
        ("tasks", r"@shared_task\b"),
    ],
)
def test_a_role_holds_all_of_its_kind(role: str, mark: str) -> None:
    holders = {module.name for module in modules() if re.search(mark, module.text)}
    assert holders and not [name for name in holders if name.rpartition(".")[2] != role]


def test_selectors_write_nothing() -> None:
    writing = re.compile(r"\.((bulk_)?(create|update)|save|delete|(get|update)_or_create|emit|record)\(")
    assert not [module.name for module in of_role("selectors") if writing.search(module.text)]


def test_conf_derives_values() -> None:
    """Refuse a function that returns a setting unchanged: mypy knows the types of settings."""
    plain = re.compile(r"return (?:(?:int|str|bool|float|Path)\()?settings\.\w+\)?")
    assert not [
        f"{module.name}.{function.name}"
        for module in of_role("conf")
        for function in functions(module.tree)
        if plain.fullmatch(ast.unparse(function.body[-1]))
    ]


def test_the_architecture_page_lists_the_roles() -> None:
    section = (ROOT / "docs" / "architecture.md").read_text().split("\n### Roles\n")[1].split("\n### ")[0]
    listed = re.findall(r"^\| `(\w+)(/?)` \|", section, re.MULTILINE)
    assert {name for name, folder in listed if folder} == FOLDERS
    assert {name for name, folder in listed if not folder} == MODULES
