"""Finds the tool calls that a message asks for: arithmetic, clocks, pages, text to echo, files, questions."""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from tools_app.types import ToolSpec

MAX_INTENTS = 8
_MAX_EXPRESSION = 200
_AREAS = r"(?:Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific)"

_ECHO = re.compile(r"(?:\A\s*|\b(?:and|then)\s+)(?:please\s+)?echo\b[:,]?\s+(?P<text>\S.*)", re.IGNORECASE | re.DOTALL)
_FILE = re.compile(
    r"\b(?:(?P<adds>add\s+a\s+line\s+to)|write|create)\s+(?:the\s+|a\s+)?(?:file\s+)?(?P<path>(?:files|out)/[\w/-]+\.md)\b",
    re.IGNORECASE,
)
_FILE_LINES = ("# Written by the demo model\n\nNothing was written before somebody allowed it.\n", "A second line.\n")
_QUESTION = re.compile(r"\bask\s+me:\s*(?P<question>[^?\n]{1,200}\?)", re.IGNORECASE)
_URL = re.compile(r"https?://[^\s<>\"'`]+", re.IGNORECASE)
_ZONE = re.compile(rf"\b{_AREAS}(?:/[A-Za-z_\-]+){{1,2}}|\b(?:UTC|GMT)\b")
_CLOCK_WORD = re.compile(r"\b(?:time|clock|date|day|hour|o'clock|today|now)\b", re.IGNORECASE)
_CLOCK_QUESTION = re.compile(
    r"\bwhat(?:'s|\s+is)?\s+(?:the\s+)?(?:current\s+|local\s+)?(?:time|date|day)\b|\b(?:current|local)\s+(?:time|date)\b"
    r"|\btime\s+is\s+it\b|\btoday'?s\s+date\b|\bdate\s+today\b",
    re.IGNORECASE,
)
_DATE_OR_HOUR = re.compile(r"\b\d{4}-\d{1,2}-\d{1,2}\b|\b\d{1,2}:\d{2}\b")
# Cities that the names of zones lack; and last parts of such names that are plain words.
_MORE_CITIES = {
    **dict.fromkeys(("hamburg", "munich"), "Europe/Berlin"),
    **dict.fromkeys(("delhi", "mumbai"), "Asia/Kolkata"),
    **dict.fromkeys(("san francisco", "seattle"), "America/Los_Angeles"),
    **{"barcelona": "Europe/Madrid", "milan": "Europe/Rome", "beijing": "Asia/Shanghai", "hanoi": "Asia/Bangkok"},
    **{"boston": "America/New_York", "rio de janeiro": "America/Sao_Paulo", "cape town": "Africa/Johannesburg"},
}
_PLAIN_WORDS = {"act", "center", "christmas", "easter", "midway", "north", "oral", "resolute", "south", "wake", "west"}
_OPERATORS_IN_ENGLISH = [
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"(?<=\d),(?=\d{3}\b)", ""),
        (r"\bsquare\s+root\s+of\s+(\d+(?:\.\d+)?)", r"sqrt(\1)"),
        (r"(\d)\s*(?:%|percent)\s*of\b", r"\1 / 100 *"),
        (r"(?<=[\d)])\s*(?:×|·|\btimes\b|\bmultiplied\s+by\b|\bx\b)\s*(?=[\d(])|(?<=\d)x(?=\d)", " * "),
        (r"÷|\bdivided\s+by\b", " / "),
        (r"\bplus\b", " + "),
        (r"−|\bminus\b", " - "),
        (r"\^|\bto\s+the\s+power\s+of\b", " ** "),
        (r"(?<=\d)\s+squared\b", " ** 2"),
    )
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
    found += [(match.start(), _write(match)) for match in _FILE.finditer(rest)]
    found += [(match.start(), _ask(match["question"])) for match in _QUESTION.finditer(rest)]
    for pattern in (_URL, _FILE, _QUESTION):
        rest = pattern.sub(_blank, rest)
    found += [(at, Intent("date_time", {"timezone": zone})) for at, zone in _clocks(rest)]
    found += _sums(_DATE_OR_HOUR.sub(_blank, _ZONE.sub(_blank, rest)))
    intents: list[Intent] = []
    for _, intent in sorted(found, key=lambda item: item[0]):
        if intent not in intents:
            intents.append(intent)
    return tuple(intents[:MAX_INTENTS])


def _write(match: re.Match[str]) -> Intent:
    """Return the call that writes a file, with a line more if that is asked for."""
    content = "".join(_FILE_LINES if match["adds"] else _FILE_LINES[:1])
    return Intent("write_artifact", {"path": match["path"], "content": content})


def _ask(question: str) -> Intent:
    """Return the call that asks a question. `A or B?` has two options."""
    options = list(dict.fromkeys(part.strip() for part in question.rstrip("?").split(" or ")))
    return Intent("ask_user", {"question": question, **({"options": options} if len(options) > 1 else {})})


def supported(intents: Iterable[Intent], tools: Iterable[ToolSpec]) -> tuple[Intent, ...]:
    """Return the intents for which a tool with this name and these arguments is offered."""
    parameters = {spec.name: spec.parameters.get("properties", {}).keys() for spec in tools}
    return tuple(each for each in intents if each.tool in parameters and each.arguments.keys() <= parameters[each.tool])


@cache
def zone_of_city() -> dict[str, str]:
    """Return the time zones of cities by the name of the city in lower case."""
    zones = [zone for zone in sorted(available_timezones()) if re.match(f"{_AREAS}/", zone)]
    cities = {zone.rpartition("/")[2].replace("_", " ").lower(): zone for zone in zones}
    return {city: zone for city, zone in {**cities, **_MORE_CITIES}.items() if city not in _PLAIN_WORDS}


@cache
def _city() -> re.Pattern[str]:
    names = sorted(zone_of_city(), key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b", re.IGNORECASE)


def _clocks(text: str) -> list[tuple[int, str]]:
    """Return the positions and the zones of places whose time is asked for, or UTC if no place is named."""
    if not _CLOCK_WORD.search(text):
        return []
    places = [(match.start(), "UTC" if match[0] == "GMT" else match[0]) for match in _ZONE.finditer(text)]
    places += [(match.start(), zone_of_city()[match[0].lower()]) for match in _city().finditer(_ZONE.sub(_blank, text))]
    question = _CLOCK_QUESTION.search(text)
    return places or ([(question.start(), "UTC")] if question else [])


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
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return (
        isinstance(tree, ast.BinOp | ast.Call)
        and all(isinstance(node, _SUM_NODES) for node in ast.walk(tree))
        and all(isinstance(call.func, ast.Name) for call in calls)
    )


def _blank(match: re.Match[str]) -> str:
    """Return spaces of the same length, which keep the positions of the rest."""
    return " " * len(match[0])
