"""The text of a mail by author: what the sender has written, and what was quoted or forwarded. Pure.

Mail programs separate both for people alone, each in its own way. In doubt, a text is somebody else's.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

_SIGNATURE = re.compile(r"^-- ?$", re.MULTILINE)
_QUOTE = re.compile(r"[ \t]*> ?")
_RULE = re.compile(r"[-*_ \t]*")
# Lines below which programs put a whole earlier mail without quote signs: Outlook, Gmail, Thunderbird; then Apple.
_BEGIN = re.compile(r"(?:-{3,} ?[^\n-]{3,60} ?-{3,}|_{20,})[ \t]*")
_BEGIN_OF_APPLE = re.compile(
    r"\W*(?:begin forwarded message|anfang der weitergeleiteten nachricht|début du message (?:réexpédié|transféré)|"
    r"inicio del mensaje reenviado|inizio messaggio inoltrato|início da mensagem (?:re)?encaminhada|"
    r"begin doorgestuurd bericht) ?:\W*",
    re.IGNORECASE,
)
# The header of an earlier mail, as Outlook repeats it: the author's line and at least two more.
_HEADER = re.compile(r"[ \t*]*(?P<name>[^\W\d_][\w -]{0,24}?)[ \t*]*[:：](?P<value>.*)")
_ADDRESS = re.compile(r"[^\s<>@]@[\w-]+\.\w")
_FROM = """
    from von de da van od från fra lähettäjä feladó kimden от від 差出人 发件人 寄件者 보낸
"""
_LEAST_HEADERS = 3
_TIME_OR_ADDRESS = re.compile(r"[\d@]")
_FORWARD_SUBJECT = re.compile(r"(?:fwd?|wg|tr|rv|enc|i|doorst|vb|vs|pd|转发|轉寄)\s*[:：]", re.IGNORECASE)
_LONGEST_LEAD = 3  # lines such as "On … wrote:", which programs wrap


@dataclass(frozen=True)
class Quote:
    """A quote within a mail, without its signs. lead: the line above that introduces it, perhaps empty."""

    lead: str
    text: str


@dataclass(frozen=True)
class WrittenText:
    """The text of a mail by author.

    own: of the sender. Where the sender has answered several quotes, `[quote 1]` stands for the first one.
    quotes: those above the sender's own text or between parts of it.
    below: the mail that is answered or forwarded, from the end of the sender's own text on.
    """

    own: str
    quotes: tuple[Quote, ...] = ()
    below: str = ""


def is_forward(subject: str) -> bool:
    """Return whether a subject is that of a forwarded mail, and so not the sender's."""
    return _FORWARD_SUBJECT.match(subject) is not None


def part(text: str) -> WrittenText:
    """Return the text of a mail by author."""
    lines = text.replace("\r\n", "\n").rstrip().split("\n")
    end = next((at for at in range(len(lines)) if _begins_mail(lines, at)), len(lines))
    while end and (_QUOTE.match(lines[end - 1]) or not lines[end - 1].strip()):
        end -= 1
    if end < len(lines) and not _is_request(lines[:end]):
        end -= _length_of_lead(lines[:end])
    own, quotes = _without_quotes(lines[:end])
    if found := _SIGNATURE.search(own):
        own = own[: found.start()]
    below = "\n".join(lines[end:]).strip()
    return WrittenText(own.strip() or ("" if quotes or below else text.strip()), quotes, below)


def _begins_mail(lines: Sequence[str], at: int) -> bool:
    """Return whether an earlier mail begins at this line."""
    if _BEGIN.fullmatch(lines[at]) or _BEGIN_OF_APPLE.fullmatch(lines[at]):
        return True
    first = _HEADER.fullmatch(lines[at])
    if first is None or not (first["name"].casefold() in _FROM.split() or _ADDRESS.search(first["value"])):
        return False
    block = [line for line in lines[at : at + 2 * _LEAST_HEADERS] if line.strip()][:_LEAST_HEADERS]
    return len(block) == _LEAST_HEADERS and all(map(_HEADER.fullmatch, block))


def _without_quotes(lines: Sequence[str]) -> tuple[str, tuple[Quote, ...]]:
    """Return the lines that are no quotes, as a text, and the quotes."""
    groups = [(is_quote, list(group)) for is_quote, group in groupby(lines, lambda line: bool(_QUOTE.match(line)))]
    own: list[str] = []
    quotes: list[Quote] = []
    for at, (is_quote, group) in enumerate(groups):
        if is_quote:
            lead = _length_of_lead(groups[at - 1][1]) if at else 0
            text = "\n".join(_QUOTE.sub("", line, count=1) for line in group)
            quotes.append(Quote("\n".join(own[len(own) - lead :]).strip(), text))
            own[len(own) - lead :] = [f"[quote {len(quotes)}]"]
        else:
            own += group
    is_answer_below = len(quotes) == 1 and own[0] == "[quote 1]"
    return "\n".join(own[is_answer_below:]), tuple(quotes)


def _length_of_lead(lines: Sequence[str]) -> int:
    """Return the number of lines at the end that introduce what follows: rules, or a wrapped "On … wrote:"."""
    length = 0
    while length < len(lines) and _RULE.fullmatch(lines[-length - 1]):
        length += 1
    end = len(lines) - length
    if not end or not lines[end - 1].rstrip().endswith(":"):
        return length
    paragraph = 1
    while paragraph < min(end, _LONGEST_LEAD + 1) and lines[end - paragraph - 1].strip():
        paragraph += 1
    return length + (paragraph if paragraph <= _LONGEST_LEAD else 1)


def _is_request(lines: Sequence[str]) -> bool:
    """Return whether the whole text is one line about what follows, such as "Answer this:". It names no time."""
    written = [line for line in lines if line.strip()]
    return len(written) == 1 and not _TIME_OR_ADDRESS.search(written[0])
