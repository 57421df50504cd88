"""The text of a user turn that several messages of a channel make: written anew from those that count."""

from audit_app import services as audit
from sessions_app import events, hot_queries
from sessions_app.attachments import model_text
from sessions_app.conversation import message_index
from sessions_app.conversation.sessions import event_about
from sessions_app.models import Attachment, InboundMessage, Turn

_NO_TEXT = "(no text)"


def write(turn: Turn) -> None:
    """Write the text of a turn and emit the event, in the caller's transaction, which has locked the run's row."""
    rows = InboundMessage.objects.filter(turn=turn, reason="").exclude(text="").order_by("id")
    rows = rows.exclude(metadata__has_key="forwardedFrom")  # it is in the context: the sender has not written it
    names = Attachment.objects.filter(turn=turn).order_by("id").values_list("kind", "filename")
    text = "\n\n".join(rows.values_list("text", flat=True)) or model_text.file_list(names) or _NO_TEXT
    Turn.objects.filter(pk=turn.pk).update(content=text, html="")
    message_index.put_again(turn.pk)
    [session] = hot_queries.GET_SESSION.fetch(session_id=turn.session_id)
    changed: events.MessageChanged = {"turn_id": str(turn.pk)}
    audit.emit([event_about(session, events.MESSAGE_CHANGED, changed, run_id=turn.run_id)])
