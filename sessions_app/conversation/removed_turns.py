"""Removing single messages from a session: neither pages nor later runs read them any more.

The row stays, as that of a message in another branch does: the policy goes on counting what was read from outside.
"""

from django.db import transaction

from agents_app import selectors as agents
from agents_app.errors import RunBusy
from audit_app import services as audit
from audit_app.kernel.errors import InvalidInput
from sessions_app.conversation.branches import REMOVED
from sessions_app.conversation.sessions import lock
from sessions_app.models import Branch, Checkpoint, Session, Turn

_STAYS = "Calls of tools and their results stay: without one, model servers refuse the rest. Delete the conversation."


def remove_turn(session: Session, turn: Turn) -> None:
    """Remove a message of the session, and the summaries that contain it. Idempotent; owns its transaction.

    Raises RunBusy while a run is open, and InvalidInput (not_removable) for calls of tools and their results, without
    which model servers refuse the rest, and for the message with which a branch begins.
    """
    with transaction.atomic():
        lock(session.id)
        if agents.has_unstored_runs(session.id):
            raise RunBusy("A message of this conversation is not answered yet. Wait for its answer, then try again.")
        if turn.tool_calls or turn.role == "tool" or (turn.tool_call_ids and not turn.is_answer):
            raise InvalidInput(_STAYS, code="not_removable")
        if Branch.objects.filter(session=session, ordinal=turn.ordinal).exists():
            raise InvalidInput("A branch begins with this message. Edit it instead.", code="not_removable")
        # Its context, such as who has written it, precedes a user turn.
        context = Turn.objects.filter(session=session, ordinal=turn.ordinal, role__in=Turn.CONTEXT_ROLES)
        for rows in (Turn.objects.filter(pk=turn.pk), context.filter(part=turn.part - 1)):
            rows.update(branch=REMOVED, is_off_path=True, is_pinned=False)
        Checkpoint.objects.filter(session=session, ordinal__gte=turn.ordinal).delete()
        audit.record(
            "MessageRemoved",
            details={"turn_id": str(turn.pk)},
            session_id=session.id,
            session_key=session.key,
            agent_id=session.agent.agent_id,
        )
