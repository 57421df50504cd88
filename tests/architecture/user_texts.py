"""Texts that users and operators read: literals of the code that are no docstrings, help texts, text of templates."""

import ast
import re
from collections.abc import Iterator

from tests.architecture.source import ROOT, Module

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
HELP = {"help", "help_text"}
# Tags, variables and comments of Django, scripts, styles and tags of HTML.
MARKUP = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}|<(script|style)\b.*?</\1>|<!--.*?-->|<[^>]*>", re.DOTALL)


def docstrings(module: Module) -> Iterator[tuple[DOCUMENTED, str]]:
    """Yield what has a docstring, with the docstring."""
    for node in ast.walk(module.tree):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield node, text


def literals(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield the string literals of a tree; an f-string once, with `{}` for its values."""
    if isinstance(tree, ast.JoinedStr):
        yield tree, "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in tree.values)
    elif isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        yield tree, tree.value
    for child in ast.iter_child_nodes(tree):
        if not isinstance(tree, ast.JoinedStr) or isinstance(child, ast.FormattedValue):
            yield from literals(child)


def texts(module: Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each literal of several words that is no docstring."""
    own = {id(node.body[0].value) for node, _ in docstrings(module) if isinstance(node.body[0], ast.Expr)}
    for node, text in literals(module.tree):
        if " " in text.strip() and id(node) not in own:
            yield node.lineno, text


def help_texts(module: Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of the help of fields, commands and arguments."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.keyword):
            names = {node.arg}
        elif isinstance(node, ast.Assign):
            names = {getattr(target, "id", "") for target in node.targets}
        else:
            continue
        if names & HELP:
            yield from ((node.value.lineno, text) for _, text in literals(node.value))


def texts_of_templates() -> Iterator[tuple[str, str]]:
    """Yield the path and visible text of each template."""
    for path in sorted((ROOT / "templates").rglob("*.html")):
        yield str(path.relative_to(ROOT)), re.sub(r"\s+", " ", MARKUP.sub(" ", path.read_text()))
