"""Transcripts of voice notes: found for a run, and stored once with its message, whose words they become."""

from collections.abc import Sequence
from uuid import UUID

from agents_app.types.message_parts import Transcript, VoiceNote, VoiceNotes
from audit_app.event_types import NewEvent
from sessions_app import events
from sessions_app.attachments import file_parts, model_text
from sessions_app.attachments import records as attachments
from sessions_app.conversation import delivery_port, message_index
from sessions_app.conversation.sessions import event_about, title_of
from sessions_app.models import Attachment, InboundMessage, Session, Turn

_OFF, _YES = ("", "off"), "yes"


def find(run_id: UUID) -> VoiceNotes:
    """Return the voice notes of a run's messages. Reads only."""
    turns = Turn.objects.filter(run_id=run_id, role="user", tool_call_ids__isnull=True).order_by("part")
    contents = dict(turns.values_list("pk", "content"))
    files = attachments.list_of(list(contents))
    rows = [row for turn_id in contents for row in files.get(turn_id, ())]
    pending = tuple(note for row in rows if not row.transcription and (note := _note(row)))
    failures = [row.omitted_because for row in rows if row.transcription == Attachment.FAILED]
    has_more = any(_has_more(content, files.get(turn_id, ())) for turn_id, content in contents.items())
    return VoiceNotes(pending, "" if has_more or not failures else failures[-1])


def _is_forwarded(turn: Turn) -> bool:
    """Return whether the sender has forwarded the message. One without a context in front of it was not."""
    rows = InboundMessage.objects.filter(turn=turn, metadata__has_key="forwardedFrom")
    return turn.part > 0 and rows.exists()


def store(run_id: UUID, transcript: Transcript) -> Sequence[NewEvent]:
    """Store a transcript, or its failure, as `conversation_port` demands.

    The words of a voice note are those of its message. Of other audio beside a text, and of a voice note that was
    forwarded, they are the text of the file.
    """
    row = Attachment.objects.select_related("turn__session__agent").get(pk=UUID(transcript.reference))
    turn, session = attachments.turn_of(row), attachments.turn_of(row).session
    names = model_text.names_of(attachments.list_of([turn.pk])[turn.pk])
    content = turn.content
    if transcript.failure:
        attachments.store_transcription(row, Attachment.FAILED, failure=transcript.failure)
    elif (row.kind == "voice" or not model_text.own_words(content, names)) and not _is_forwarded(turn):
        attachments.store_transcription(row, Attachment.IN_MESSAGE, text=transcript.text)
        content = model_text.with_words(content, names, transcript.text)
    else:
        attachments.store_transcription(row, Attachment.IN_FILE, text=transcript.text)
    files = attachments.list_of([turn.pk])[turn.pk]
    described = model_text.describe(attachments.described(file) for file in files)
    Turn.objects.filter(pk=turn.pk).update(content=content, attached=described, html="")
    message_index.put_again(turn.pk)
    if transcript.failure:
        _send_notice(session, run_id, row)
        reported = {"id": str(row.pk), "name": row.filename or row.kind, "reason": row.omitted_because}
        return [event_about(session, events.ATTACHMENTS_OMITTED, {"attachments": [reported]}, run_id=run_id)]
    payload: events.MessageTranscribed = {
        "turn_id": str(turn.pk),
        "attachment_id": str(row.pk),
        "text_length": len(transcript.text),
    }
    stored = event_about(session, events.MESSAGE_TRANSCRIBED, payload, run_id=run_id)
    return [stored, *_renamed(session, title_of(turn.content), title_of(content))]


def _note(row: Attachment) -> VoiceNote | None:
    """Return a file as a voice note, None if it is none or its account does not have it transcribed."""
    if row.status != "stored" or not row.mime_type.startswith("audio/"):
        return None
    [part] = file_parts.parts_of([row])
    if row.account is None:
        return VoiceNote(part)
    chosen = str(row.account.config.get("transcription") or "")
    if chosen in _OFF:
        return None
    model = str(row.account.config.get("transcription_model") or "")
    return VoiceNote(part, "" if chosen == _YES else chosen, model, is_chosen=True)


def _has_more(content: str, files: Sequence[Attachment]) -> bool:
    """Return whether a message contains more than voice notes that could not be transcribed."""
    if content and content != model_text.file_list(model_text.names_of(files)):
        return True
    return any(row.status == "stored" and row.transcription != Attachment.FAILED for row in files)


def _send_notice(session: Session, run_id: UUID, row: Attachment) -> None:
    """Send the sender the failure, unless the run ends with it."""
    if not find(run_id).failure:
        text = f"I could not understand the voice note: {row.omitted_because}. Please write instead."
        delivery_port.get().plan_run_notice(session, run_id, f"voice:{row.pk}", text)


def _renamed(session: Session, before: str, after: str) -> Sequence[NewEvent]:
    """Replace the title of the session if it is that of its message without words."""
    if before == after or not Session.objects.filter(pk=session.pk, title=before).update(title=after):
        return ()
    message_index.put_title(session, after)
    return [event_about(session, events.SESSION_RENAMED, {"title": after})]
