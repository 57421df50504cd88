"""The conversations of runs: implements the port through which runs read and store turns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from django.utils import timezone

from agents_app import selectors as agents
from agents_app.conversation_port import StoredEnd
from agents_app.prompt.compaction import PROMPT_VERSION
from agents_app.types import Message, MessagePart, OmittedPart, RunStatus, RunTranscript, RunView
from agents_app.types.context import Compaction
from agents_app.types.message_parts import Transcript, VoiceNotes
from audit_app import services as audit
from audit_app.event_types import EventType, NewEvent, P
from sessions_app import events, hot_queries
from sessions_app.attachments import file_parts
from sessions_app.attachments import records as attachments
from sessions_app.conversation import delivery_port, failed_schedules, transcripts
from sessions_app.conversation.citation_lookup import cite
from sessions_app.conversation.citations import Citation
from sessions_app.conversation.message_context import joined
from sessions_app.conversation.session_key import STORED_CHANNELS
from sessions_app.conversation.sessions import event_about
from sessions_app.identity.own_actors import users_of
from sessions_app.models import Checkpoint, Session, Turn
from tools_app.policy import readings
from tools_app.types import ToolCall

_MOST_TURNS = 1000
_NONE = hot_queries.NOT_COVERED
_OF_USER = ("user", *Turn.CONTEXT_ROLES)
_MAY_BE_EMPTY = ("tool", *Turn.CONTEXT_ROLES)


class _Turn(NamedTuple):
    """The columns of a turn that make its message: `hot_queries.HISTORY_COLUMNS`."""

    pk: UUID
    run_id: UUID | None
    ordinal: int
    part: int
    role: str
    content: str
    attached: str
    tool_calls: list[dict[str, str]]
    tool_call_id: str
    error_code: str
    is_pinned: bool
    covered: int = _NONE

    @property
    def is_context(self) -> bool:
        return self.role in Turn.CONTEXT_ROLES


class StoredConversations:
    """Implements `agents_app.conversation_port.Conversations` on sessions and turns."""

    def history(self, conversation_id: UUID, ordinal: int, *, longest: int) -> Sequence[Message]:
        """Return the messages before the run of this ordinal, as the port demands. Called when a run is claimed."""
        return self._history(conversation_id, ordinal, _newest_turns(conversation_id, ordinal, longest))

    def messages(
        self, run_id: UUID, conversation_id: UUID, ordinal: int, *, longest: int
    ) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
        """Return the history and the user turns of a run, in one statement for a short session."""
        read = _newest_turns(conversation_id, ordinal, longest)
        own = [turn for turn in reversed(read.own) if turn.run_id == run_id and turn.role in _OF_USER]
        user_turns = _user_messages([(turn.pk, turn.content, turn.attached) for turn in own])
        return tuple(self._history(conversation_id, ordinal, read)), tuple(user_turns)

    def _history(self, conversation_id: UUID, ordinal: int, read: "_Read") -> Sequence[Message]:
        found = _find_checkpoint(conversation_id, ordinal) if read.covered != _NONE else None
        newest = read.earlier
        # The user has taken back what was withdrawn from the queue.
        empty = {turn.run_id for turn in newest if turn.error_code == "cancelled" and not turn.content and turn.run_id}
        if withdrawn := agents.list_withdrawn(empty) if empty else set():
            newest = [turn for turn in newest if turn.run_id not in withdrawn]
        # A run that was stopped before its first text has an empty answer, which some models refuse.
        shown = [turn for turn in reversed(newest) if turn.content or turn.tool_calls or turn.role in _MAY_BE_EMPTY]
        messages = messages_of(shown)
        if found or read.is_cut:
            left_out = newest[-1].ordinal - 1 if newest else read.covered
            pinned = [_Turn(*row) for row in hot_queries.LIST_PINNED_TURNS.rows(session_id=conversation_id)]
            pinned.sort(key=lambda turn: (turn.ordinal, turn.part))
            texts = messages_of([turn for turn in pinned if turn.content and turn.ordinal <= left_out])
            messages = [*(replace(message, tool_calls=()) for message in texts), *messages]
        return [Message("user", found.summary, is_summary=True), *messages] if found else messages

    def store_compaction(self, run: RunView, compaction: Compaction) -> None:
        """Store a checkpoint, with the origins of everything that the session has read so far."""
        earlier = hot_queries.FIND_CHECKPOINT.first(session_id=run.conversation_id, ordinal=run.ordinal)
        Checkpoint.objects.create(
            session_id=run.conversation_id,
            run_id=run.id,
            index=compaction.index,
            ordinal=compaction.ordinal,
            reason=compaction.reason,
            summary=compaction.summary,
            origins="\n".join(readings.list_origins(run.conversation_id)),
            covered_turns=compaction.turns + (earlier.covered_turns if earlier else 0),
            tokens_before=compaction.tokens_before,
            tokens_after=compaction.tokens_after,
            model=compaction.model,
            prompt_version=PROMPT_VERSION,
            created_at=timezone.now(),
        )

    def user_turns(self, run_id: UUID) -> Sequence[Message]:
        """Return the messages that the run answers. Called at the claim and after steps that messages joined."""
        return _user_messages(hot_queries.LIST_USER_MESSAGES.rows(run_id=run_id))

    def load_part(self, reference: str) -> bytes:
        return file_parts.load(reference)

    def parts_omitted(self, run_id: UUID, omitted: Sequence[OmittedPart]) -> Sequence[NewEvent]:
        rows = attachments.store_omitted(run_id, omitted)
        if not rows:
            return ()
        [session] = hot_queries.GET_SESSION.fetch(session_id=attachments.turn_of(rows[0]).session_id)
        files = [{"id": str(row.pk), "name": row.filename or row.kind, "reason": row.omitted_because} for row in rows]
        return [event_about(session, events.ATTACHMENTS_OMITTED, {"attachments": files}, run_id=run_id)]

    def voice_notes(self, run_id: UUID) -> VoiceNotes:
        return transcripts.find(run_id)

    def store_transcript(self, run_id: UUID, transcript: Transcript) -> Sequence[NewEvent]:
        return transcripts.store(run_id, transcript)

    def run_ended(self, transcript: RunTranscript) -> StoredEnd:
        """Store the run's turns and its deliveries. Idempotent.

        Called in the transaction that ends the run; called again by the reaper if that failed.
        """
        run, now = transcript.run, timezone.now()
        [session] = hot_queries.SET_LAST_ACTIVE.fetch(session_id=run.conversation_id, ordinal=run.ordinal, now=now)
        has_later_runs = session.next_ordinal > run.ordinal + 1
        if session.has_answer:
            return StoredEnd((), has_later_runs)
        turns = list(_turns(transcript, session, now))
        for part, turn in enumerate(turns, start=session.next_part):
            turn.part = part
        texts = [turn for turn in turns if turn.role == "assistant"]
        cited = _add_citations(transcript, texts)
        hot_queries.INSERT_TURNS.run(turns)
        if not _plan_deliveries(session, transcript, texts, cited):  # clients read it where it is stored
            _record_sent(session, run, turns[-1])
        if run.status in (RunStatus.FAILED, RunStatus.TIMED_OUT):
            failed_schedules.record_failure(session, run)
        new_events = (*_citations_added(session, run, texts), _completed(session, transcript, turns[-1]))
        return StoredEnd(new_events, has_later_runs)

    def requesters(self, conversation_id: UUID, actor: str) -> set[str]:
        columns = ("owner_id", "channel", "account_id", "sender_id")
        found = Session.objects.filter(pk=conversation_id).values_list(*columns).first()
        owner_id, channel, account_id, sender_id = found or (None, "", "", "")
        senders = {sender_id, actor.split(":", 2)[-1] if actor.startswith("sender:") else ""} - {""}
        users = {owner_id, *users_of(channel, account_id, senders)}
        return {actor, *(f"user:{user_id}" for user_id in users if user_id)}

    def take_ordinal(self, conversation_id: UUID) -> int:
        """Lock the session and return its next ordinal, in the caller's transaction. Called when a run is retried."""
        session = Session.objects.select_for_update(no_key=True).get(pk=conversation_id)
        Session.objects.filter(pk=conversation_id).update(next_ordinal=session.next_ordinal + 1)
        return session.next_ordinal


def _add_citations(transcript: RunTranscript, texts: Sequence[Turn]) -> list[tuple[Citation, ...]]:
    """Set and return the citations of a run's texts. A text without a bracket cites nothing."""
    contents = [turn.content for turn in texts]
    if not any("[" in content for content in contents):
        return [()] * len(texts)
    cited = cite(transcript, contents)
    for turn, found in zip(texts, cited, strict=True):
        turn.citations = [citation.to_dict() for citation in found]
    return cited


def _plan_deliveries(
    session: Session, transcript: RunTranscript, texts: Sequence[Turn], cited: Sequence[tuple[Citation, ...]]
) -> int:
    """Store the deliveries of the answer to a message of a channel. Return their number."""
    if session.channel in STORED_CHANNELS:
        return 0
    run, answer = transcript.run, texts[-1]
    citing = list(zip((turn.content for turn in texts), cited, strict=True))
    failure = answer.error_message if answer.state == "error" else ""
    has_files = bool(transcript.executions)  # tools write them
    return delivery_port.get().plan_answer(session, run.id, citing, failure=failure, has_files=has_files)


def _record_sent(session: Session, run: RunView, answer: Turn) -> None:
    details = {"turn_id": str(answer.id), "state": answer.state, "run_id": str(run.id)}
    about: dict[str, Any] = {"session_id": session.id, "session_key": session.key, "agent_id": run.agent_id}
    audit.record("MessageSent", details=details, actor=f"agent:{run.agent_id}", **about)


def _citations_added(session: Session, run: RunView, texts: Sequence[Turn]) -> Iterator[NewEvent]:
    for step, turn in enumerate(texts):
        if turn.citations:
            added: events.CitationsAdded = {"turn_id": str(turn.id), "citations": turn.citations}
            yield _event_of(session, run, events.CITATIONS_ADDED, added, step)


def _completed(session: Session, transcript: RunTranscript, answer: Turn) -> NewEvent:
    completed: events.MessageCompleted = {
        "turn_id": str(answer.id),
        "state": answer.state,
        "text_length": len(answer.content),
    }
    return _event_of(session, transcript.run, events.MESSAGE_COMPLETED, completed, transcript.answering_step)


def _event_of(session: Session, run: RunView, event_type: EventType[P], payload: P, step: int) -> NewEvent:
    actor = f"agent:{run.agent_id}"
    return event_about(session, event_type, payload, step=step, run_id=run.id, actor=actor, agent_id=run.agent_id)


@dataclass(frozen=True)
class _Read:
    """Turns up to an ordinal, newest first.

    own: those of this ordinal.
    covered: the ordinal up to which a checkpoint covers the session, whose turns are not read; _NONE without one.
    is_cut: whether older ones were left out.
    """

    earlier: list[_Turn]
    own: list[_Turn]
    covered: int
    is_cut: bool = False


def _newest_turns(session_id: UUID, ordinal: int, longest: int) -> _Read:
    """Return the turns up to an ordinal that no checkpoint covers.

    Read in pages, until their texts have `longest` characters or there are _MOST_TURNS: the cost of a message does not
    grow with its session. The run in whose middle the reading ends is left out, unless it is the only one.
    """
    page = [_Turn(*row) for row in hot_queries.LIST_NEWEST_TURNS.rows(session_id=session_id, ordinal=ordinal)]
    turns, characters = page, 0
    checkpoint = None if page else _find_checkpoint(session_id, ordinal)
    covered = page[0].covered if page else checkpoint.ordinal if checkpoint else _NONE
    while len(page) == hot_queries.TURNS_OF_A_PAGE:
        place = page[-1].ordinal, page[-1].part
        characters += sum(len(turn.content) + len(turn.attached) for turn in page)
        if len(turns) >= _MOST_TURNS or characters > longest:
            earlier = [turn for turn in turns if turn.ordinal < ordinal]
            whole = [turn for turn in earlier if turn.ordinal != place[0]]
            return _Read(whole or earlier, [turn for turn in turns if turn.ordinal == ordinal], covered, is_cut=True)
        older = hot_queries.LIST_EARLIER_TURNS.rows(
            session_id=session_id, after=covered, ordinal=place[0], part=place[1]
        )
        page = [_Turn(*row) for row in older]
        turns = turns + page
    return _Read([t for t in turns if t.ordinal < ordinal], [t for t in turns if t.ordinal == ordinal], covered)


def _find_checkpoint(session_id: UUID, ordinal: int) -> Checkpoint | None:
    return hot_queries.FIND_CHECKPOINT.first(session_id=session_id, ordinal=ordinal) if ordinal else None


def _user_messages(rows: Sequence[tuple[UUID, str, str]]) -> Sequence[Message]:
    """Return the messages of (turn, content, attached). A context alone has no content."""
    parts = _parts_by_turn([turn_id for turn_id, content, attached in rows if content and attached])
    return _with_contexts(
        [
            Message("user", _with_files(content, attached), parts=parts.get(turn_id, ())) if content else attached
            for turn_id, content, attached in rows
        ]
    )


def messages_of(turns: Sequence[_Turn | Turn]) -> list[Message]:
    """Return the messages of turns, as a model gets them."""
    parts = _parts_by_turn([turn.pk for turn in turns if turn.attached and not turn.is_context])
    found = [turn.attached if turn.is_context else _message(turn, parts.get(turn.pk, ())) for turn in turns]
    return _with_contexts(found)


def _with_contexts(found: Sequence[Message | str]) -> list[Message]:
    """Return the messages, each with the text of the context in front of it."""
    messages = [each for each in found if isinstance(each, Message)]
    return messages if len(messages) == len(found) else [*joined(found)]


def _message(turn: _Turn | Turn, parts: tuple[MessagePart, ...]) -> Message:
    calls = tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in turn.tool_calls)
    content = _with_files(turn.content, turn.attached)
    return Message(turn.role, content, calls, turn.tool_call_id, parts, ordinal=turn.ordinal, is_pinned=turn.is_pinned)


def _parts_by_turn(turn_ids: Sequence[UUID]) -> dict[UUID, tuple[MessagePart, ...]]:
    """Return the parts of turns that have files. No query without such turns."""
    files = attachments.list_of(turn_ids) if turn_ids else {}
    return {turn_id: file_parts.parts_of(rows) for turn_id, rows in files.items()}


def _with_files(content: str, attached: str) -> str:
    return f"{content}\n\n{attached}" if attached else content


def _turns(transcript: RunTranscript, session: Session, now: datetime) -> Iterator[Turn]:
    """Yield the turns of a run: each step that called tools, the results of its tools, and last the answer."""
    run = transcript.run
    # No other branch can be selected before the turns of a run are stored.
    of_run = partial(Turn, session=session, run_id=run.id, ordinal=run.ordinal, branch=session.active_branch)
    for step in transcript.steps[: transcript.answering_step]:
        executions = [execution for execution in transcript.executions if execution.step == step.index]
        yield of_run(
            role="assistant",
            content=step.text,
            tool_calls=[{"id": call.id, "name": call.name, "arguments": call.arguments} for call in step.tool_calls],
            tool_call_ids=[str(execution.id) for execution in executions] or None,
            created_at=now,
        )
        for execution in executions:
            yield of_run(
                role="tool",
                content=execution.text_for_model,
                tool_call_id=execution.call_id,
                tool_call_ids=[str(execution.id)],
                created_at=execution.completed_at or now,
            )
    yield of_run(
        role="assistant",
        content=transcript.answer,
        body_digest=Turn.digest_of("".join(transcript.texts)),
        state=_state_of(run),
        error_code=run.error_code,
        error_message=run.error_message,
        is_answer=True,
        tool_call_ids=[str(execution.id) for execution in transcript.executions] or None,
        created_at=now,
    )


def _state_of(run: RunView) -> str:
    if run.status is RunStatus.COMPLETED:
        return "partial" if run.error_code else "complete"
    return "partial" if run.status is RunStatus.CANCELLED else "error"
