"""Users of an OpenID Connect provider: found by issuer and subject, created at their first login, given their roles."""

import logging
import re
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Q

from audit_app import services as audit
from audit_app.kernel.errors import Forbidden
from sessions_app.models import ExternalIdentity

logger = logging.getLogger(__name__)

_LONGEST_NAME = 120


class NotAdmitted(Forbidden):
    """Your account may not use this installation. Whoever manages your groups can add you to one that may."""

    code = "not_admitted"


def find_or_create(claims: Mapping[str, Any]) -> User:
    """Return the user of verified claims, with the roles that its groups have now. Owns its transaction; audited.

    Raises NotAdmitted if the groups do not include one that may log in, or the user was deactivated here.
    """
    groups = _groups(claims)
    if settings.KOMAND_OIDC_ALLOWED_GROUPS and not groups & set(settings.KOMAND_OIDC_ALLOWED_GROUPS):
        audit.record("NotAdmitted", details={"subject": str(claims["sub"])})
        raise NotAdmitted
    with transaction.atomic():
        user = _known(claims) or _with_verified_address(claims) or _new(claims)
        _set_roles(user, groups)
    if not user.is_active:
        audit.record("NotAdmitted", details={"subject": str(claims["sub"])}, actor=f"user:{user.pk}")
        raise NotAdmitted("Your account here is deactivated. An administrator can activate it under Users.")
    return user


def has_account(user: User) -> bool:
    """Return whether the user has an account at the provider that is set."""
    return ExternalIdentity.objects.filter(user=user, issuer=settings.KOMAND_OIDC_ISSUER).exists()


def is_of(user: User, claims: Mapping[str, Any]) -> bool:
    """Return whether the verified claims are about the user."""
    return bool(_identities(claims).filter(user=user).exists())


def _identities(claims: Mapping[str, Any]) -> Any:
    return ExternalIdentity.objects.filter(issuer=settings.KOMAND_OIDC_ISSUER, subject=str(claims["sub"]))


def _known(claims: Mapping[str, Any]) -> User | None:
    identity = _identities(claims).select_related("user").first()
    return identity.user if identity else None


def _with_verified_address(claims: Mapping[str, Any]) -> User | None:
    """Return the one user with the verified e-mail address, now bound to the identity, if the settings allow that."""
    if not settings.KOMAND_OIDC_MATCH_EMAIL or not (address := _verified_address(claims)):
        return None
    users = list(User.objects.filter(email__iexact=address, is_active=True)[:2])
    if len(users) != 1 or ExternalIdentity.objects.filter(user=users[0]).exists():
        return None
    _bind(users[0], claims, "ExternalIdentityBound")
    return users[0]


def _new(claims: Mapping[str, Any]) -> User:
    """Create a user without a password. Neither name nor address may be those of another user."""
    address = _verified_address(claims)
    taken = User.objects.filter(Q(email__iexact=address) | Q(username__iexact=address)).exists()
    user = User(username=_free_name(claims), email="" if taken else address)
    user.first_name = str(claims.get("given_name") or claims.get("name") or "")[:150]
    user.last_name = str(claims.get("given_name") and claims.get("family_name") or "")[:150]
    user.set_unusable_password()
    user.save()
    _bind(user, claims, "ExternalUserCreated")
    return user


def _bind(user: User, claims: Mapping[str, Any], action: str) -> None:
    issuer, subject = settings.KOMAND_OIDC_ISSUER, str(claims["sub"])
    ExternalIdentity.objects.create(user=user, issuer=issuer, subject=subject)
    audit.record(action, actor=f"user:{user.pk}", details={"issuer": issuer, "subject": subject})


def _verified_address(claims: Mapping[str, Any]) -> str:
    return str(claims.get("email") or "")[:254] if claims.get("email_verified") is True else ""


def _free_name(claims: Mapping[str, Any]) -> str:
    wanted = str(claims.get("preferred_username") or _verified_address(claims) or f"user-{claims['sub']}")
    name = re.sub(r"[^\w.@+-]", "-", wanted)[:_LONGEST_NAME]
    if name.isdigit():  # ids of users are digits
        name = f"user-{name}"
    names = (name, *(f"{name}-{number}" for number in range(2, 1000)))
    return next(name for name in names if not User.objects.filter(Q(username__iexact=name) | Q(email__iexact=name)))


def _groups(claims: Mapping[str, Any]) -> set[str]:
    groups = claims.get(settings.KOMAND_OIDC_GROUPS_CLAIM) or ()
    return {str(group) for group in groups} if isinstance(groups, list | tuple) else {str(groups)}


def _set_roles(user: User, groups: set[str]) -> None:
    """Give the user the roles of the groups, and take away those that the settings map and that it has no more."""
    mapped = settings.KOMAND_OIDC_ROLES
    wanted = {role for group, role in mapped if group in groups}
    roles = {role.name: role for role in Group.objects.filter(name__in={role for _, role in mapped})}
    if unknown := wanted - set(roles):
        logger.warning("KOMAND_OIDC_ROLES names groups that do not exist here: %s", ", ".join(sorted(unknown)))
    had = set(user.groups.filter(name__in=list(roles)).values_list("name", flat=True))
    added, removed = (wanted & set(roles)) - had, had - wanted
    user.groups.add(*(roles[name] for name in added))
    user.groups.remove(*(roles[name] for name in removed))
    staff, was_staff = settings.KOMAND_OIDC_STAFF_GROUPS, user.is_staff
    if staff and not user.is_superuser:
        user.is_staff = bool(groups & set(staff))
        user.save(update_fields=["is_staff"])
    if added or removed or user.is_staff != was_staff:
        changed = {"added": sorted(added), "removed": sorted(removed), "is_staff": user.is_staff}
        audit.record("RolesChanged", actor="system", details={"user": user.pk, **changed})
