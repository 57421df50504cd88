"""The rules of language: docstrings, names of modules, and the words that the glossary forbids."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.architecture.exemptions import problems
from tests.architecture.figures import NOUNS, WH_WORD, gerunds
from tests.architecture.source import APPS, PACKAGES, ROOT, Module, modules
from tests.architecture.user_texts import docstrings, help_texts, texts, texts_of_templates

# Names that mean the same role wherever they stand (docs/adding-a-surface.md and the other pages on extending).
FLOOR_PLAN = """
    adapter base commands conf consumers errors evaluator events http_request nudges openapi operations
    permissions projection projection_completions projection_responses provider queries registry requests responses
    retention surface sweeper tasks transitions urls views webhook worker
"""
ROLES = set(FLOOR_PLAN.split())
# Folders in which a module is named after the object that it is about.
BY_OBJECT = {"admin", "management", "models", "objects", "types", "views", "adapters", "kinds", "builtin"}
# What a text says is not an identifier, but fair in a sentence.
QUOTING = {"say", "says", "said"}
# What people say and tell an agent, and the facts that it remembers about them.
OF_PEOPLE = {"say", "says", "said", "tell", "told", "facts"}
# The name of a field note, at the begin of a line or behind another note.
NOTE = re.compile(r"(?:^|(?<=[.;,] ))\s*(?:\w+(?:,| and) )*([A-Za-z_]\w*): ")
# German constructions, and limits that read like descriptions.
ODD = re.compile(
    r"(?<![Tt]here )\b(is|are|was|were) no (?!longer\b|more\b)\w|\b(is|are) none of\b|\bof (theirs|ours)\b"
    r"|\bthat of an? \w+s\b|\b[Aa]n? \w+ has (at most|\d+ to|\{\} to)\b|\bfor ever\b"
)
HELD = ("audit_app", "tools_app", "agents_app", "sessions_app", "komand", "tests", "benchmarks")


def forbidden() -> set[str]:
    """Return the synonyms that the glossary marks as code."""
    rows = re.findall(r"^\| \*\*.*\|([^|]*)\|$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`(\w+)`", row)}


def documented(module: Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each docstring."""
    yield from ((getattr(node, "lineno", 1), text) for node, text in docstrings(module))


def names_in(node: ast.AST) -> set[str]:
    """Return the names that field notes of a class or function may be about: parameters, fields and attributes."""
    found = {child.arg for child in ast.walk(node) if isinstance(child, ast.arg)}
    for child in ast.walk(node):
        if isinstance(child, ast.AnnAssign | ast.Assign):
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            found |= {getattr(target, "id", getattr(target, "attr", "")) for target in targets}
    return found


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


def test_field_notes_are_one_field_a_line() -> None:
    found = [
        f"{module.path}:{node.lineno} {line.strip()[:80]}"
        for module in modules()
        for node, text in docstrings(module)
        if not isinstance(node, ast.Module)
        for line in text.splitlines()
        if len(set(NOTE.findall(line)) & names_in(node)) > 1
    ]
    assert not found


@pytest.mark.parametrize("package", PACKAGES)
def test_no_help_text_begins_with_a_wh_word_or_continues_its_label(package: str) -> None:
    half = re.compile(rf"{WH_WORD.pattern}|(of|that)\b", re.IGNORECASE)
    assert not [
        f"{module.path}:{line} {text}"
        for module in modules(package)
        for line, text in help_texts(module)
        if half.match(text)
    ]


def test_texts_for_users_are_plain() -> None:
    """Check what the code and the templates say to users, operators and models."""
    shown = [(f"{module.path}:{line}", text) for module in modules() for line, text in texts(module)]
    shown += texts_of_templates()
    assert not [f"{place} {match[0]}" for place, text in shown if (match := ODD.search(text))]
    pattern = re.compile(rf"\b({'|'.join(sorted(forbidden()))})\b")
    found = [
        (match[0], f"{place} {match[0]}")
        for place, text in shown
        for match in pattern.finditer(re.sub(r"`[^`]*`", "", text))
    ]
    assert not problems(found, OF_PEOPLE)


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
