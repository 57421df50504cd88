"""The messages of tasks, read from the turns of their sessions. Synchronous."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from agents_app.types import RunView
from audit_app import timeline
from sessions_app import selectors
from sessions_app.conversation.citations import for_people
from sessions_app.events import MESSAGE_RECEIVED
from sessions_app.models import Session, Turn
from sessions_app.surfaces.a2a.responses import TaskMessage
from tools_app import selectors as tools


def of_runs(runs: Sequence[RunView], sessions: Iterable[Session], length: int | None) -> dict[UUID, list[TaskMessage]]:
    """Return the messages of runs, oldest first: those of the user, what the runs asked and said before the answer.

    length: at most so many of each run, the newest. 0: the history is not shown; nothing is read.
    """
    if length == 0:
        return {}
    talk: dict[UUID, list[TaskMessage]] = {run.id: [] for run in runs}
    turns = Turn.objects.filter(run_id__in=talk, role__in=("user", "assistant"), is_answer=False)
    rows = list(turns.order_by("ordinal", "part"))
    names = _message_ids(sessions) if rows else {}
    answered = {UUID(call) for row in rows if row.role == "user" for call in row.tool_call_ids or ()}
    questions = tools.list_questions_of(answered) if answered else {}
    for row in rows:
        messages = talk[row.run_id] if row.run_id else []
        if row.role == "user":
            calls = [UUID(call) for call in row.tool_call_ids or ()]
            messages += [
                TaskMessage(f"question-{call}", "agent", questions[call]) for call in calls if call in questions
            ]
            messages.append(TaskMessage(names.get(str(row.pk), str(row.pk)), "user", row.content))
        elif row.content:
            text = for_people([(row.content, selectors.citations_of(row))])
            messages.append(TaskMessage(str(row.pk), "agent", text))
    return {run_id: messages[-length:] if length else messages for run_id, messages in talk.items()}


def _message_ids(sessions: Iterable[Session]) -> dict[str, str]:
    """Return the clients' ids of messages, by turn. Those whose event is not kept any more are left out."""
    found = {}
    for session in sessions:
        head = timeline.find_head(session.pk)
        for event in timeline.list_events_of_types(session.pk, [MESSAGE_RECEIVED.name], until=head):
            received = MESSAGE_RECEIVED.payload(event)
            found[received["turn_id"]] = received["message_id"]
    return found
