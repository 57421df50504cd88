"""Who may see and who may decide a request for approval, on pages and in channels, and who may set agents up. Decides
nothing itself.

Operators see and decide every request, those of their own sessions too. Other people see the requests of their own
sessions and wait; `KOMAND_APPROVERS=owners` lets them decide those, but not for ever.
"""

from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User

from agents_app.models import Agent
from sessions_app.channels.registry import channels
from sessions_app.models import ChannelAccount, Pairing, Session
from tools_app.types import Decision

OPERATORS, OWNERS = "operators", "owners"
_EVERYTHING = tuple(Decision)
_FOR_NOW = tuple(decision for decision in Decision if decision is not Decision.ALLOW_ALWAYS)


def sees_all(user: User | AnonymousUser) -> bool:
    """Whether the user may see everybody's requests."""
    return user.is_active and user.is_staff


def may_see(user: User | AnonymousUser, owner_id: int | None) -> bool:
    """owner_id: whose session the request is of; None when it is nobody's of ours."""
    return sees_all(user) or _owns(user, owner_id)


def may_decide(user: User | AnonymousUser, owner_id: int | None) -> bool:
    """owner_id: whose session the request is of; None when it is nobody's of ours."""
    return bool(allowed_decisions(user, owner_id))


def allowed_decisions(user: User | AnonymousUser, owner_id: int | None) -> tuple[Decision, ...]:
    """All that the user may say to a request, nothing when they have to wait for somebody else. owner_id: whose session
    the request is of; None when it is nobody's of ours."""
    if sees_all(user):
        return _EVERYTHING
    return _FOR_NOW if _owns(user, owner_id) and settings.KOMAND_APPROVERS == OWNERS else ()


def allowed_decisions_in_chat(account: ChannelAccount, session: Session, *, is_alone: bool) -> tuple[Decision, ...]:
    """All that somebody in a chat of the account may say to a request of that session: its sender, or in a group, which
    nobody owns, those who are entitled by themselves. Nothing when there is no such person."""
    if is_alone:
        actor = find_decider(account, session.sender_id, session, is_alone=True)
        if actor is None:
            return ()
        return _EVERYTHING if may_allow_always(actor, session.pk) else _FOR_NOW
    operators = Pairing.objects.filter(account=account, user__is_active=True, user__is_staff=True)
    return _EVERYTHING if _listed(account) or operators.exists() else ()


def may_change(user: User | AnonymousUser, agent: Agent) -> bool:
    """Whether the user may set the agent up: operators may, and whoever made it."""
    return sees_all(user) or _owns(user, agent.owner_id)


def find_decider(account: ChannelAccount, sender_id: str, session: Session | None, *, is_alone: bool) -> str | None:
    """The actor as whom a sender decides what is asked in a chat of the account; None when they may not. is_alone: two
    talk there. In a group its admins may write as the group, which owns nothing.

    Entitled are senders who were paired as an operator, those that the account's `approvers` list, and with
    `KOMAND_APPROVERS=owners` whoever talks to us alone in that session.
    """
    pairing = Pairing.objects.select_related("user").filter(account=account, sender_id=sender_id).first()
    if pairing is not None and pairing.user is not None and sees_all(pairing.user):
        return f"user:{pairing.user.pk}"
    is_own = is_alone and session is not None and session.sender_id == sender_id and settings.KOMAND_APPROVERS == OWNERS
    if sender_id and (sender_id in _listed(account) or is_own):
        return f"sender:{session.channel if session else account.channel}:{sender_id}"
    return None


def may_allow_always(actor: str, session_id: UUID) -> bool:
    """Whether the actor's word may hold for ever, and so for everybody who uses the agent: operators' does, and that of
    senders whom the account of the session lists."""
    kind, _, name = actor.partition(":")
    if kind == "user":
        user = User.objects.filter(pk=name).first()
        return user is not None and sees_all(user)
    session = Session.objects.filter(pk=session_id).first()
    channel, _, sender_id = name.partition(":")
    if kind != "sender" or session is None or session.channel != channel:
        return False
    slugs = [adapter.slug for adapter in channels if adapter.name == channel]
    account = ChannelAccount.objects.filter(channel__in=slugs, account_id=session.account_id).first()
    return account is not None and sender_id in _listed(account)


def _listed(account: ChannelAccount) -> set[str]:
    return {str(approver) for approver in account.config.get("approvers") or ()}


def _owns(user: User | AnonymousUser, owner_id: int | None) -> bool:
    return user.is_active and owner_id is not None and owner_id == user.pk
