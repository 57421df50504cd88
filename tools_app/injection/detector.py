"""Detects text that tries to give orders to a model (prompt injection). Pure; linear in the length of the text.

Recognizes common patterns only: no finding proves nothing.
"""

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

SUSPICIOUS = 50  # lowest score that is acted on
MAX_CHARACTERS = 300_000
_EXCERPT = 200
_MOST_ENCODED = 20
_PIECE = 20_000


@dataclass(frozen=True)
class Finding:
    """A suspicious passage.

    rule: name of the rule.
    score: 1..100, if it is the only finding.
    excerpt: the passage.
    """

    rule: str
    score: int
    excerpt: str


@dataclass(frozen=True)
class _Rule:
    name: str
    score: int
    pattern: re.Pattern[str]


def _rule(name: str, score: int, *alternatives: str) -> _Rule:
    return _Rule(name, score, re.compile("|".join(alternatives)))


def _any(alternatives: str) -> str:
    """Return a pattern of these alternatives; `~` is a space."""
    return "(?:" + "|".join(word.replace("~", " ") for word in alternatives.split()) + ")"


# Linear time: each repetition is bounded, each alternative begins with literal words, and atomic groups prevent
# backtracking before a second gap. They match lower-case text in NFKC with single spaces and no invisible characters.
_SHORT, _FAR = r"[^.!?\n]{0,30}", r"[^.!?\n]{0,60}"
_ORDERS = _any("instruction prompt direction rule order guideline command message context anweisung instrucci consigne")
_MODELS = _any("ai llm language~model assistant chatbot agent")
_UNDO = _any("ignore disregard forget override bypass ignorez oublie ignoriere vergiss ignora olvida")
_EARLIER = _any(
    "previous prior above earlier preceding foregoing all any every your these those other system initial original "
    "vorherigen bisherigen alle précédentes toutes vos anteriores todas"
)
_INFORM = _any("tell telling inform informing mention mentioning reveal revealing notify notifying alert alerting")
_PEOPLE = _any("user human person owner operator")
_SEND = _any("send post forward upload email e-mail exfiltrate transmit append")
_SECRETS = _any(
    "passwords? api~?keys? api[-_]keys? tokens? credentials? secrets? cookies? private~keys? conversation chat~history "
    "personal~data"
)
_SHOW = _any("reveal print repeat output show leak disclose")
_PROMPTS = _any("system~prompt hidden~prompt initial~prompt your~prompt your~instructions")
_CALLS = _any(
    "tool_call tool_result tool_response tool_output tool-output function_call function_calls function_results"
)
_TEMPLATE = _any("im_start im_end system user assistant endoftext eot_id start_header_id end_header_id channel message")
_RULES = (
    _rule(
        "override",
        60,
        rf"\b{_UNDO}\b(?>[^.!?\n]{{0,20}}?\b{_EARLIER}\b){_SHORT}{_ORDERS}",
        rf"\b(?:do not follow|do not obey|don't follow|stop following|stop obeying)\b{_SHORT}{_ORDERS}",
    ),
    _rule(
        "new orders",
        40,
        r"\bnew (?:system )?(?:instructions|orders|rules|task)\b ?(?::|are\b|follow\b)",
        r"\b(?:your|the) (?:new|real|actual|true) (?:task|goal|objective|instructions|job) (?:is|are)\b",
        r"\bfrom now on,? you (?:are|will|must|should)\b",
        r"\byou are now (?:a|an|the|in|no longer|dan\b)",
        r"\bact as (?:if you|an unrestricted|a different)\b",
        r"\b(?:developer|god|jailbreak|dan) mode\b",
    ),
    _rule(
        "to the model",
        30,
        rf"\b(?:attention|note|message|instructions?|important)[ ,:]{{1,3}}(?:to|for) (?:the )?{_MODELS}s?\b",
        rf"\b(?:attention|dear|hey|hello)[ ,:]{{1,3}}{_MODELS}s?\b",
        rf"\bif you are an? {_MODELS}\b",
        r"\b(?:ai|llm) (?:agents?|assistants?|models?) (?:must|should|have to|are required)\b",
    ),
    _rule(
        "secrecy",
        40,
        rf"\b(?:do not|don't|never|without) {_INFORM}\b{_SHORT}\b{_PEOPLE}\b",
        r"\bkeep this (?:secret|hidden) from\b",
    ),
    _rule(
        "secrets",
        50,
        rf"\b{_SHOW}\b{_SHORT}\b{_PROMPTS}\b",
        rf"\b{_SEND}\b(?>{_FAR}?\b{_SECRETS}\b){_FAR}(?:\bto\b|https?://|@)",
    ),
    _rule(
        "orders to use tools",
        40,
        r"\b(?:call|use|invoke|run|execute) the [a-z0-9_-]{2,40} (?:tool|function)\b",
        r"\b(?:call|invoke|execute) (?:tool|function) [\"'`]?[a-z0-9_-]{2,40}",
    ),
    _rule(
        "chat template",
        60,
        rf"<\|{_TEMPLATE}\|>",
        r"\[/?inst\]",
        r"<</?sys>>",
        r"<(?:start|end)_of_turn>",
        r"</?(?:system|system_prompt|assistant|human|instructions)>",
        r"(?:^|\n) ?#{2,3} ?(?:system|instruction|assistant)s? ?:",
        r"(?:^|\n) ?(?:system|assistant) ?(?:message|prompt)? ?: ?(?:you|ignore|new|the user)\b",
    ),
    _rule(
        "tool call",
        50,
        rf"</?(?:{_CALLS}|invoke)\b[^>\n]{{0,80}}>",
        r"\{ ?\"(?:name|tool|function)\" ?: ?\"[^\"\n]{1,64}\" ?, ?\"(?:arguments|parameters|input|args)\" ?:",
        r"\"tool_calls\" ?: ?\[",
    ),
)
_IMAGE = re.compile(r"!\[[^\]\n]{0,200}\]\(\s{0,3}<?(https?://[^\s)>]{1,2000})")
_CARRIER = re.compile(r"[{<\[$%]|\b(?:data|secret|token|key|password|history|prompt|context|q|payload|exfil)=")
_ENCODED = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{40,4000}={0,2}")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
    "\U000e0000-\U000e0fff]"
)
_TAGS = re.compile("[\U000e0020-\U000e007e]+")
_LONE_SIGNS = re.compile("[\u200b\u200c\u200d\u2060-\u2064\ufeff]{4,}")
_OVERRIDES = re.compile("[\u202d\u202e\u2066-\u2068]")
# The flags of England, Scotland and Wales consist of tag characters after a black flag.
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{1,7}\U000e007f")
_SPACES = re.compile(r"[^\S\n]+")


def inspect(text: str) -> tuple[Finding, ...]:
    """Return the suspicious passages of a text, highest score first, one per rule. Reads the first MAX_CHARACTERS."""
    text = text[:MAX_CHARACTERS]
    found: dict[str, Finding] = {}
    for finding in (*_hidden(text), *_orders_in(text), *_images(text), *_encoded(text)):
        if finding.rule not in found:
            found[finding.rule] = finding
    return tuple(sorted(found.values(), key=lambda finding: -finding.score))


def score_of(findings: tuple[Finding, ...]) -> int:
    """Return the probability of an attack, 0..100: the highest score, and half of each further one."""
    if not findings:
        return 0
    first, *others = findings
    return min(100, first.score + sum(finding.score for finding in others) // 2)


def _orders_in(text: str) -> Iterator[Finding]:
    plain = _plain(text)
    for rule in _RULES:
        if match := rule.pattern.search(plain):
            yield Finding(rule.name, rule.score, _around(plain, match.start(), match.end()))


def _hidden(text: str) -> Iterator[Finding]:
    if text.isascii():
        return
    if tags := "".join(match.group() for match in _TAGS.finditer(_FLAG.sub("", text))):
        decoded = "".join(chr(ord(sign) - 0xE0000) for sign in tags)
        yield Finding("invisible text", 90, decoded[:_EXCERPT])
        yield from _orders_in(decoded)
    if match := _LONE_SIGNS.search(text):
        yield Finding("zero-width text", 50, f"{len(match.group())} zero-width characters in a row")
    if match := _OVERRIDES.search(text):
        yield Finding("turned text", 20, _around(text, match.start(), match.end()))


def _images(text: str) -> Iterator[Finding]:
    for match in _IMAGE.finditer(text):
        try:
            query = urlsplit(match.group(1)).query
        except ValueError:
            continue
        if query and _CARRIER.search(query.lower()):
            yield Finding("image that carries data", 60, match.group()[:_EXCERPT])
            return


def _encoded(text: str) -> Iterator[Finding]:
    """Find orders in base64, which models can read."""
    for number, match in enumerate(_ENCODED.finditer(text)):
        if number == _MOST_ENCODED:
            return
        try:
            packed = match.group().rstrip("=").translate({45: 43, 95: 47})
            decoded = base64.b64decode(packed + "=" * (-len(packed) % 4)).decode("ascii")
        except (binascii.Error, ValueError):
            continue
        for finding in _orders_in(decoded):
            yield Finding("encoded orders", 80, finding.excerpt)
            return


def _plain(text: str) -> str:
    """Return the text as a model reads it: NFKC, no invisible characters, lower case, single spaces."""
    if not text.isascii():
        text = _INVISIBLE.sub("", _in_one_width(text))
    return _SPACES.sub(" ", text.replace("\r", "\n").lower())


def _in_one_width(text: str) -> str:
    """Return the text in NFKC, piece by piece: one character may become eighteen."""
    pieces: list[str] = []
    length = 0
    for start in range(0, len(text), _PIECE):
        pieces.append(unicodedata.normalize("NFKC", text[start : start + _PIECE]))
        length += len(pieces[-1])
        if length >= MAX_CHARACTERS:
            break
    return "".join(pieces)


def _around(text: str, start: int, end: int) -> str:
    begin = max(0, start - 40)
    return " ".join(text[begin : max(end, begin + _EXCERPT)][:_EXCERPT].split())
