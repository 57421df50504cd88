"""Invitations: links by which a new user sets the first password. Signed, expiring, and valid once.

A link is bound to the unusable password that its user had when it was made: a newer link or a password voids it. It is
void, too, as soon as its user has logged in in another way or is deactivated.
"""

from datetime import timedelta

import jwt
from django.contrib.auth.models import User
from django.db import transaction

from audit_app import services as audit
from audit_app.kernel.errors import Conflict, Forbidden
from sessions_app.identity import signed_claims

DAYS = 7
_AUDIENCE = "komand:invitation"
_NOT_OPEN = "Only an active user without a password who has never logged in can be invited."


class InvitationRefused(Forbidden):
    """This invitation was used already, was replaced or has expired. Ask the person who sent it for a new one."""

    code = "invitation_refused"


def is_open(user: User) -> bool:
    """Return whether the user can be invited: active, without a password, and never logged in."""
    return user.is_active and user.last_login is None and not user.has_usable_password()


def invite(user: User) -> str:
    """Return the token of a new invitation, which voids earlier ones. Owns its transaction; audited.

    Raises Conflict unless `is_open`, also if the user has set a password or logged in since the row was read.
    """
    if not is_open(user):
        raise Conflict(_NOT_OPEN)
    earlier = user.password
    user.set_unusable_password()
    with transaction.atomic():
        if not _store_password(user, earlier):
            raise Conflict(_NOT_OPEN)
        audit.record("UserInvited", details={"user": user.username, "days": DAYS})
    return signed_claims.encode(user, _AUDIENCE, timedelta(days=DAYS), {})


def find_invited(token: str) -> User:
    """Return the user of a valid invitation. Raises InvitationRefused."""
    try:
        user = signed_claims.find_user(signed_claims.decode(token, _AUDIENCE))
    except jwt.InvalidTokenError:
        raise InvitationRefused from None
    if user is None or not is_open(user):
        raise InvitationRefused
    return user


def accept(invited: User, password: str) -> User:
    """Set the first password of a user of `find_invited`, and return the user. Owns its transaction; audited.

    Raises InvitationRefused if the invitation was used or replaced since.
    """
    earlier = invited.password
    invited.set_password(password)
    with transaction.atomic():
        if not _store_password(invited, earlier):
            raise InvitationRefused
        audit.record("InvitationAccepted", details={"user": invited.username}, actor=f"user:{invited.pk}")
    return invited


def _store_password(user: User, earlier: str) -> bool:
    """Store the user's password if the stored one is still the earlier one, and the user still `is_open`."""
    rows = User.objects.filter(pk=user.pk, password=earlier, is_active=True, last_login=None)
    return bool(rows.update(password=user.password))
