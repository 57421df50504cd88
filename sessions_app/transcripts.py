"""The port by which runs read and store conversations: turns in, turns out."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID

from django.db.models import Max
from django.utils import timezone

from agents_app.types import Message, RunStatus, RunTranscript, RunView
from audit_app import services as audit
from audit_app.vocabulary import Fact
from sessions_app import events
from sessions_app.delivery.planning import plan_answer
from sessions_app.models import Session, Turn
from tools_app.types import ToolCall

_NEWEST_TURNS = 1000


class StoredConversations:
    """Implements `agents_app.conversations.Conversations` on sessions and turns."""

    def history(self, run: RunView) -> Sequence[Message]:
        rows = Turn.objects.filter(session_id=run.conversation_id, ordinal__lt=run.ordinal).exclude(state="error")
        newest = rows.order_by("-ordinal", "-part")[:_NEWEST_TURNS]
        # A run that was stopped before it said anything left an empty answer, which some models refuse to read.
        return [_message(turn) for turn in reversed(newest) if turn.content or turn.tool_calls or turn.role == "tool"]

    def words(self, run_id: UUID) -> Sequence[str]:
        return list(Turn.objects.filter(run_id=run_id, role="user").order_by("part").values_list("content", flat=True))

    def run_ended(self, transcript: RunTranscript) -> Sequence[Fact]:
        run = transcript.run
        session = Session.objects.select_related("agent").get(pk=run.conversation_id)
        if Turn.objects.filter(run_id=run.id, is_answer=True).exists():
            return []
        last = Turn.objects.filter(session=session, ordinal=run.ordinal).aggregate(last=Max("part"))["last"]
        turns = list(_turns(transcript, session, timezone.now()))
        for part, turn in enumerate(turns, start=0 if last is None else last + 1):
            turn.part = part
        Turn.objects.bulk_create(turns)
        Session.objects.filter(pk=session.id).update(last_active_at=timezone.now())
        answer = turns[-1]
        told = {"turn_id": str(answer.id), "state": answer.state}
        said = "\n\n".join(turn.content.strip() for turn in turns if turn.role == "assistant" and turn.content.strip())
        is_planned = plan_answer(session, run.id, said, failure=answer.error_message if answer.state == "error" else "")
        if not is_planned:  # it is read where it is stored now
            audit.record(
                "MessageSent", details={**told, "run_id": str(run.id)}, actor=f"agent:{run.agent_id}",
                agent_id=run.agent_id, session_id=session.id, session_key=session.key,
            )  # fmt: skip
        return [
            Fact(
                events.MESSAGE_COMPLETED, session.id, {**told, "text_length": len(answer.content)}, run_id=run.id,
                step=_last_step(transcript), actor=f"agent:{run.agent_id}", agent_id=run.agent_id,
                session_key=session.key,
            )
        ]  # fmt: skip

    def take_ordinal(self, conversation_id: UUID) -> int:
        session = Session.objects.select_for_update().get(pk=conversation_id)
        Session.objects.filter(pk=conversation_id).update(next_ordinal=session.next_ordinal + 1)
        return session.next_ordinal


def _message(turn: Turn) -> Message:
    calls = tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in turn.tool_calls)
    return Message(turn.role, turn.content, calls, turn.tool_call_id)


def _turns(transcript: RunTranscript, session: Session, now: datetime) -> Iterator[Turn]:
    """The turns of a whole run: each step that called tools, what the tools said, and last the answer."""
    run = transcript.run
    for step in transcript.steps:
        if not step.tool_calls and step.index == len(transcript.steps) - 1:
            break  # its text is the answer
        executions = [execution for execution in transcript.executions if execution.step == step.index]
        yield Turn(
            session=session, run_id=run.id, ordinal=run.ordinal, role="assistant", content=step.text,
            tool_calls=[{"id": call.id, "name": call.name, "arguments": call.arguments} for call in step.tool_calls],
            tool_call_ids=[str(execution.id) for execution in executions] or None, created_at=now,
        )  # fmt: skip
        for execution in executions:
            yield Turn(
                session=session, run_id=run.id, ordinal=run.ordinal, role="tool", content=execution.text_for_model,
                tool_call_id=execution.call_id, tool_call_ids=[str(execution.id)],
                created_at=execution.completed_at or now,
            )  # fmt: skip
    yield Turn(
        session=session, run_id=run.id, ordinal=run.ordinal, role="assistant", content=transcript.answer,
        state=_state_of(run), error_code=run.error_code, error_message=run.error_message, is_answer=True,
        tool_call_ids=[str(execution.id) for execution in transcript.executions] or None, created_at=now,
    )  # fmt: skip


def _state_of(run: RunView) -> str:
    if run.status is RunStatus.COMPLETED:
        return "partial" if run.error_code else "complete"
    return "partial" if run.status is RunStatus.CANCELLED else "error"


def _last_step(transcript: RunTranscript) -> int:
    """The step whose text the answer is: the last recorded one, or the one that was open when the run ended."""
    steps = transcript.steps
    return len(steps) - 1 if steps and not steps[-1].tool_calls else len(steps)
