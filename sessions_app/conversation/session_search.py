"""Search in the titles and messages of a user's sessions.

The messages of the user's newest sessions are read by the index of their sessions and compared word by word: a message
costs nothing to store for this, and a search reads the text of one user at most.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q

from sessions_app import selectors
from sessions_app.conversation import snippets
from sessions_app.models import Session, Turn

SESSIONS_SEARCHED = 500
_MOST_MATCHES = 2_000


@dataclass(frozen=True)
class Match:
    """A session that contains all words of a query. snippet: of the newest message with them; empty for the title.

    run_id: of that message.
    """

    session: Session
    snippet: tuple[snippets.Piece, ...] = ()
    run_id: UUID | None = None

    @property
    def excerpt(self) -> str:
        """Return the snippet as text."""
        return "".join(piece.text for piece in self.snippet)


def search(owner: User, query: str, *, limit: int) -> tuple[Match, ...]:
    """Return the user's sessions with all words of the query in their title or in one message, last active first.

    Only the newest SESSIONS_SEARCHED sessions are searched. Three queries.
    """
    words = snippets.words_of(query)
    sessions = selectors.list_sessions(owner, limit=SESSIONS_SEARCHED)
    found = _newest_matches([session.pk for session in sessions], words)
    matches = []
    for session in sessions:
        turn = found.get(session.pk)
        if turn is not None:
            matches.append(Match(session, snippets.around(turn.content, words), turn.run_id))
        elif all(word.casefold() in session.title.casefold() for word in words):
            matches.append(Match(session))
    return tuple(matches[:limit])


def _newest_matches(session_ids: Sequence[UUID], words: Sequence[str]) -> dict[UUID, Turn]:
    """Return the newest message of each session that contains all words."""
    if not session_ids or not words:
        return {}
    texts = Turn.objects.filter(selectors.ON_PATH, Q(role="user") | Q(role="assistant"), session_id__in=session_ids)
    matching = texts.filter(reduce(and_, map(_contains, words))).order_by().values_list("session_id", "ordinal", "pk")
    newest: dict[UUID, tuple[int, UUID]] = {}
    for session_id, ordinal, turn_id in matching[:_MOST_MATCHES]:
        newest[session_id] = max(newest.get(session_id, (-1, turn_id)), (ordinal, turn_id))
    turns = Turn.objects.filter(pk__in=[turn_id for _, turn_id in newest.values()])
    return {turn.session_id: turn for turn in turns.only("session_id", "run_id", "content")}


def _contains(word: str) -> Q:
    """Return the condition that a message contains the word, in any case. SQLite ignores the case of ASCII alone."""
    spellings = {word} if word.isascii() else {word, word.lower(), word.upper(), word.capitalize()}
    return reduce(or_, (Q(content__icontains=spelling) for spelling in sorted(spellings)))
