"""Measures the form of the code: `python -m tests.architecture.figures [--rev REVISION]` prints Markdown tables.

Migrations do not count. `--rev` also measures commits. The paths of a message are traced in the working tree alone.
"""

import argparse
import ast
import io
import os
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tests.architecture import floors
from tests.architecture.source import PACKAGES, ROOT, Function, functions

WH_WORD = re.compile(r"(what|who|whoever|whom|whose|whether|how|where|when|which)\b", re.IGNORECASE)
GERUND = re.compile(r"[a-z]+ing")
# Nouns of the field that end in "ing".
NOUNS = {"wiring", "rendering"}


class Figures:
    """The figures of some modules. sources: path below the root -> text."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.sources = sources
        self.trees = {path: ast.parse(text) for path, text in sources.items()}
        self.functions = [function for tree in self.trees.values() for function in functions(tree)]

    def rows(self) -> Iterator[tuple[str, str]]:
        lines = [text.count("\n") for text in self.sources.values()]
        lengths = [length_of(function) for function in self.functions]
        classes = [
            node.end_lineno - node.lineno + 1
            for node in self._nodes(ast.ClassDef)
            if isinstance(node, ast.ClassDef) and node.end_lineno
        ]
        documented = [text for text in map(ast.get_docstring, self._documentable()) if text]
        helpers = [count_uses(tree) for tree in self.trees.values()]
        once = [function for pairs in helpers for function, uses in pairs if uses == 1]
        yield "files / lines", f"{len(lines):,} / {sum(lines):,}"
        for app, count in self._lines_by_app().items():
            yield f"lines of {app}", f"{count:,}"
        yield "lines a file: median / p90 / max", spread(lines, 0.9)
        yield "files over 350 lines", str(sum(count > 350 for count in lines))
        yield "functions: median / p90 / p95 / max lines", spread(lengths, 0.9, 0.95)
        yield "functions over 60 lines", str(sum(length > 60 for length in lengths))
        yield "classes: median / p95 / max lines", spread(classes, 0.95)
        yield "parameters: median / p95 / max", spread([parameters_of(each) for each in self.functions], 0.95)
        yield "functions with a docstring", share(sum(bool(ast.get_docstring(f)) for f in self.functions), len(lengths))
        yield (
            "docstrings that begin with a wh-word",
            share(sum(bool(WH_WORD.match(t)) for t in documented), len(documented)),
        )
        bare = [path for name, path in gerunds(self.sources) if name not in NOUNS]
        yield "modules named by a bare gerund", share(len(bare), len(self.sources))
        yield "exemptions from the formatter", str(sum(text.count("# fmt" + ":") for text in self.sources.values()))
        yield "private helpers used once", f"{len(once)}, of up to three lines {sum(length_of(f) <= 3 for f in once)}"
        yield "`type: ignore` a 1,000 lines", f"{1000 * self._count('# type: ignore') / max(1, sum(lines)):.1f}"
        yield from floors.rows(self.trees)

    def _nodes(self, kind: type[ast.AST]) -> Iterator[ast.AST]:
        return (node for tree in self.trees.values() for node in ast.walk(tree) if isinstance(node, kind))

    def _documentable(self) -> Iterator[ast.Module | ast.ClassDef | Function]:
        for tree in self.trees.values():
            for node in ast.walk(tree):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    yield node

    def _lines_by_app(self) -> Counter[str]:
        counted: Counter[str] = Counter()
        for path, text in self.sources.items():
            counted[path.split("/")[0]] += text.count("\n")
        return counted

    def _count(self, mark: str) -> int:
        return sum(text.count(mark) for text in self.sources.values())


def length_of(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters_of(function: Function) -> int:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len([argument for argument in named if argument.arg not in ("self", "cls")])


def gerunds(paths: Iterable[str]) -> list[tuple[str, str]]:
    """Return the names of modules and packages that end in "ing", each with the path of a module."""
    return [(part, path) for path in paths for part in Path(path).with_suffix("").parts if GERUND.fullmatch(part)]


def count_uses(tree: ast.Module) -> list[tuple[Function, int]]:
    """Return the private functions of a module with the number of their uses in it."""
    names = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    names.update(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    private = [function for function in functions(tree) if re.match(r"_[a-z]", function.name)]
    return [(function, names[function.name]) for function in private]


def spread(values: Sequence[int], *quantiles: float) -> str:
    """Return the median, some quantiles and the maximum."""
    ordered = sorted(values) or [0]
    places = [ordered[min(len(ordered) - 1, int(len(ordered) * quantile))] for quantile in quantiles]
    return " / ".join(str(value) for value in (round(statistics.median(ordered)), *places, ordered[-1]))


def share(count: int, total: int) -> str:
    return f"{100 * count / max(1, total):.1f} % ({count:,} of {total:,})"


def working_tree() -> dict[str, str]:
    return {
        str(file.relative_to(ROOT)): file.read_text()
        for package in PACKAGES
        for file in sorted((ROOT / package).rglob("*.py"))
        if "migrations" not in file.relative_to(ROOT).parts
    }


def revision(name: str) -> dict[str, str]:
    """Return the product's modules as a commit has them."""
    archive = subprocess.run(["git", "archive", name, *PACKAGES], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        members = [one for one in tar.getmembers() if one.name.endswith(".py") and "/migrations/" not in one.name]
        return {one.name: tar.extractfile(one).read().decode() for one in members}  # type: ignore[union-attr]


def traces() -> str:
    """Return the traces of the paths of a message, which their test measures, as rows of a table."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "KOMAND_TRACES": folder}
        command = [sys.executable, "-m", "pytest", "-q", "tests/integration/komand/test_traces.py"]
        subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=False)
        return "".join(file.read_text() for file in sorted(Path(folder).iterdir()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.architecture.figures", description=__doc__)
    parser.add_argument("--rev", nargs="*", default=[], help="commits to show beside the working tree")
    options = parser.parse_args()
    read: list[tuple[str, Callable[[], dict[str, str]]]] = [
        *((name, lambda name=name: revision(name)) for name in options.rev),  # type: ignore[misc]
        ("working tree", working_tree),
    ]
    columns = [dict(Figures(sources()).rows()) for _, sources in read]
    sys.stdout.write("| | " + " | ".join(name for name, _ in read) + " |\n| --- |" + " ---: |" * len(read) + "\n")
    for label in columns[-1]:
        sys.stdout.write(f"| {label} | " + " | ".join(column.get(label, "–") for column in columns) + " |\n")
    sys.stdout.write(
        "\n| path | files · functions (of ≤ 5 lines) · their lines · arrows |\n| --- | ---: |\n" + traces()
    )


if __name__ == "__main__":
    main()
