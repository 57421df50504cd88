"""The rules of language: docstrings, names of modules, and the words that the glossary forbids."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.architecture.exemptions import problems
from tests.architecture.figures import NOUNS, WH_WORD, gerunds
from tests.architecture.source import APPS, ROOT, Module, modules

# Names that mean the same role wherever they stand (docs/adding-a-surface.md and the other pages on extending).
FLOOR_PLAN = """
    adapter base commands conf consumers errors evaluator events http_request models nudges openapi operations
    permissions projection projection_completions projection_responses provider queries registry requests responses
    retention surface sweeper tasks transitions types urls views webhook worker
"""
ROLES = set(FLOOR_PLAN.split())
# Folders in which a module is named after the object that it is about.
BY_OBJECT = {"admin", "management", "models", "objects", "views", "adapters", "kinds", "builtin"}
# What a text says is not an identifier, but fair in a sentence.
QUOTING = {"say", "says", "said"}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
HELD = ("audit_app", "tools_app", "agents_app", "sessions_app", "komand", "tests", "benchmarks")


def forbidden() -> set[str]:
    """Return the synonyms that the glossary marks as code."""
    rows = re.findall(r"^\| \*\*.*\|([^|]*)\|$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`(\w+)`", row)}


def documented(module: Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each docstring."""
    for node in ast.walk(module.tree):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


def defined_names(module: Module) -> Iterator[tuple[int, str]]:
    """Yield the line and name of everything that the module defines or assigns."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def parts(name: str) -> set[str]:
    """Return the words of an identifier in snake_case or CamelCase."""
    return {part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def test_the_glossary_has_its_terms_and_forbids_words() -> None:
    terms = re.findall(r"^\| \*\*", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert len(terms) >= 60 and {"bell", "told", "exchange"} <= forbidden()


@pytest.mark.parametrize("package", HELD)
def test_no_docstring_begins_with_a_wh_word(package: str) -> None:
    found = [
        f"{m.path}:{line} {text[:60]}" for m in modules(package) for line, text in documented(m) if WH_WORD.match(text)
    ]
    assert not found


def test_no_module_is_a_bare_gerund() -> None:
    paths = [str(module.path).replace("/test_", "/") for module in modules(*HELD)]
    assert not problems(gerunds(paths), NOUNS)


@pytest.mark.parametrize("package", [*APPS, "komand"])
def test_no_identifier_has_a_forbidden_word(package: str) -> None:
    words = forbidden()
    assert not [
        f"{m.path}:{line} {name}" for m in modules(package) for line, name in defined_names(m) if parts(name) & words
    ]


def test_no_docstring_has_a_forbidden_word() -> None:
    pattern = re.compile(rf"\b({'|'.join(sorted(forbidden()))})\b")
    found = [
        (match[0], f"{module.path}:{line} {match[0]}")
        for module in modules()
        for line, text in documented(module)
        for match in pattern.finditer(re.sub(r"`[^`]*`", "", text))
    ]
    assert not problems(found, QUOTING)


@pytest.mark.parametrize("app", APPS)
def test_a_module_name_occurs_once_in_an_app(app: str) -> None:
    names = Counter(
        module.path.stem
        for module in modules(app)
        if module.path.stem != "__init__" and not BY_OBJECT & set(module.path.parts[:-1])
    )
    assert not [name for name, count in names.items() if count > 1 and name not in ROLES]


def test_the_floor_plan_names_modules_and_folders_that_exist() -> None:
    assert {module.path.stem for module in modules(*APPS)} >= ROLES
    assert {folder for module in modules(*APPS) for folder in module.path.parts[:-1]} >= BY_OBJECT


def test_no_file_is_exempt_from_the_formatter() -> None:
    mark = "# fmt" + ":"
    assert not [str(module.path) for module in modules(*HELD) if mark in module.text]
