"""Rights: who holds one, and what a refusal says and leaves behind."""

import pytest
from django.contrib.auth.models import AnonymousUser, Group, Permission, User

from agents_app.rights import CHANGE_AGENTS
from audit_app.models import AuditEntry
from audit_app.rights import MissingRight, holders, holds, require, rights
from tools_app.rights import DECIDE_APPROVALS

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


def permission(name: str) -> Permission:
    app, codename = name.split(".")
    return Permission.objects.get(content_type__app_label=app, codename=codename)


def test_every_right_is_a_permission_of_django() -> None:
    assert len(rights.names()) > 10
    for right in rights:
        permission(right.permission)


def test_staff_without_permissions_hold_no_right() -> None:
    user = User.objects.create_user("sam", is_staff=True)
    assert not [right for right in rights if holds(user, right)]
    assert not [right for right in rights if holds(AnonymousUser(), right)]


def test_a_right_comes_by_permission_by_group_and_with_a_superuser_but_not_to_the_inactive() -> None:
    by_permission, by_group = User.objects.create_user("ann"), User.objects.create_user("bob")
    by_permission.user_permissions.add(permission(DECIDE_APPROVALS.permission))
    group = Group.objects.create(name="deciders")
    group.permissions.add(permission(DECIDE_APPROVALS.permission))
    by_group.groups.add(group)
    superuser = User.objects.create_user("root", is_superuser=True)
    gone = User.objects.create_user("gone", is_superuser=True, is_active=False)
    User.objects.create_user("other", is_staff=True)

    assert set(holders(DECIDE_APPROVALS)) == {by_permission, by_group, superuser}
    assert holds(by_permission, DECIDE_APPROVALS)
    assert holds(by_group, DECIDE_APPROVALS)
    assert not holds(by_group, CHANGE_AGENTS)
    assert holds(superuser, CHANGE_AGENTS)
    assert not holds(gone, CHANGE_AGENTS)


def test_a_refusal_names_the_right_and_who_grants_it_and_is_audited() -> None:
    user = User.objects.create_user("sam", is_staff=True)
    with pytest.raises(MissingRight) as refused:
        require(user, CHANGE_AGENTS)
    assert refused.value.extra == {"right": "agents_app.change_agent"}
    assert "agents_app.change_agent" in refused.value.message
    assert "superuser" in refused.value.message
    entry = AuditEntry.objects.get(action="RightRefused")
    assert (entry.actor, entry.details) == (f"user:{user.pk}", {"right": "agents_app.change_agent"})
