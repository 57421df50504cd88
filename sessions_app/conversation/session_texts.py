"""Authors of the messages of a session: implements the port by which the policy of tool calls reads them."""

from datetime import datetime
from uuid import UUID

from agents_app import selectors as agents
from sessions_app import hot_queries
from sessions_app.identity.actor_names import is_named
from sessions_app.models import IS_LINKED, InboundMessage, Pairing, SenderLink, Turn
from tools_app.policy.readings import SessionTexts
from tools_app.types.authors import Author

# Origins of turns that no user here has written, by role: with files, results of a client's own tools, and what was
# quoted, forwarded, or written in a group before.
BY_ROLE = {"user": "file:attachment", "tool": "import:tool results", "others": "others:chat"}


class StoredSessionTexts:
    """Implements `tools_app.policy.readings.SessionReader` on turns and their senders."""

    def origins(self, session_id: UUID) -> tuple[str, ...]:
        found = []
        if channel := foreign_channel(session_id):
            found.append(f"channel:{channel}")
        for role, origins in hot_queries.LIST_FOREIGN_TEXTS.rows(session_id=session_id):
            found += [BY_ROLE[role]] if origins is None else Author.of(origins).origins or ()
        return tuple(dict.fromkeys(found))

    def texts(self, session_id: UUID) -> SessionTexts:
        rows = hot_queries.LIST_TEXTS.rows(session_id=session_id)
        attached = [text for _, text, _, _, _ in rows if text]  # the turns of others have nothing else
        written = [row for row in rows if row[-1] is None]  # the other ones are texts of agents
        if foreign_channel(session_id):
            own = [content for content, _, ids, _, _ in written if ids is None]
            return SessionTexts(others=(*own, *attached))
        # A user who has edited a message does not name any more what it named. What was read stays read: files and
        # memories of the other branches are still there.
        active = [(content, ids) for content, _, ids, is_off_path, _ in written if not is_off_path]
        # The policy reads answers itself: those that are options are texts of the model.
        own_texts = tuple(content for content, ids in active if ids is None)
        answered = tuple(execution_id for _, ids in active for execution_id in ids or ())
        return SessionTexts(own_texts, tuple(attached), answered)

    def answered_at(self, session_id: UUID, run_id: UUID) -> datetime | None:
        ordinal = agents.find_root_ordinal(run_id)
        if ordinal is None:
            return None
        asked = Turn.objects.filter(session_id=session_id, role="user", origins=None, ordinal__lte=ordinal)
        return asked.order_by("-ordinal", "-part").values_list("created_at", flat=True).first()


def foreign_channel(session_id: UUID) -> str:
    """Return the channel of the session if somebody without a user here has written in it, else empty."""
    session = hot_queries.GET_SESSION_OWNER.first(session_id=session_id)
    if session is None or (session.owner and is_named(session.owner, session.sender_id)):
        return ""
    if session.owner:  # an API key writes for others
        return session.channel
    senders = set(InboundMessage.objects.filter(turn__session_id=session_id).values_list("account_id", "sender_id"))
    return "" if senders and senders <= _known({sender for _, sender in senders}) else session.channel


def _known(sender_ids: set[str]) -> set[tuple[UUID, str]]:
    """Return those senders of accounts who are users here: paired as one, or linked."""
    of_users = {"user__is_active": True, "sender_id__in": sender_ids}
    paired = Pairing.objects.filter(**of_users).values_list("account_id", "sender_id")
    linked = SenderLink.objects.filter(IS_LINKED, **of_users).values_list("account_id", "sender_id")
    return {*paired, *linked}
