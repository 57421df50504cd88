"""API keys and users in the admin: keys shown once, permissions granted by superusers only."""

import re

import pytest
from django.contrib.auth.models import Group, Permission, User

from audit_app.models import AuditEntry
from sessions_app.identity import roles
from sessions_app.identity.api_keys import authenticate_key, create_api_key
from sessions_app.identity.roles import create_roles
from sessions_app.models import ApiKey
from tests.integration.agents_app.admin.test_pending_approvals import SURE

pytestmark = pytest.mark.one_database

KEYS = "/admin/sessions_app/apikey/"
USERS = "/admin/auth/user/"


def shown_key(response) -> str:
    return re.search(r'value="(sk-user-[A-Za-z0-9]+)"', response.content.decode())[1]


def test_an_added_user_logs_in_and_has_the_chosen_role(pages, client):
    role = Group.objects.create(name="Operator")
    page = pages.get(f"{USERS}add/").content.decode()
    for name in ("username", "email", "password1", "password2", "groups", "is_staff"):
        assert f'name="{name}"' in page
    fields = {"username": "bea", "email": "bea@example.com", "usable_password": "true", "groups": [role.pk]}
    fields |= {"password1": "correct horse 7", "password2": "correct horse 7"}
    assert pages.post(f"{USERS}add/", fields).status_code == 302
    user = User.objects.get(username="bea")
    assert list(user.groups.all()) == [role]
    client.post("/login", {"username": "bea", "password": "correct horse 7"})
    assert client.session["_auth_user_id"] == str(user.pk)
    assert pages.get(f"{USERS}{user.pk}/change/").status_code == 200


def link_of(response) -> str:
    return re.search(r'value="http://testserver(/login/invitation/[^"]+)"', response.content.decode())[1]


@pytest.fixture
def invite(pages):
    """Return a function that adds a user by invitation and returns the link."""

    def add(name: str = "bea", **fields: object) -> str:
        response = pages.post(f"{USERS}add/", {"username": name, "usable_password": "invitation", **fields})
        assert "no-store" in response["Cache-Control"]
        return link_of(response)

    return add


CHOSEN = {"new_password1": "correct horse 7", "new_password2": "correct horse 7"}


def test_an_invited_user_sets_the_password_and_is_logged_in(invite, pages, client, operator):
    link = invite()
    user = User.objects.get(username="bea")
    assert not user.has_usable_password() and not user.is_staff
    assert "Welcome, bea" in client.get(link).content.decode()
    answer = client.post(link, CHOSEN)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/")
    assert client.session["_auth_user_id"] == str(user.pk)
    user.refresh_from_db()
    assert user.check_password("correct horse 7")
    by = {
        entry.action: entry.actor
        for entry in AuditEntry.objects.filter(action__in=("UserInvited", "InvitationAccepted"))
    }
    assert by == {"UserInvited": f"user:{operator.pk}", "InvitationAccepted": f"user:{user.pk}"}
    assert link not in pages.get(f"{USERS}{user.pk}/change/").content.decode()
    token = link.rpartition("/")[2]
    assert token not in str(list(AuditEntry.objects.values())) + str(dict(pages.session.items()))


def test_an_invitation_without_an_own_password_or_with_a_weak_one_sets_none(invite, client):
    link = invite()
    for chosen in ({"new_password1": "123", "new_password2": "123"}, {**CHOSEN, "new_password2": "other"}):
        answer = client.post(link, chosen)
        assert answer.status_code == 400 and 'id="problem"' in answer.content.decode()
    assert not User.objects.get(username="bea").has_usable_password()
    assert client.get("/account").status_code == 302


def test_a_role_of_the_admin_opens_it(invite):
    create_roles()
    operators, owners = Group.objects.get(name="Operator"), Group.objects.get(name="Agent owner")
    invite("ann", groups=[operators.pk])
    invite("bob", groups=[owners.pk])
    assert {user.username: user.is_staff for user in User.objects.filter(username__in=("ann", "bob"))} == {
        "ann": True,
        "bob": False,
    }


def test_roles_are_told_with_what_they_allow(pages, operator):
    create_roles()
    for page in (f"{USERS}add/", f"{USERS}{operator.pk}/change/"):
        shown = pages.get(page).content.decode()
        assert all(text in shown for text in roles.DESCRIPTIONS.values())


def test_an_address_of_another_user_is_refused(pages, operator):
    User.objects.filter(pk=operator.pk).update(email="ada@example.com")
    fields = {"username": "bea", "email": "ADA@example.com", "usable_password": "invitation"}
    assert "Another user has this address" in pages.post(f"{USERS}add/", fields).content.decode()
    assert not User.objects.filter(username="bea").exists()


def test_a_new_invitation_replaces_the_earlier_one(invite, pages, client):
    link, user = invite(), User.objects.get(username="bea")
    newer = link_of(pages.post(f"{USERS}{user.pk}/invite/", SURE))
    assert newer != link
    assert client.get(link).status_code == 403
    assert client.get(newer).status_code == 200


def test_only_users_who_never_logged_in_are_invited_again(invite, pages, client, operator):
    link, user = invite(), User.objects.get(username="bea")
    assert "/invite/" in pages.get(f"{USERS}{user.pk}/change/").content.decode()
    client.post(link, CHOSEN)
    assert "/invite/" not in pages.get(f"{USERS}{user.pk}/change/").content.decode()
    for pk in (user.pk, operator.pk):
        assert pages.post(f"{USERS}{pk}/invite/", SURE).status_code == 403


def test_staff_invite_no_other_staff(invite, staff):
    create_roles()
    invite("ann", groups=[Group.objects.get(name="Operator").pk])
    invite("bea")
    browser = staff("auth.view_user", "auth.change_user")
    assert browser.post(f"{USERS}{User.objects.get(username='ann').pk}/invite/", SURE).status_code == 403
    assert browser.post(f"{USERS}{User.objects.get(username='bea').pk}/invite/", SURE).status_code == 200


def test_staff_who_may_add_users_give_them_no_role(staff):
    page = staff("auth.add_user", "auth.change_user").get(f"{USERS}add/").content.decode()
    assert 'name="username"' in page and 'name="groups"' not in page and 'name="is_staff"' not in page


def test_a_new_key_works_and_is_shown_once(pages, operator):
    response = pages.post(f"{KEYS}add/", {"user": operator.pk, "name": "ci", "scopes": ["read"]})
    key = shown_key(response)
    assert authenticate_key(key).user == operator
    assert "no-store" in response["Cache-Control"]
    row = ApiKey.objects.get()
    for address in (KEYS, f"{KEYS}{row.pk}/change/", "/admin/"):
        assert key not in pages.get(address).content.decode()
    assert key not in str(list(AuditEntry.objects.values())) + str(dict(pages.session.items()))
    assert AuditEntry.objects.get(action="ApiKeyCreated").actor == f"user:{operator.pk}"


def test_a_key_that_would_be_over_already_is_refused(pages, operator):
    fields = {"user": operator.pk, "name": "ci", "expires_at_0": "2001-01-01", "expires_at_1": "00:00:00"}
    assert "expire in the past" in pages.post(f"{KEYS}add/", fields).content.decode()
    assert not ApiKey.objects.exists()


def test_staff_make_keys_for_themselves_and_for_people_but_not_for_other_staff(staff, operator):
    people = User.objects.create_user("people")
    client = staff("sessions_app.add_apikey", "sessions_app.view_apikey")
    me = User.objects.get(username="staff")
    for user, made in [(operator, 0), (people, 1), (me, 2)]:
        client.post(f"{KEYS}add/", {"user": user.pk, "name": "k", "scopes": ["all"]})
        assert ApiKey.objects.count() == made, user


def test_a_revoked_key_is_refused_from_then_on(pages, operator):
    made = create_api_key(operator, "old", scopes=["all"])
    pages.post(f"{KEYS}{made.row.pk}/revoke/", {"_form_submitted": "True"})
    made.row.refresh_from_db()
    assert made.row.revoked_at is not None
    assert AuditEntry.objects.get(action="ApiKeyRevoked").actor == f"user:{operator.pk}"


def test_several_keys_are_revoked_after_asking(pages, operator):
    rows = [create_api_key(operator, name, scopes=["all"]).row for name in "ab"]
    selected = {"action": "revoke_selected", "_selected_action": [str(row.pk) for row in rows]}
    assert "Revoke these keys?" in pages.post(KEYS, selected).content.decode()
    assert not ApiKey.objects.exclude(revoked_at=None).exists()
    pages.post(KEYS, {**selected, "confirmed": "yes"})
    assert ApiKey.objects.exclude(revoked_at=None).count() == 2


def test_keys_are_revoked_only_by_who_may(staff, operator):
    row = create_api_key(operator, "k", scopes=["all"]).row
    viewer = staff("sessions_app.view_apikey")
    assert viewer.post(f"{KEYS}{row.pk}/revoke/", {"_form_submitted": "True"}).status_code == 403
    row.refresh_from_db()
    assert row.revoked_at is None


def user_form(user: User, **changes):
    rows = {"cost_cap-TOTAL_FORMS": "0", "cost_cap-INITIAL_FORMS": "0"}
    return {"username": user.username, "email": "new@localhost", "is_active": "on", **rows, **changes}


def test_staff_who_look_after_users_cannot_give_rights(staff):
    people = User.objects.create_user("people")
    client = staff("auth.change_user", "auth.view_user")
    every = list(Permission.objects.values_list("pk", flat=True))
    for user in (people, User.objects.get(username="staff")):
        client.post(
            f"{USERS}{user.pk}/change/", user_form(user, is_superuser="on", is_staff="on", user_permissions=every)
        )
        user.refresh_from_db()
        assert user.email == "new@localhost" and not user.is_superuser
        assert user.user_permissions.count() in (0, 2)
    assert not User.objects.get(username="people").is_staff


def test_staff_cannot_touch_a_superuser(staff, operator):
    client = staff("auth.change_user", "auth.delete_user", "auth.view_user")
    assert client.post(f"{USERS}{operator.pk}/change/", user_form(operator)).status_code == 403
    assert client.post(f"{USERS}{operator.pk}/password/", {"password1": "x", "password2": "x"}).status_code == 403
    assert client.post(f"{USERS}{operator.pk}/delete/", {"post": "yes"}).status_code == 403
    client.post(USERS, {"action": "delete_selected", "_selected_action": [operator.pk], "post": "yes"})
    assert User.objects.filter(pk=operator.pk, email="operator@localhost").exists()


def test_changes_of_users_are_audited(pages, operator):
    people = User.objects.create_user("people")
    pages.post(f"{USERS}{people.pk}/change/", user_form(people, date_joined_0="2026-01-01", date_joined_1="00:00:00"))
    entry = AuditEntry.objects.get(action="UserUpdated")
    assert (entry.actor, entry.details["name"]) == (f"user:{operator.pk}", "people")


def test_staff_without_the_right_see_no_users_and_no_keys(staff):
    without_permission = staff()
    assert without_permission.get(USERS).status_code == without_permission.get(KEYS).status_code == 403


def test_a_key_without_scopes_is_refused_once_and_is_for_oneself_by_default(pages, operator):
    form = pages.post(f"{KEYS}add/", {"user": operator.pk, "name": "ci"}).context["adminform"].form
    assert form.errors == {"scopes": ["This field is required."]}
    assert pages.get(f"{KEYS}add/").context["adminform"].form["user"].value() == operator.pk
