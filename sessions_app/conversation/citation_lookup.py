"""Lookup of the sources that a run's texts cite: its own tool results, earlier ones of the session, attached files."""

from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from operator import or_
from uuid import UUID

from django.db.models import Q

from agents_app.types import RunTranscript
from sessions_app.conversation import citations
from sessions_app.conversation.citations import Citation
from sessions_app.models import Attachment, Turn
from tools_app.executions import result_sources
from tools_app.executions.result_sources import MAX_QUOTE, Source
from tools_app.types import without_receipt

_MOST_LOOKED_UP = 50


def cite(transcript: RunTranscript, texts: Sequence[str]) -> list[tuple[Citation, ...]]:
    """Return the citations in each of the run's texts.

    Makes at most two queries, and only if a text cites a source that is not in the run's own tool results.
    """
    wanted = citations.mentioned(texts)
    if not wanted:
        return [()] * len(texts)
    known = _by_id(source for one in transcript.executions for source in result_sources.read(one.output))
    missing = [source_id for source_id in wanted if source_id not in known][:_MOST_LOOKED_UP]
    if missing:
        known |= _earlier(transcript.run.conversation_id, missing)
    return citations.resolve(texts, known)


def _earlier(session_id: UUID, wanted: Collection[UUID]) -> dict[UUID, Source]:
    """Return the sources that the model may know from the session's history."""
    files = Attachment.objects.filter(pk__in=wanted, turn__session_id=session_id, status="stored")
    found = _by_id(
        Source(file.pk, f"attachment:{file.pk}", file.filename or file.kind, file.text[:MAX_QUOTE], 0) for file in files
    )
    missing = [source_id for source_id in wanted if source_id not in found]
    if missing:
        named = reduce(or_, (Q(content__contains=str(source_id)) for source_id in missing))
        results = Turn.objects.filter(named, session_id=session_id, role="tool").values_list("content", flat=True)
        found |= _by_id(source for content in results for source in result_sources.read(without_receipt(content)))
    return found


def _by_id(found: Iterable[Source]) -> dict[UUID, Source]:
    return {source.id: source for source in found}
