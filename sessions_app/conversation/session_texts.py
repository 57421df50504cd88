"""Authors of the messages of a session: implements the port by which the policy of tool calls reads them."""

from uuid import UUID

from django.db.models import Q

from sessions_app.models import InboundMessage, Pairing, Session, Turn
from tools_app.policy.readings import SessionTexts

_NEWEST_TURNS = 200


class StoredSessionTexts:
    """Implements `tools_app.policy.readings.SessionReader` on turns and their senders."""

    def origins(self, session_id: UUID) -> tuple[str, ...]:
        found = []
        if channel := _foreign_channel(session_id):
            found.append(f"channel:{channel}")
        turns = Turn.objects.filter(session_id=session_id).order_by()
        if turns.filter(~Q(attached=""), role="user").exists():
            found.append("file:attachment")
        if turns.filter(role="tool", run=None).exists():
            found.append("import:tool results")
        return tuple(found)

    def texts(self, session_id: UUID) -> SessionTexts:
        turns = Turn.objects.filter(session_id=session_id, role="user").order_by("-ordinal", "-part")
        rows = list(turns.values_list("content", "attached", "tool_call_ids")[:_NEWEST_TURNS])
        attached = [text for _, text, _ in rows if text]
        own = tuple(content for content, _, ids in rows if ids is None)
        if _foreign_channel(session_id):
            return SessionTexts(others=(*own, *attached))
        # The policy reads answers itself: those that are options are texts of the model.
        answered = tuple(execution_id for _, _, ids in rows for execution_id in ids or ())
        return SessionTexts(own, tuple(attached), answered)


def _foreign_channel(session_id: UUID) -> str:
    """Return the channel of the session if somebody without a user here has written in it, else empty."""
    session = Session.objects.filter(pk=session_id).only("channel", "owner_id").first()
    if session is None or session.owner_id is not None:
        return ""
    senders = set(InboundMessage.objects.filter(turn__session_id=session_id).values_list("account_id", "sender_id"))
    known = Pairing.objects.filter(user__is_active=True, sender_id__in=[sender for _, sender in senders])
    is_known = bool(senders) and senders <= set(known.values_list("account_id", "sender_id"))
    return "" if is_known else session.channel
