"""Source of a memory, from what the system knows and never from what a model claims. Pure."""

from collections.abc import Iterable, Sequence

from audit_app.full_text.query import like
from audit_app.full_text.words import words

PERSON, TOOL, AGENT = "person", "tool", "agent"
_MOST_WORDS, _LEAST_SHARE = 24, 2 / 3


def source_of(text: str, own_texts: Iterable[str], origins: Sequence[str]) -> str:
    """Return person | tool | agent.

    own_texts: messages of the session that the user has written. A text of which two thirds of the words stand in one
    of them, or words that begin alike, was said by the person.
    origins: origins of what the session has read from outside.
    """
    terms = like(text).terms[:_MOST_WORDS]
    for own in own_texts:
        written = set(words(own))
        having = sum(any(_matches(name, term.words[0], term.is_prefix) for name in written) for term in terms)
        if terms and having >= _LEAST_SHARE * len(terms):
            return PERSON
    return TOOL if origins else AGENT


def _matches(name: str, wanted: str, is_prefix: bool) -> bool:
    return name.startswith(wanted) if is_prefix else name == wanted
