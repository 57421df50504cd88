"""YAML files of users, read with the line of each place, and written with texts of several lines as blocks. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from audit_app.kernel.errors import InvalidInput

LARGEST_FILE, LARGEST_UPLOAD = 2_000_000, 200_000  # bytes
LONGEST_TEMPLATE = 200_000  # characters
# PyYAML's time grows with the square of the depth and of the digits of a number.
_MOST_LEVELS, _LONGEST_NUMBER = 50, 1_000
_LONGEST_PLACE = 300  # characters; what is deeper has the line of the place around it

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
        content, lines = _parse(text, with_lines=True)
    except InvalidYaml as error:
        raise UnusableFile([Problem(error.line or 1, "the file", f"it is not YAML: {error}")], title) from None
    return Document(content, lines)


def load(text: str) -> Any:
    """Return the content of YAML without aliases. Raises InvalidYaml."""
    return _parse(text, with_lines=False)[0]


def _parse(text: str, *, with_lines: bool) -> tuple[Any, dict[str, int]]:
    """Return the content of YAML, and the line of each place. Raises InvalidYaml."""
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        lines = dict(_lines(root)) if with_lines and root is not None else {}
        return (None if root is None else loader.construct_document(root)), lines
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        raise InvalidYaml(str(getattr(error, "problem", error)), mark.line + 1 if mark else None) from None
    except (LookupError, AttributeError, OverflowError):  # PyYAML raises these for tags such as `!!int ""`
        raise InvalidYaml("a value does not match its tag, such as `!!int`") from None


class _Loader(yaml.SafeLoader):
    """Refuses aliases, deep nesting and long numbers, so that its time grows linearly with the size of the text."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise _refusal("aliases (`*name`) are not supported", self.get_mark())
        return super().compose_node(parent, index)

    def fetch_flow_collection_start(self, token_class: type[yaml.Token]) -> None:
        self._check_depth()
        super().fetch_flow_collection_start(token_class)

    def add_indent(self, column: int) -> bool:
        self._check_depth()
        return bool(super().add_indent(column))

    def _check_depth(self) -> None:
        if self.flow_level + len(self.indents) >= _MOST_LEVELS:
            raise _refusal(f"it is nested more than {_MOST_LEVELS} levels deep", self.get_mark())

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        if len(node.value) > _LONGEST_NUMBER:
            raise _refusal(f"a number is longer than {_LONGEST_NUMBER:,} characters", node.start_mark)
        is_int = node.tag.endswith(":int")
        number: int | float = self.construct_yaml_int(node) if is_int else self.construct_yaml_float(node)
        return number


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _Loader.construct_number)


def _refusal(problem: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


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
    if len(place) > _LONGEST_PLACE:
        return
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = f"{place}.{key.value}" if place else str(key.value)
            yield name, key.start_mark.line + 1
            yield from ((inner, line) for inner, line in _lines(value, name) if inner != name)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield from _lines(value, f"{place}[{number}]")
