"""Rights: what a user may do with objects of others and with the installation.

A right is a Django permission with a description, so that the admin, REST, pages, chats and protocols ask the same
question. Each app declares the rights over its own objects in its `rights` module. `is_staff` opens the admin and
grants nothing. Superusers hold every right.
"""

from dataclasses import dataclass

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import QuerySet

from audit_app import hot_queries
from audit_app.kernel.errors import Forbidden
from audit_app.kernel.registry import Registry
from audit_app.services import record

_REMEDY = ", which a superuser can grant under Users or Groups in the admin."
_WITHHELD = "_komand_rights_withheld"
_ALL_PERMISSIONS = "_perm_cache"  # of Django's ModelBackend
_PERMISSION_CACHES = (_ALL_PERMISSIONS, "_user_perm_cache", "_group_perm_cache")
_MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"


@dataclass(frozen=True)
class Right:
    """A right over objects of others.

    permission: `<app label>.<codename>`.
    description: completes "You may not …".
    """

    permission: str
    description: str


rights: Registry[Right] = Registry("right", lambda right: right.permission)


class MissingRight(Forbidden):
    """A right is missing. The message names it and who can grant it; `extra` has `right`, the permission."""

    code = "missing_right"

    def __init__(self, right: Right, remedy: str = _REMEDY) -> None:
        needed = f"You may not {right.description}. That takes the right {right.permission}"
        super().__init__(f"{needed}{remedy}", right=right.permission)


def declare_right(permission: str, description: str) -> Right:
    """Register a right and return it. Raises ValueError for a permission that another right has."""
    return rights.register(Right(permission, description))


def holds(user: User | AnonymousUser, right: Right) -> bool:
    """Return whether the user is active and has the right, by permission, group or as a superuser.

    A user's permissions are read once, with two statements, and kept with the user object, where Django looks first.
    """
    if not user.is_active or hasattr(user, _WITHHELD):
        return False
    if not user.is_superuser and not hasattr(user, _ALL_PERMISSIONS):
        setattr(user, _ALL_PERMISSIONS, _permissions_of(user.pk))
    return user.has_perm(right.permission)


def _permissions_of(user_id: int) -> set[str]:
    found = hot_queries.USER_PERMISSIONS.rows(user_id=user_id) + hot_queries.GROUP_PERMISSIONS.rows(user_id=user_id)
    return {f"{app_label}.{codename}" for app_label, codename in found}


def withhold(user: User, reason: str) -> None:
    """Let this user object hold no right, as its credential does not extend to rights. Changes nothing in the database.

    reason: a sentence for the refusal that says what to do.
    """
    setattr(user, _WITHHELD, reason)


def renew(user: User, stored: User) -> None:
    """Let a user object that outlives its request, as of an open connection, hold the rights of one read just now."""
    user.is_active, user.is_superuser = stored.is_active, stored.is_superuser
    for cached in _PERMISSION_CACHES:
        user.__dict__.pop(cached, None)


def require(user: User | AnonymousUser, right: Right) -> None:
    """Raise MissingRight unless the user has the right. The refusal is audited as `RightRefused`.

    Call it outside of a transaction: what the exception rolls back would take the audit entry with it.
    """
    if not holds(user, right):
        record("RightRefused", actor=f"user:{user.pk}" if user.pk else "", details={"right": right.permission})
        withheld = getattr(user, _WITHHELD, "")
        raise MissingRight(right, f". {withheld}") if withheld else MissingRight(right)


def holders(right: Right) -> QuerySet[User]:
    """Return the active users who have the right, superusers among them."""
    return User.objects.with_perm(right.permission, backend=_MODEL_BACKEND)


READ_AUDIT = declare_right("audit_app.view_auditentry", "read the audit log")
