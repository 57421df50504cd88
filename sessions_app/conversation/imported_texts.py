"""Origins of the messages that a new session takes from elsewhere: from a client, or from another session.

Clients send the answers of agents back as messages of the assistant. One that was given to the same user is recognised
by its digest and has the origins of its session. Any other text of the assistant may be anybody's.
"""

from collections.abc import Collection, Sequence
from itertools import groupby
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Min

from agents_app.types import Message
from sessions_app.conversation.session_texts import BY_ROLE, foreign_channel
from sessions_app.models import Turn
from tools_app.policy import readings
from tools_app.types.authors import Author

UNKNOWN = "import:answer"
_MOST_SESSIONS, _MOST_TURNS = 50, 500  # that are looked at for the answers of one conversation


def set_origins(owner: User | None, messages: Sequence[Message | Turn], turns: Sequence[Turn]) -> None:
    """Set the origins of unsaved turns.

    owner: of the new session.
    messages: those that the turns take over.
    """
    sent, copied = list[Turn](), list[tuple[Turn, Turn]]()
    for message, turn in zip(messages, turns, strict=True):
        if isinstance(message, Turn):
            copied.append((message, turn))
        else:
            sent.append(turn)
    _set_of_client(owner, sent)
    for session_id, pairs in groupby(copied, lambda pair: pair[0].session_id):
        _set_of_session(session_id, list(pairs))


def _set_of_client(owner: User | None, turns: Sequence[Turn]) -> None:
    for turn in turns:
        if turn.role in ("assistant", "tool"):
            turn.origins = UNKNOWN if turn.role == "assistant" else BY_ROLE["tool"]
    groups = [list(group) for is_answer, group in groupby(turns, _is_answer) if is_answer]
    wholes = [Turn.digest_of("".join(turn.content for turn in group)) for group in groups]
    singles = {Turn.digest_of(turn.content) for group in groups for turn in group}
    known = _known(owner, {*wholes, *singles} - {""}) | {"": ""}
    for group, whole in zip(groups, wholes, strict=True):
        if whole in known:  # an answer of several texts
            group[-1].body_digest = whole
        for turn in group:
            single = Turn.digest_of(turn.content)
            turn.origins = known.get(whole, known.get(single, UNKNOWN))
            if whole not in known and single in known:
                turn.body_digest = single


def _is_answer(turn: Turn) -> bool:
    """Return whether an agent here may have written the turn: it sends no calls to clients."""
    return turn.role == "assistant" and not turn.tool_calls


def _known(owner: User | None, digests: Collection[str]) -> dict[str, str]:
    """Return the origins of the answers that were given to a user, by digest.

    Of answers with the same text, one without origins decides: then nobody else has dictated it.
    """
    if owner is None or not digests:
        return {}
    rows = Turn.objects.filter(session__owner=owner, role="assistant", body_digest__in=digests).exclude(body_digest="")
    taken_over = rows.exclude(origins=None).order_by().values_list("body_digest")
    found = dict(taken_over.annotate(Min("origins")))  # the empty ones first
    left = [digest for digest in digests if found.get(digest) != ""]
    sessions: dict[str, UUID] = {}
    given = rows.filter(origins=None, body_digest__in=left).order_by("-id").values_list("body_digest", "session_id")
    for digest, session_id in given[:_MOST_TURNS] if left else ():
        sessions.setdefault(digest, session_id)
    read = list(dict.fromkeys(sessions.values()))[:_MOST_SESSIONS]
    authors = {session_id: Author(readings.list_origins(session_id)) for session_id in read}
    return found | {digest: authors[at].stored or "" for digest, at in sessions.items() if at in authors}


def _set_of_session(session_id: UUID, pairs: Sequence[tuple[Turn, Turn]]) -> None:
    """Set the origins of copies. Texts of agents have those of everything that their session has read."""
    agent, channel = Author(readings.list_origins(session_id)), foreign_channel(session_id)
    for source, turn in pairs:
        if source.role in ("assistant", "tool"):
            turn.origins, turn.body_digest = agent.stored, source.body_digest
        elif channel and source.role == "user":
            turn.origins = Author((f"channel:{channel}", *([BY_ROLE["user"]] if source.attached else ()))).stored
        else:
            turn.origins = source.origins
