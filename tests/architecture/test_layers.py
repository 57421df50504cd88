"""The layers: imports by import-linter, purity by the import graph, foreign keys and migrations by the models."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
from django.apps import apps
from django.db import models
from django.db.migrations.loader import MigrationLoader

from tests.architecture.import_graph import circles, imports_of_modules, imports_of_rooms
from tests.architecture.source import APPS, PACKAGES, ROOT, modules

LEVEL = {name: level for level, name in enumerate(APPS)}


def test_imports_follow_the_contracts() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    found = subprocess.run([str(linter), "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_no_folders_of_a_package_import_each_other_in_a_circle() -> None:
    """Check every package at every depth; its modules beside the folders count too."""
    imports = imports_of_modules({str(module.path): module.tree for module in modules()})
    packages = {str(module.path.parent).replace("/", ".") for module in modules()}
    found = {package: circles(imports_of_rooms(imports, package)) for package in sorted(packages)}
    assert len(found) > 50 and not {package: names for package, names in found.items() if names}


def test_what_parses_html_makes_it_harmless_for_the_parser() -> None:
    parsing = re.compile(r"^\s*(?:from|import) (?:bs4|html\.parser)\b", re.MULTILINE)
    found = [module for module in modules() if parsing.search(module.text)]
    assert len(found) > 1
    assert not [module.path for module in found if "html_markup import closed" not in module.text]


def test_modules_that_call_themselves_pure_are_pure() -> None:
    """Check that no module that calls itself pure imports a database, Redis, Celery or settings, even indirectly."""
    graph = grimp.build_graph(*PACKAGES, include_external_packages=True)
    impure = {"django", "redis", "celery", *(f"{app}.models" for app in APPS)}
    claimed = [
        module.name.removesuffix(".__init__")
        for module in modules()
        if "Pure." in (ast.get_docstring(module.tree) or "").replace("Pure but", "")
    ]
    found = {
        name: reached
        for name in claimed
        if (reached := sorted(one for one in graph.find_upstream_modules(name, as_package=True) if one in impure))
    }
    assert len(claimed) > 50 and not found


def own_keys() -> list[models.ForeignKey]:  # type: ignore[type-arg]
    return [
        field
        for model in apps.get_models()
        if model._meta.app_label in LEVEL
        for field in model._meta.get_fields(include_hidden=True)
        if isinstance(field, models.ForeignKey)
    ]


def test_there_are_keys_to_look_at() -> None:
    assert len(own_keys()) >= 5


@pytest.mark.parametrize("key", own_keys(), ids=str)
def test_a_key_points_down_and_is_not_seen_from_below(key: "models.ForeignKey") -> None:  # type: ignore[type-arg]
    target = key.related_model._meta.app_label
    own = key.model._meta.app_label
    assert LEVEL.get(target, -1) <= LEVEL[own], f"{key} points up to {target}"
    if target != own:
        assert key.remote_field.hidden, f'{key} crosses apps: give it related_name="+"'


def test_migrations_depend_on_the_same_or_a_lower_app_alone() -> None:
    loader = MigrationLoader(None, load=False)
    loader.load_disk()
    upward = [
        f"{app}.{name} depends on {needed}"
        for (app, name), migration in loader.disk_migrations.items()
        if app in LEVEL
        for needed, _ in migration.dependencies
        if LEVEL.get(needed, -1) > LEVEL[app]
    ]
    assert not upward


def test_what_migrations_name_lies_in_the_same_or_a_lower_app() -> None:
    """Check for strings such as "sessions_app.session" in a lower app's migration, which no linter sees."""
    for level, app in enumerate(APPS):
        text = "".join(file.read_text() for file in (ROOT / app / "migrations").glob("0*.py"))
        assert not [above for above in APPS[level + 1 :] if f"{above}." in text or f'"{above}"' in text]
