"""The roles that an installation begins with: Django groups with rights, which administrators change as they like."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from django.contrib.auth.models import Group, Permission, User
from django.db.models import Q, QuerySet

from agents_app.models import Agent
from agents_app.rights import CREATE_AGENTS, OPERATE_RUNS
from sessions_app.rights import CHANGE_SESSIONS, RESEND_DELIVERIES, REVOKE_SHARES, SHARE_CHATS
from tools_app.rights import CANCEL_EXECUTIONS, DECIDE_APPROVALS, STOP_AGENTS

_APPS = ("agents_app", "audit_app", "sessions_app", "tools_app")
_SECRETS = ("apikey", "credential", "modelprovider")

_PRODUCT = Q(content_type__app_label__in=_APPS)
_VIEWER = _PRODUCT & Q(codename__startswith="view_") & ~Q(content_type__model__in=_SECRETS)
_OPERATIONS = (
    *(DECIDE_APPROVALS, STOP_AGENTS, OPERATE_RUNS, CANCEL_EXECUTIONS),
    *(RESEND_DELIVERIES, CHANGE_SESSIONS, REVOKE_SHARES),
)
_PEOPLE = Q(content_type__app_label="auth", codename__in=("view_user", "add_user", "change_user", "view_group"))


def _of(*permissions: str) -> Q:
    names = [permission.split(".") for permission in permissions]
    return Q(*(Q(content_type__app_label=app, codename=codename) for app, codename in names), _connector=Q.OR)


VIEWER, OPERATOR, ADMINISTRATOR = "Viewer", "Operator", "Administrator"
AGENT_OWNER, CHAT_SHARER = "Agent owner", "Chat sharer"

# Name of the group → the permissions that it gets when it is created.
ROLES: Mapping[str, Q] = MappingProxyType(
    {
        VIEWER: _VIEWER,
        OPERATOR: _VIEWER | _of(*(right.permission for right in _OPERATIONS)),
        ADMINISTRATOR: _PRODUCT | _PEOPLE,
        AGENT_OWNER: _of(CREATE_AGENTS.permission),
        CHAT_SHARER: _of(SHARE_CHATS.permission),
    }
)

# Shown where a role is chosen. Administrators may have given a group of this name other rights since.
DESCRIPTIONS: Mapping[str, str] = MappingProxyType(
    {
        VIEWER: "sees everything in the admin but credentials and keys, and changes nothing",
        OPERATOR: "as Viewer; also decides approvals, stops agents, cancels and retries runs, sends messages again",
        ADMINISTRATOR: "changes every setting: agents, models, tools, channels, credentials; adds users without roles",
        AGENT_OWNER: "creates agents of their own, without the admin",
        CHAT_SHARER: "shares their own chats by links that people without a login can read",
    }
)


def open_admin(groups: Iterable[Group]) -> bool:
    """Return whether one of these groups is of use in the admin only."""
    return any(group.name not in (AGENT_OWNER, CHAT_SHARER) and group.permissions.exists() for group in groups)


def create_roles() -> None:
    """Create the roles that are missing, in the caller's transaction. Idempotent: a group that exists stays as it is.

    Users who own an agent become members of a new AGENT_OWNER, because making agents took no right before.
    """
    for name, wanted in ROLES.items():
        group, is_new = Group.objects.get_or_create(name=name)
        if is_new:
            group.permissions.set(Permission.objects.filter(wanted))
        if is_new and name == AGENT_OWNER:
            group.user_set.set(_agent_owners())


def _agent_owners() -> QuerySet[User]:
    return User.objects.filter(pk__in=Agent.objects.filter(retired_at=None, owner_id__isnull=False).values("owner_id"))
