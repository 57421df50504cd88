"""Permissions to see and decide requests for approval, on pages and in channels, and to configure agents.

Operators (staff) see and decide every request, including those of their own sessions. Other users see the requests of
their own sessions; `KOMAND_APPROVERS=owners` lets them decide those too, but not with "always".
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
    """Return whether the user may see the requests of all users."""
    return user.is_active and user.is_staff


def may_see(user: User | AnonymousUser, owner_id: int | None) -> bool:
    """Return whether the user may see a request. owner_id: the owner of its session, None if no local user is."""
    return sees_all(user) or _owns(user, owner_id)


def may_decide(user: User | AnonymousUser, owner_id: int | None) -> bool:
    """Return whether the user may decide a request. owner_id: as for `may_see`."""
    return bool(allowed_decisions(user, owner_id))


def allowed_decisions(user: User | AnonymousUser, owner_id: int | None) -> tuple[Decision, ...]:
    """Return the decisions that the user may make on a request, empty if they may not decide.

    owner_id: the user who owns the request's session; None if no local user does.
    """
    if sees_all(user):
        return _EVERYTHING
    return _FOR_NOW if _owns(user, owner_id) and settings.KOMAND_APPROVERS == OWNERS else ()


def allowed_decisions_in_chat(account: ChannelAccount, session: Session, *, is_alone: bool) -> tuple[Decision, ...]:
    """Return the decisions that can be made in a chat of the account on a request of the session, perhaps none.

    is_alone: a private chat, where its sender decides. A group has no owner: listed approvers and operators decide.
    """
    if is_alone:
        actor = find_decider(account, session.sender_id, session, is_alone=True)
        if actor is None:
            return ()
        return _EVERYTHING if may_allow_always(actor, session.pk) else _FOR_NOW
    operators = Pairing.objects.filter(account=account, user__is_active=True, user__is_staff=True)
    return _EVERYTHING if _listed(account) or operators.exists() else ()


def may_change(user: User | AnonymousUser, agent: Agent) -> bool:
    """Return whether the user may configure the agent: operators and its owner may."""
    return sees_all(user) or _owns(user, agent.owner_id)


def find_decider(account: ChannelAccount, sender_id: str, session: Session | None, *, is_alone: bool) -> str | None:
    """Return the actor as which a sender decides requests in a chat of the account, None if the sender may not decide.

    is_alone: a private chat. In a group, admins may write as the group itself, which owns no session.
    Entitled are senders paired as an operator, those in the account's `approvers`, and with `KOMAND_APPROVERS=owners`
    the sender of the session in a private chat.
    """
    pairing = Pairing.objects.select_related("user").filter(account=account, sender_id=sender_id).first()
    if pairing is not None and pairing.user is not None and sees_all(pairing.user):
        return f"user:{pairing.user.pk}"
    is_own = is_alone and session is not None and session.sender_id == sender_id and settings.KOMAND_APPROVERS == OWNERS
    if sender_id and (sender_id in _listed(account) or is_own):
        return f"sender:{session.channel if session else account.channel}:{sender_id}"
    return None


def may_allow_always(actor: str, session_id: UUID) -> bool:
    """Return whether the actor may decide "always", which applies to all users of the agent.

    Operators may, and senders in the `approvers` of the session's account.
    """
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
