"""Users with rights, for tests."""

from typing import Any

from django.contrib.auth.models import Permission, User

from agents_app.rights import CREATE_AGENTS
from audit_app.rights import Right, rights
from tests.support.rest import make_user


def make_operator(name: str = "op", *given: Right, **fields: Any) -> User:
    """Return a new user who holds the given rights, every right by default, and is not staff."""
    return grant(make_user(name, **fields), *(given or rights))


def make_agent_owner(name: str) -> User:
    """Return a new user who may create agents."""
    return make_operator(name, CREATE_AGENTS)


def grant(user: User, *given: Right) -> User:
    """Give the user these rights. Return the user as they are stored now, without cached permissions."""
    wanted = {right.permission for right in given}
    found = [
        key
        for app, codename, key in Permission.objects.values_list("content_type__app_label", "codename", "pk")
        if f"{app}.{codename}" in wanted
    ]
    assert len(found) == len(wanted), wanted
    user.user_permissions.add(*found)
    return User.objects.get(pk=user.pk)
