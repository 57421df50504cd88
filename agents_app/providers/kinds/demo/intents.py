"""Finds in a message what a tool could do about it: sums, clocks, pages to fetch, text to echo."""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agents_app.providers.kinds.demo.cities import ZONE_OF_CITY
from tools_app.types import ToolSpec

MAX_WISHES = 8
_MAX_EXPRESSION = 200

_ECHO = re.compile(r"(?:\A\s*|\b(?:and|then)\s+)(?:please\s+)?echo\b[:,]?\s+(?P<text>\S.*)", re.IGNORECASE | re.DOTALL)
_URL = re.compile(r"https?://[^\s<>\"'`]+", re.IGNORECASE)
_ZONE = re.compile(
    r"\b(?:Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific)(?:/[A-Za-z_\-]+){1,2}|\b(?:UTC|GMT)\b"
)
_CITY = re.compile(r"\b(?:" + "|".join(sorted(ZONE_OF_CITY, key=len, reverse=True)) + r")\b", re.IGNORECASE)
_CLOCK_WORD = re.compile(r"\b(?:time|clock|date|day|hour|o'clock|today|now)\b", re.IGNORECASE)
_CLOCK_QUESTION = re.compile(
    r"\bwhat(?:'s|\s+is)?\s+(?:the\s+)?(?:current\s+|local\s+)?(?:time|date|day)\b|\bwhat\s+(?:time|day|date)\b"
    r"|\b(?:current|local)\s+(?:time|date)\b|\btime\s+is\s+it\b|\btoday'?s\s+date\b|\bdate\s+today\b",
    re.IGNORECASE,
)
_DATE_OR_HOUR = re.compile(r"\b\d{4}-\d{1,2}-\d{1,2}\b|\b\d{1,2}:\d{2}\b")
_WORDED = [
    (re.compile(r"(?<=\d),(?=\d{3}\b)"), ""),
    (re.compile(r"\bsquare\s+root\s+of\s+(\d+(?:\.\d+)?)", re.IGNORECASE), r"sqrt(\1)"),
    (re.compile(r"(\d)\s*(?:%|percent)\s*of\b", re.IGNORECASE), r"\1 / 100 *"),
    (re.compile(r"(?<=[\d)])\s*(?:×|·|\btimes\b|\bmultiplied\s+by\b|\bx\b)\s*(?=[\d(])", re.IGNORECASE), " * "),
    (re.compile(r"(?<=\d)x(?=\d)"), " * "),
    (re.compile(r"÷|\bdivided\s+by\b", re.IGNORECASE), " / "),
    (re.compile(r"\bplus\b", re.IGNORECASE), " + "),
    (re.compile(r"−|\bminus\b", re.IGNORECASE), " - "),
    (re.compile(r"\^|\bto\s+the\s+power\s+of\b", re.IGNORECASE), " ** "),
    (re.compile(r"(?<=\d)\s+squared\b", re.IGNORECASE), " ** 2"),
]
_FUNCTION = r"\b(?:abs|ceil|cos|exp|factorial|floor|log|round|sin|sqrt|tan)(?=\()|\b(?:pi|tau)\b"
_ARITHMETIC = re.compile(rf"(?:[\d\s.+\-*/%()]|{_FUNCTION})+")
_BETWEEN_NUMBERS = re.compile(r"(?<=[\d)])\s+(?=[\d(])")
_SUM_NODES = (ast.BinOp, ast.UnaryOp, ast.Constant, ast.Call, ast.Name, ast.Load, ast.operator, ast.unaryop)


@dataclass(frozen=True)
class Wish:
    """A tool call that the message asks for."""

    tool: str
    arguments: dict[str, Any]


def wishes_in(text: str) -> tuple[Wish, ...]:
    """What the message wants of tools, in its own order, each once."""
    echo = _ECHO.search(text)
    rest = text[: echo.start()] if echo else text
    found = [(match.start(), Wish("web_fetch", {"url": _without_full_stop(match[0])})) for match in _URL.finditer(rest)]
    if echo:
        found.append((echo.start(), Wish("echo", {"text": echo["text"].strip()})))
    rest = _URL.sub(_blank, rest)
    found += _clocks(rest)
    found += _sums(_DATE_OR_HOUR.sub(_blank, _ZONE.sub(_blank, rest)))
    wishes: list[Wish] = []
    for _, wish in sorted(found, key=lambda item: item[0]):
        if wish not in wishes:
            wishes.append(wish)
    return tuple(wishes[:MAX_WISHES])


def granted(wishes: Iterable[Wish], tools: Iterable[ToolSpec]) -> tuple[Wish, ...]:
    """Those that an offered tool can fulfil: same name, and it knows the arguments."""
    parameters = {spec.name: spec.parameters.get("properties", {}) for spec in tools}
    return tuple(
        wish for wish in wishes if wish.tool in parameters and wish.arguments.keys() <= parameters[wish.tool].keys()
    )


def _clocks(text: str) -> list[tuple[int, Wish]]:
    if not _CLOCK_WORD.search(text):
        return []
    places = [(match.start(), _zone(match[0])) for match in _ZONE.finditer(text)]
    places += [(match.start(), ZONE_OF_CITY[match[0].lower()]) for match in _CITY.finditer(_ZONE.sub(_blank, text))]
    question = _CLOCK_QUESTION.search(text)
    if not places and question:
        places = [(question.start(), "UTC")]
    return [(at, Wish("date_time", {"timezone": zone})) for at, zone in places]


def _sums(text: str) -> list[tuple[int, Wish]]:
    """Sums as the calculator writes them. Positions are those of the text with its words put as operators."""
    for pattern, replacement in _WORDED:
        text = pattern.sub(replacement, text)
    found = []
    for run in _ARITHMETIC.finditer(text):
        for part in _BETWEEN_NUMBERS.split(run[0]):
            expression = _trimmed(part)
            if _is_sum(expression):
                found.append((run.start(), Wish("calculator", {"expression": expression})))
    return found


def _trimmed(part: str) -> str:
    """The part without what the sentence around it left: loose signs, full stops, brackets of which half is missing."""
    expression = " ".join(part.split()).rstrip("+-*/%(. ").lstrip("*/%). ")
    surplus = expression.count("(") - expression.count(")")
    while surplus < 0 and expression.endswith(")"):
        expression, surplus = expression[:-1].rstrip(), surplus + 1
    while surplus > 0 and expression.startswith("("):
        expression, surplus = expression[1:].lstrip(), surplus - 1
    return expression


def _is_sum(expression: str) -> bool:
    """Whether it is arithmetic with something to work out, and not too long for a sentence."""
    if not expression or len(expression) > _MAX_EXPRESSION:
        return False
    try:
        tree = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return isinstance(tree, ast.BinOp | ast.Call) and all(map(_is_part_of_sum, ast.walk(tree)))


def _is_part_of_sum(node: ast.AST) -> bool:
    return isinstance(node, _SUM_NODES) and (not isinstance(node, ast.Call) or isinstance(node.func, ast.Name))


def _zone(name: str) -> str:
    return "UTC" if name == "GMT" else name


def _without_full_stop(url: str) -> str:
    return url.rstrip(".,;:!?)]")


def _blank(match: re.Match[str]) -> str:
    """Keeps the positions of what follows."""
    return " " * len(match[0])
