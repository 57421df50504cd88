"""Decides which credentials a call may use, and opens them for it.

A credential is used in runs of its owner, and in runs of others only through the agents that the owner has shared it
with. It is sent only to its hosts. One that names none goes nowhere, except to the host that the declaration of a skill
names. Checked when a call is planned, and again when it is made.
"""

from django.contrib.auth.models import User
from django.db import transaction

from audit_app import services as audit
from audit_app.kernel.errors import Forbidden
from tools_app.models import Credential
from tools_app.policy import patterns, targets
from tools_app.rights import MANAGE_CREDENTIALS
from tools_app.secrets import credentials
from tools_app.types.credential_use import INSTALLATION, CredentialUse

MOST = 4  # credentials of one call
_LONGEST_SHOWN = 40


class CredentialRefused(Forbidden):
    """The call may not use this credential."""

    code = "credential_refused"


def find_refusal(use: CredentialUse, *, agent_id: str, actor: str) -> str:
    """Return why a call may not use the credentials, with what to do about it; empty if it may.

    agent_id, actor: of the run.
    """
    if not use.names:
        return ""
    if len(use.names) > MOST:
        return f"A call uses at most {MOST} credentials."
    if use.owner != INSTALLATION and _owner_id(use) is None:
        return "Only users have credentials, and the sender of this message is not a user."
    rows = {row.name: row for row in Credential.objects.filter(owner_id=_owner_id(use), name__in=use.names)}
    return next((why for name in use.names if (why := _refuse(name, rows.get(name), use, agent_id, actor))), "")


def record_refusal(use: CredentialUse, why: str, *, agent_id: str, actor: str) -> None:
    """Audit a refusal. Joins the caller's transaction if there is one."""
    details = {"names": list(use.names), "owner": use.owner, "url": use.url, "reason": why}
    audit.record("CredentialRefused", actor=actor, agent_id=agent_id, details=details)


def open_credentials(use: CredentialUse, *, agent_id: str, actor: str, purpose: str) -> dict[str, str]:
    """Return the values by name, for immediate use: never store, log or show them. Owns its transactions.

    purpose: for the audit log, such as `skill weather`.
    Raises CredentialRefused (audited), UnknownCredential, SealError.
    """
    if why := find_refusal(use, agent_id=agent_id, actor=actor):
        with transaction.atomic():
            record_refusal(use, why, agent_id=agent_id, actor=actor)
        raise CredentialRefused(why)
    owner_id = _owner_id(use)
    return {name: credentials.use_credential(name, owner_id=owner_id, purpose=purpose) for name in use.names}


def describe(use: CredentialUse) -> str:
    """Return the credentials with their owner, for an approver: `credential “pay” of alice`. Empty for none."""
    if not use.names:
        return ""
    names = ", ".join(f"“{name[:_LONGEST_SHOWN]}”" for name in use.names[:2])
    more = f" and {len(use.names) - 2} more" if len(use.names) > 2 else ""
    return f"credential{'s' if len(use.names) > 1 else ''} {names}{more} of {_owner_name(use)}"


def _refuse(name: str, row: Credential | None, use: CredentialUse, agent_id: str, actor: str) -> str:
    if row is None:
        return f"There is no credential {name!r}. Store it, or name another one."
    is_own = use.owner == actor
    if not is_own and agent_id not in row.agents:
        sharer = f"A user with the right {MANAGE_CREDENTIALS.permission}" if use.owner == INSTALLATION else "Its owner"
        return (
            f"The credential {name!r} of {_owner_name(use)} is not shared with the agent {agent_id}, so no run of "
            f"another user may use it. {sharer} can share it."
        )
    if not row.hosts:
        if use.has_fixed_host:
            return ""
        return f"The credential {name!r} names no hosts, so it is sent nowhere. Store it again with its hosts."
    url = targets.read_url(use.url)
    if url is not None and patterns.find_host(row.hosts, url):
        return ""
    place = url.host if url else "a URL that cannot be parsed"
    return f"The credential {name!r} must not be sent to {place}, which is not one of its hosts."


def _owner_id(use: CredentialUse) -> int | None:
    """Return the id of the user who owns the credentials, None for the installation and other actors."""
    kind, _, number = use.owner.partition(":")
    return int(number) if kind == "user" and number.isdecimal() else None


def _owner_name(use: CredentialUse) -> str:
    if use.owner == INSTALLATION:
        return "the installation"
    user = User.objects.filter(pk=_owner_id(use) or 0).first()
    return user.get_username()[:_LONGEST_SHOWN] if user else "a deleted user"
