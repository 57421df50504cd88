"""Finds the tool calls that a message asks for: arithmetic, clocks, pages to fetch, text to echo."""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agents_app.providers.kinds.demo.cities import ZONE_OF_CITY
from tools_app.types import ToolSpec

MAX_INTENTS = 8
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
_OPERATORS_IN_ENGLISH = [
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
class Intent:
    """A tool call that a message asks for."""

    tool: str
    arguments: dict[str, Any]


def find_intents(text: str) -> tuple[Intent, ...]:
    """Return the intents of a message in their order, without duplicates."""
    echo = _ECHO.search(text)
    rest = text[: echo.start()] if echo else text
    found = [
        (match.start(), Intent("web_fetch", {"url": match[0].rstrip(".,;:!?)]")})) for match in _URL.finditer(rest)
    ]
    if echo:
        found.append((echo.start(), Intent("echo", {"text": echo["text"].strip()})))
    rest = _URL.sub(_blank, rest)
    found += _clocks(rest)
    found += _sums(_DATE_OR_HOUR.sub(_blank, _ZONE.sub(_blank, rest)))
    intents: list[Intent] = []
    for _, intent in sorted(found, key=lambda item: item[0]):
        if intent not in intents:
            intents.append(intent)
    return tuple(intents[:MAX_INTENTS])


def supported(intents: Iterable[Intent], tools: Iterable[ToolSpec]) -> tuple[Intent, ...]:
    """Return the intents for which a tool with this name and these arguments is offered."""
    parameters = {spec.name: spec.parameters.get("properties", {}) for spec in tools}
    return tuple(
        intent
        for intent in intents
        if intent.tool in parameters and intent.arguments.keys() <= parameters[intent.tool].keys()
    )


def _clocks(text: str) -> list[tuple[int, Intent]]:
    if not _CLOCK_WORD.search(text):
        return []
    places = [(match.start(), "UTC" if match[0] == "GMT" else match[0]) for match in _ZONE.finditer(text)]
    places += [(match.start(), ZONE_OF_CITY[match[0].lower()]) for match in _CITY.finditer(_ZONE.sub(_blank, text))]
    question = _CLOCK_QUESTION.search(text)
    if not places and question:
        places = [(question.start(), "UTC")]
    return [(at, Intent("date_time", {"timezone": zone})) for at, zone in places]


def _sums(text: str) -> list[tuple[int, Intent]]:
    """Return arithmetic in the calculator's notation. Positions refer to the text with its words as operators."""
    for pattern, replacement in _OPERATORS_IN_ENGLISH:
        text = pattern.sub(replacement, text)
    found = []
    for run in _ARITHMETIC.finditer(text):
        for part in _BETWEEN_NUMBERS.split(run[0]):
            expression = _trimmed(part)
            if _is_sum(expression):
                found.append((run.start(), Intent("calculator", {"expression": expression})))
    return found


def _trimmed(part: str) -> str:
    """Return the part without operators, full stops and unbalanced brackets at its ends."""
    expression = " ".join(part.split()).rstrip("+-*/%(. ").lstrip("*/%). ")
    surplus = expression.count("(") - expression.count(")")
    while surplus < 0 and expression.endswith(")"):
        expression, surplus = expression[:-1].rstrip(), surplus + 1
    while surplus > 0 and expression.startswith("("):
        expression, surplus = expression[1:].lstrip(), surplus - 1
    return expression


def _is_sum(expression: str) -> bool:
    """Return whether the expression is arithmetic with at least one operation, and not too long."""
    if not expression or len(expression) > _MAX_EXPRESSION:
        return False
    try:
        tree = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return isinstance(tree, ast.BinOp | ast.Call) and all(map(_is_part_of_sum, ast.walk(tree)))


def _is_part_of_sum(node: ast.AST) -> bool:
    return isinstance(node, _SUM_NODES) and (not isinstance(node, ast.Call) or isinstance(node.func, ast.Name))


def _blank(match: re.Match[str]) -> str:
    """Return spaces of the same length, which keep the positions of the rest."""
    return " " * len(match[0])
