"""YAML files of users, read with the line of each place, and written with texts of several lines as blocks. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from audit_app.kernel.errors import InvalidInput

LARGEST_FILE, LARGEST_UPLOAD = 2_000_000, 200_000  # bytes
LONGEST_TEMPLATE = 200_000  # characters

Fault = Callable[[str, str], None]  # takes a place and what is wrong there


@dataclass(frozen=True)
class Problem:
    """A fault of a file.

    line: from 1.
    place: such as agents[0].provider.
    """

    line: int
    place: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.place}: {self.message}"


class InvalidYaml(ValueError):
    """A text that is not YAML, or has an alias. line: from 1; None if it is unknown."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(problem)


class UnusableFile(InvalidInput):
    """A file that cannot be used. problems: all of them."""

    code = "unusable_file"

    def __init__(self, problems: Sequence[Problem], title: str) -> None:
        self.problems = tuple(problems)
        super().__init__(f"{title}:\n" + "\n".join(map(str, problems)), problems=[vars(one) for one in problems])


@dataclass(frozen=True)
class Document:
    """A parsed file. lines: of each place."""

    content: Any
    lines: dict[str, int]

    def problem(self, place: str, message: str) -> Problem:
        """Return the problem with the line of its place, or of what it is in."""
        around = place
        while around and around not in self.lines:
            around = around[: max(around.rfind("."), around.rfind("["), 0)]
        return Problem(self.lines.get(around, 1), place or "the file", message)


def decode_upload(data: bytes, title: str) -> str:
    """Return the text of an uploaded file. Raises UnusableFile, with the title before its problem."""
    if len(data) > LARGEST_UPLOAD:
        raise UnusableFile([Problem(1, "the file", f"it is larger than {LARGEST_UPLOAD:,} bytes")], title)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnusableFile([Problem(1, "the file", "it is not UTF-8")], title) from None


def read(text: str, title: str) -> Document:
    """Return the content of a YAML file. Raises UnusableFile, with the title before its problems."""
    if len(text.encode(errors="replace")) > LARGEST_FILE:
        raise UnusableFile([Problem(1, "the file", f"it is larger than {LARGEST_FILE:,} bytes")], title)
    try:
        content = load(text)
    except InvalidYaml as error:
        raise UnusableFile([Problem(error.line or 1, "the file", f"it is not YAML: {error}")], title) from None
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    return Document(content, dict(_lines(root)) if root is not None else {})


def load(text: str) -> Any:
    """Return the content of YAML without aliases. Raises InvalidYaml."""
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            raise InvalidYaml("aliases (`*name`) are not supported")
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        raise InvalidYaml(str(getattr(error, "problem", error)), mark.line + 1 if mark else None) from None
    except (LookupError, AttributeError):  # PyYAML raises these for tags such as `!!int ""`
        raise InvalidYaml("a value does not match its tag, such as `!!int`") from None


def write(document: Any) -> str:
    dumped: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return dumped


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def _lines(node: yaml.Node, place: str = "") -> Iterator[tuple[str, int]]:
    """Yield each place of a document with its line."""
    yield place, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = f"{place}.{key.value}" if place else str(key.value)
            yield name, key.start_mark.line + 1
            yield from ((inner, line) for inner, line in _lines(value, name) if inner != name)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield from _lines(value, f"{place}[{number}]")
