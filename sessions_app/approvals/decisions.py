"""Decisions on requests for approval, from every page and channel.

Callers check first whether the actor may make the decision: with `access` for users, with `permissions` for senders in
channels.
"""

from collections.abc import Callable
from uuid import UUID

from agents_app import services as runs
from audit_app import fresh_login
from audit_app.kernel.after_commit import after_commit
from audit_app.kernel.errors import InvalidInput
from sessions_app.approvals import prompt_text
from sessions_app.identity.actor_names import name_of_deciders
from tools_app import selectors as tools
from tools_app.services import AlreadyDecided
from tools_app.types import ApprovalStatus, ApprovalView, Decision, Risk

LONGEST_NOTE = 1000

# Called with each decided request after commit, once; sweepers do the same for those that a dead process missed.
on_decided: list[Callable[[ApprovalView], None]] = []


def decide(approval_id: UUID, *, decision: str, actor: str, has_fresh_login: bool, note: str = "") -> ApprovalView:
    """Decide a request, once. Opens its own transaction.

    decision: one of the request's `choices`.
    note: for the model and the record, at most LONGEST_NOTE characters.
    has_fresh_login: as for `check_login`. Senders in channels have one: their platform vouches for them. Raises
        NotFound, InvalidInput (unknown_decision, choice_not_offered, note_too_long), AlreadyDecided (with the name of
        the first actor), ApprovalExpired, FreshLoginRequired.
    """
    note = note.replace("\0", "").strip()
    if len(note) > LONGEST_NOTE:
        raise InvalidInput(f"A note may have at most {LONGEST_NOTE:,} characters.", code="note_too_long")
    check_login(tools.get_approval(approval_id), decision=decision, actor=actor, has_fresh_login=has_fresh_login)
    try:
        decided = runs.decide_approval(approval_id, decision=decision, actor=actor, note=note)
    except AlreadyDecided as error:
        raise AlreadyDecided(f"This was decided already. {outcome_of(approval_id)}.", **error.extra) from None
    for function in on_decided:
        after_commit(function, decided)
    return decided


def check_login(approval: ApprovalView, *, decision: str, actor: str, has_fresh_login: bool) -> None:
    """Raise FreshLoginRequired if the decision allows a call of high risk and the actor's login is not fresh.

    The refusal is audited: call it before a transaction that would be rolled back.
    """
    is_risky = approval.risk == Risk.HIGH and decision != Decision.DENY and approval.status is ApprovalStatus.PENDING
    if is_risky and not has_fresh_login:
        fresh_login.refuse(fresh_login.ALLOW_HIGH_RISK, actor)


def outcome_of(approval_id: UUID) -> str:
    """Return the outcome of a request in one line, with the name of the actor who decided."""
    approval = tools.get_approval(approval_id)
    return prompt_text.outcome(approval, name_of_deciders(approval))
