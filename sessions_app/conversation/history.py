"""The conversations of runs: implements the port through which runs read and store turns."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from django.utils import timezone

from agents_app import selectors as agents
from agents_app.types import Message, RunStatus, RunTranscript, RunView
from audit_app import services as audit
from audit_app.event_types import NewEvent
from sessions_app import events, hot_queries
from sessions_app.channels.outbound.outbox import plan_answer
from sessions_app.conversation import citations
from sessions_app.conversation.citation_lookup import cite
from sessions_app.conversation.sessions import event_about
from sessions_app.models import Pairing, Session, Turn
from tools_app.types import ToolCall


class StoredConversations:
    """Implements `agents_app.conversation_port.Conversations` on sessions and turns."""

    def history(self, run: RunView) -> Sequence[Message]:
        """Return the messages before the run, oldest first. Called once when a process claims the run."""
        newest = hot_queries.LIST_EARLIER_TURNS.fetch(session_id=run.conversation_id, ordinal=run.ordinal)
        # The user has taken back what was withdrawn from the queue.
        empty = {turn.run_id for turn in newest if turn.error_code == "cancelled" and not turn.content and turn.run_id}
        if withdrawn := agents.list_withdrawn(empty) if empty else set():
            newest = [turn for turn in newest if turn.run_id not in withdrawn]
        # A run that was stopped before its first text has an empty answer, which some models refuse.
        return [_message(turn) for turn in reversed(newest) if turn.content or turn.tool_calls or turn.role == "tool"]

    def user_turns(self, run_id: UUID) -> Sequence[str]:
        """Return the texts that the run answers. Called at the claim and after steps that messages joined."""
        rows = hot_queries.LIST_USER_TURN_TEXTS.rows(run_id=run_id)
        return [_with_files(content, attached) for content, attached in rows]

    def run_ended(self, transcript: RunTranscript) -> Sequence[NewEvent]:
        """Store the run's turns and its deliveries; return the events to emit. Idempotent.

        Called in the transaction that ends the run; called again by the reaper if that failed.
        """
        run = transcript.run
        [session] = hot_queries.GET_SESSION.fetch(session_id=run.conversation_id)
        stored = hot_queries.LIST_STORED_PARTS.rows(session_id=session.id, ordinal=run.ordinal)
        if any(is_answer for _, is_answer in stored):
            return []
        turns = list(_turns(transcript, session, timezone.now()))
        for part, turn in enumerate(turns, start=1 + max((part for part, _ in stored), default=-1)):
            turn.part = part
        texts = [turn for turn in turns if turn.role == "assistant"]
        for turn, found in zip(texts, cited := cite(transcript, [turn.content for turn in texts]), strict=True):
            turn.citations = [citation.to_dict() for citation in found]
        hot_queries.INSERT_TURNS.run(turns)
        hot_queries.SET_LAST_ACTIVE.run(session_id=session.id, now=timezone.now())
        answer = turns[-1]
        markdown = citations.for_people(zip((turn.content for turn in texts), cited, strict=True))
        failure = answer.error_message if answer.state == "error" else ""
        by_agent = {"actor": f"agent:{run.agent_id}", "agent_id": run.agent_id}
        if not plan_answer(session, run.id, markdown, failure=failure):  # clients read it where it is stored
            audit.record(
                "MessageSent",
                details={"turn_id": str(answer.id), "state": answer.state, "run_id": str(run.id)},
                session_id=session.id,
                session_key=session.key,
                **by_agent,
            )
        length = len(answer.content)
        completed: events.MessageCompleted = {"turn_id": str(answer.id), "state": answer.state, "text_length": length}
        of_run = {"run_id": run.id, **by_agent}
        emitted = []
        for step, turn in enumerate(texts):
            if turn.citations:
                added: events.CitationsAdded = {"turn_id": str(turn.id), "citations": turn.citations}
                emitted.append(event_about(session, events.CITATIONS_ADDED, added, step=step, **of_run))
        step = transcript.answering_step
        return [*emitted, event_about(session, events.MESSAGE_COMPLETED, completed, step=step, **of_run)]

    def requesters(self, conversation_id: UUID, actor: str) -> set[str]:
        found = Session.objects.filter(pk=conversation_id).values_list("owner_id", "sender_id").first()
        owner_id, sender_id = found or (None, "")
        senders = {sender_id, actor.split(":", 2)[-1] if actor.startswith("sender:") else ""} - {""}
        paired = Pairing.objects.filter(sender_id__in=senders, user__isnull=False).values_list("user_id", flat=True)
        return {actor, *(f"user:{user_id}" for user_id in {owner_id, *paired} if user_id)}

    def take_ordinal(self, conversation_id: UUID) -> int:
        """Lock the session and return its next ordinal, in the caller's transaction. Called when a run is retried."""
        session = Session.objects.select_for_update().get(pk=conversation_id)
        Session.objects.filter(pk=conversation_id).update(next_ordinal=session.next_ordinal + 1)
        return session.next_ordinal


def _message(turn: Turn) -> Message:
    calls = tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in turn.tool_calls)
    return Message(turn.role, _with_files(turn.content, turn.attached), calls, turn.tool_call_id)


def _with_files(content: str, attached: str) -> str:
    return f"{content}\n\n{attached}" if attached else content


def _turns(transcript: RunTranscript, session: Session, now: datetime) -> Iterator[Turn]:
    """Yield the turns of a run: each step that called tools, the results of its tools, and last the answer."""
    run = transcript.run
    of_run = partial(Turn, session=session, run_id=run.id, ordinal=run.ordinal)
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
