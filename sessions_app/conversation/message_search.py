"""Search in the messages and titles of a user's sessions: ranked by relevance and age, with excerpts.

The newest matches are read in windows. Each window is ranked as a whole: by the words (BM25), and what is new counts up
to twice as much as what is old. A cursor continues within a window and then with the next older one, so every match is
reached and a search of a frequent word costs no more than that of a rare one.

Of the branches of a session only the active one is searched: its turns are those that the page shows and runs read.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models.functions import Substr
from django.utils import timezone

from audit_app.full_text import bm25, excerpts, index, query
from audit_app.full_text.excerpts import Piece
from audit_app.full_text.query import Query
from audit_app.kernel.errors import InvalidInput
from sessions_app.conversation import message_index
from sessions_app.identity import scopes
from sessions_app.models import Session, Turn

WINDOW = 200
MOST_SESSIONS = 500
_RANKED_CHARACTERS = 2_000  # of the beginning of a message
_HALF_DAYS = 30.0  # after which half of the bonus of a new message is left
_MOST_WINDOWS = 10  # of one request
_DAY = 86_400.0
_OLDEST, _NEWEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class FoundMessage:
    """A message that matches. snippet: the part around the words."""

    session_id: UUID
    session_key: str
    title: str
    turn_id: UUID
    run_id: UUID | None
    role: str
    created_at: datetime
    snippet: tuple[Piece, ...]

    @property
    def excerpt(self) -> str:
        return excerpts.plain(self.snippet)


@dataclass(frozen=True)
class FoundMessages:
    """One page of a search. cursor: of the next one; empty at the end."""

    messages: tuple[FoundMessage, ...]
    cursor: str


@dataclass(frozen=True)
class FoundSession:
    """A session that matches.

    snippet: snippet of its best message, empty if only the title matches.
    run_id: id of that one.
    """

    session: Session
    snippet: tuple[Piece, ...] = ()
    run_id: UUID | None = None

    @property
    def excerpt(self) -> str:
        return excerpts.plain(self.snippet)


def search_messages(owner: User, text: str, *, limit: int, cursor: str = "") -> FoundMessages:
    """Return the messages of the user's sessions that match a typed query, the best of the newest first.

    Raises InvalidInput (invalid_cursor).
    """
    wanted = query.parse(text)
    found: list[FoundMessage] = []
    top, skipped = _read_cursor(cursor)
    for _ in range(_MOST_WINDOWS):
        window = index.find(message_index.scope_of(owner.pk), wanted, before=top, limit=WINDOW)
        if not window:
            return FoundMessages(tuple(found), "")
        top = window[0].place + 1
        ranked = _rank(owner, [match.object_id for match in window], wanted)
        shown = ranked[skipped : skipped + limit - len(found)]
        found += _read(shown, wanted)
        if skipped + len(shown) < len(ranked):
            return FoundMessages(tuple(found), f"{top}.{skipped + len(shown)}")
        top, skipped = window[-1].place, 0
        if len(window) < WINDOW:
            return FoundMessages(tuple(found), "")
        if len(found) >= limit:
            break
    return FoundMessages(tuple(found), f"{top}.0")


def search_sessions(owner: User, text: str, *, limit: int) -> tuple[FoundSession, ...]:
    """Return the user's sessions with a message or a title that matches a typed query.

    Titles come first, the newest before older ones; then the sessions in the order of their best messages.
    """
    wanted = query.parse(text)
    titles = index.find(message_index.titles_of(owner.pk), wanted, limit=limit)
    best: dict[UUID, FoundMessage | None] = dict.fromkeys(match.object_id for match in titles)
    for message in _all_messages(owner, text, limit):
        if message.session_id not in best and len(best) >= limit:
            break
        best[message.session_id] = best.get(message.session_id) or message
    rows = Session.objects.select_related("agent").in_bulk(_own_among(owner, best))
    return tuple(
        FoundSession(rows[key], message.snippet, message.run_id) if message else FoundSession(rows[key])
        for key, message in best.items()
        if key in rows
    )


def _all_messages(owner: User, text: str, limit: int) -> Iterator[FoundMessage]:
    cursor = ""
    for _ in range(_MOST_WINDOWS):
        page = search_messages(owner, text, limit=limit, cursor=cursor)
        yield from page.messages
        if not (cursor := page.cursor):
            return


def _rank(owner: User, turn_ids: Sequence[UUID], wanted: Query) -> list[UUID]:
    """Return the ids of those turns that the user may see and that are on the active branch, the best first."""
    turns = Turn.objects.filter(pk__in=turn_ids, is_off_path=False).order_by("-pk")
    beginning = Substr("content", 1, _RANKED_CHARACTERS)
    found = list(turns.annotate(beginning=beginning).values_list("pk", "beginning", "created_at", "session_id"))
    own = _own_among(owner, {row[-1] for row in found})
    rows = [row for row in found if row[-1] in own]
    scores = bm25.scores([row[1] for row in rows], wanted)
    now = timezone.now()

    def worth(at: int) -> float:
        days = max(0.0, (now - rows[at][2]).total_seconds() / _DAY)
        return scores[at] * (1 + math.pow(0.5, days / _HALF_DAYS))

    return [rows[at][0] for at in sorted(range(len(rows)), key=worth, reverse=True)]


def _own_among(owner: User, session_ids: Collection[UUID]) -> set[UUID]:
    """Return the ids of those sessions that the user owns, without those that the scopes of the user's key leave out.

    The owner is compared here: as a condition of the query it makes a planner read all sessions of the user.
    """
    rows = Session.objects.filter(pk__in=session_ids, deleted_at=None).values_list("pk", "owner_id", "agent__agent_id")
    agents = scopes.agents_of(owner)
    return {pk for pk, owner_id, agent in rows if owner_id == owner.pk and (agents is None or agent in agents)}


def _read(turn_ids: Sequence[UUID], wanted: Query) -> Iterator[FoundMessage]:
    columns = ("session_id", "session__key", "session__title", "pk", "run_id", "role", "created_at", "content")
    rows = {row[3]: row for row in Turn.objects.filter(pk__in=turn_ids).order_by().values_list(*columns)}
    for row in filter(None, map(rows.get, turn_ids)):
        session_id, key, title, turn_id, run_id, role, created_at, content = row
        snippet = excerpts.around(content, wanted)
        yield FoundMessage(session_id, key, title, turn_id, run_id, role, created_at, snippet)


def _read_cursor(cursor: str) -> tuple[int | None, int]:
    if not cursor:
        return None, 0
    top, _, skipped = cursor.partition(".")
    try:
        place, offset = int(top), int(skipped)
    except ValueError:
        place, offset = _OLDEST - 1, 0
    if not (_OLDEST <= place <= _NEWEST and 0 <= offset <= WINDOW):
        raise InvalidInput(
            "The cursor does not belong to this search. Start again without a cursor.", code="invalid_cursor"
        )
    return place, offset
