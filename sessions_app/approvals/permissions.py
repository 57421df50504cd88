"""Permissions to see and decide requests for approval, on pages and in channels.

Users see the requests of their own sessions; `KOMAND_APPROVERS=owners` lets them decide those too, except that a call
with a credential is decided by the owner of the credential. Everything else takes a right: to see the requests of
others, to decide any, and to decide with "always", which allows calls in advance.
"""

from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Q

from audit_app import services as audit
from audit_app.kernel.errors import Forbidden
from audit_app.rights import Right, holders, holds, require
from sessions_app.identity import sender_links
from sessions_app.models import ChannelAccount, Pairing, Session
from tools_app.rights import ALLOW_ALWAYS, DECIDE_APPROVALS, VIEW_APPROVALS
from tools_app.types import ApprovalView, Decision

OPERATORS, OWNERS = "operators", "owners"
_EVERYTHING = tuple(Decision)
_FOR_NOW = tuple(decision for decision in Decision if decision is not Decision.ALLOW_ALWAYS)


@dataclass(frozen=True)
class Decider:
    """A sender who may decide a request.

    actor: as which they decide.
    decisions: those they may make.
    """

    actor: str
    decisions: tuple[Decision, ...]


def sees_all(user: User | AnonymousUser) -> bool:
    """Return whether the user may see the requests of all users. Deciding them includes seeing them."""
    return holds(user, VIEW_APPROVALS) or holds(user, DECIDE_APPROVALS)


def may_see(user: User | AnonymousUser, owner_id: int | None) -> bool:
    """Return whether the user may see a request. owner_id: the owner of its session, None if no local user is."""
    return _owns(user, owner_id) or sees_all(user)


def record_hidden(user: User | AnonymousUser, approval_id: UUID) -> None:
    """Audit that the user named a request that they may not see. They get the same answer as for none."""
    details = {"right": VIEW_APPROVALS.permission, "approval": str(approval_id)}
    audit.record("RightRefused", actor=f"user:{user.pk}" if user.pk else "", details=details)


def allowed_decisions(user: User | AnonymousUser, owner_id: int | None) -> tuple[Decision, ...]:
    """Return the decisions that the user may make on a request, empty if they may not decide.

    owner_id: the user who owns the request's session; None if no local user does.
    """
    is_own = _owns(user, owner_id) and settings.KOMAND_APPROVERS == OWNERS
    if not is_own and not holds(user, DECIDE_APPROVALS):
        return ()
    return _EVERYTHING if holds(user, ALLOW_ALWAYS) else _FOR_NOW


def check_decision(user: User | AnonymousUser, owner_id: int | None, decision: str) -> None:
    """Raise MissingRight, audited, unless the user may make the decision. owner_id: as for `allowed_decisions`."""
    allowed = allowed_decisions(user, owner_id)
    if not allowed:
        require(user, DECIDE_APPROVALS)
    if decision == Decision.ALLOW_ALWAYS and Decision.ALLOW_ALWAYS not in allowed:
        require(user, ALLOW_ALWAYS)


def deciding_user_id(approval: ApprovalView, owner_id: int | None) -> int | None:
    """Return the user who counts as the owner of a request: of the credentials that its call uses, else of its session.

    owner_id: the owner of the session. None if no local user is, as for credentials of the installation.
    """
    if not approval.credentials:
        return owner_id
    kind, _, number = approval.credential_owner.partition(":")
    return int(number) if kind == "user" and number.isdecimal() else None


def credential_owner_of(user: User | AnonymousUser) -> str:
    """Return the credential owner whose requests in sessions of others the user decides, empty if none."""
    return f"user:{user.pk}" if settings.KOMAND_APPROVERS == OWNERS and user.is_active else ""


def check_credential_decision(approval: ApprovalView, actor: str, decision: str) -> None:
    """Raise MissingRight, audited, for a call with credentials about which the actor, a user, may not decide."""
    if approval.credentials:
        user = User.objects.get(pk=actor.removeprefix("user:"))
        check_decision(user, deciding_user_id(approval, None), decision)


def allowed_decisions_in_chat(account: ChannelAccount, session: Session, *, is_alone: bool) -> tuple[Decision, ...]:
    """Return the decisions that can be made in a chat of the account on a request of the session, perhaps none.

    is_alone: a private chat, where its sender decides. In a group, every sender who is paired with a user counts.
    """
    if is_alone:
        decider = find_decider(account, session.sender_id, session, is_alone=True)
        return decider.decisions if decider else ()
    paired = Pairing.objects.filter(account=account, user__is_active=True)
    deciders = paired.filter(Q(user__in=holders(DECIDE_APPROVALS)) | Q(sender_id__in=_listed(account)))
    if deciders.filter(user__in=holders(ALLOW_ALWAYS)).exists():
        return _EVERYTHING
    return _FOR_NOW if deciders.exists() else ()


def find_decider(account: ChannelAccount, sender_id: str, session: Session | None, *, is_alone: bool) -> Decider | None:
    """Return as whom a sender decides requests in a chat of the account, None if the sender may not decide.

    A sender who is not paired with a user of this installation never decides: nobody answers for what they allow.
    Entitled are senders paired with a user who has the right, those in the account's `approvers`, and with
    `KOMAND_APPROVERS=owners` the sender of the session in a private chat. In a group, admins may write as the group
    itself, which owns no session.
    """
    user = _paired_user(account, sender_id)
    if user is None or not user.is_active:
        return None
    is_own = is_alone and session is not None and session.sender_id == sender_id and settings.KOMAND_APPROVERS == OWNERS
    if not (is_own or sender_id in _listed(account) or holds(user, DECIDE_APPROVALS)):
        return None
    return Decider(f"user:{user.pk}", _EVERYTHING if holds(user, ALLOW_ALWAYS) else _FOR_NOW)


def require_decider(
    account: ChannelAccount, sender_id: str, session: Session | None, *, is_alone: bool, decision: Decision
) -> str:
    """Return the actor as which a sender of a chat makes the decision. Call it outside of a transaction.

    Raises MissingRight for a sender who is paired with a user without the right, Forbidden (not_entitled) for others.
    Both are audited.
    """
    decider = find_decider(account, sender_id, session, is_alone=is_alone)
    if decider is not None and decision in decider.decisions:
        return decider.actor
    needed = DECIDE_APPROVALS if decider is None else ALLOW_ALWAYS
    user = _paired_user(account, sender_id)
    if user is not None:
        require(user, needed)
    raise _not_entitled(needed, sender_links.actor_of(account, sender_id))


def _not_entitled(right: Right, actor: str) -> Forbidden:
    audit.record("RightRefused", actor=actor, details={"right": right.permission})
    return Forbidden(
        f"Only an operator can decide this: a paired user with the right {right.permission}, which a superuser can "
        "grant. Nothing was changed.",
        code="not_entitled",
    )


def _paired_user(account: ChannelAccount, sender_id: str) -> User | None:
    pairing = Pairing.objects.select_related("user").filter(account=account, sender_id=sender_id).first()
    return pairing.user if pairing is not None and sender_id else None


def _listed(account: ChannelAccount) -> set[str]:
    return {str(approver) for approver in account.config.get("approvers") or ()}


def _owns(user: User | AnonymousUser, owner_id: int | None) -> bool:
    return user.is_active and owner_id is not None and owner_id == user.pk
