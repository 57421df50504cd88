"""Decisions on requests for approval, from every page and channel.

Callers check first whether the actor may make the decision: with `access` for users, with `permissions` for senders in
channels.
"""

from uuid import UUID

from agents_app import services as runs
from audit_app.kernel.after_commit import after_commit
from audit_app.kernel.errors import InvalidInput
from sessions_app.approvals import prompt_text
from sessions_app.channels.outbound import prompts
from sessions_app.identity.actor_names import name_of
from tools_app import selectors as tools
from tools_app.services import AlreadyDecided
from tools_app.types import ApprovalView

LONGEST_NOTE = 1000


def decide(approval_id: UUID, *, decision: str, actor: str, note: str = "") -> ApprovalView:
    """Decide a request, once. Opens its own transaction.

    decision: one of the request's `choices`; note: for the model and the record, at most LONGEST_NOTE characters.
    Raises NotFound, InvalidInput (unknown_decision, choice_not_offered, note_too_long), AlreadyDecided (with the name
    of the first actor), ApprovalExpired.
    """
    note = note.replace("\0", "").strip()
    if len(note) > LONGEST_NOTE:
        raise InvalidInput(f"A note has at most {LONGEST_NOTE:,} characters.", code="note_too_long")
    try:
        decided = runs.decide_approval(approval_id, decision=decision, actor=actor, note=note)
    except AlreadyDecided as error:
        raise AlreadyDecided(f"This was decided already. {outcome_of(approval_id)}.", **error.extra) from None
    # Closes the prompts now; the sweeper would do it within a second.
    after_commit(prompts.close, decided)
    return decided


def outcome_of(approval_id: UUID) -> str:
    """Return the outcome of a request in one line, with the name of the actor who decided."""
    approval = tools.get_approval(approval_id)
    return prompt_text.outcome(approval, name_of(approval.decided_by, approval.session_id))
