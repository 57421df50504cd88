"""Invitations: single use, expiring, and never a way into the account of somebody who has one."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from audit_app.kernel.errors import Conflict
from sessions_app.identity import access_tokens, invitations, signed_claims
from sessions_app.identity.invitations import InvitationRefused
from tests.support.rest import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


@pytest.fixture
def bea() -> User:
    return User.objects.create_user("bea")


def test_an_invitation_works_once(bea: User) -> None:
    token = invitations.invite(bea)
    invitations.accept(invitations.find_invited(token), "correct horse 7")
    assert User.objects.get().check_password("correct horse 7")
    with pytest.raises(InvitationRefused):
        invitations.find_invited(token)


def test_of_two_uses_at_the_same_time_one_counts(bea: User) -> None:
    token = invitations.invite(bea)
    first, second = invitations.find_invited(token), invitations.find_invited(token)
    invitations.accept(first, "correct horse 7")
    with pytest.raises(InvitationRefused):
        invitations.accept(second, "another secret 8")
    assert User.objects.get().check_password("correct horse 7")


def test_an_invitation_expires(bea: User, monkeypatch: pytest.MonkeyPatch) -> None:
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now - timedelta(days=invitations.DAYS, minutes=1))
    token = invitations.invite(bea)
    monkeypatch.undo()
    with pytest.raises(InvitationRefused):
        invitations.find_invited(token)


def test_a_later_invitation_voids_an_earlier_one(bea: User) -> None:
    earlier = invitations.invite(bea)
    later = invitations.invite(bea)
    with pytest.raises(InvitationRefused):
        invitations.find_invited(earlier)
    assert invitations.find_invited(later) == bea


def test_an_invitation_made_from_an_older_row_leaves_the_chosen_password(bea: User) -> None:
    token, older = invitations.invite(bea), User.objects.get()
    invitations.accept(invitations.find_invited(token), "correct horse 7")
    with pytest.raises(Conflict):
        invitations.invite(older)
    assert User.objects.get().check_password("correct horse 7")


@pytest.mark.parametrize("change", [{"is_active": False}, {"last_login": timezone.now()}, {"password": "set-since"}])
def test_an_invitation_ends_when_its_user_has_another_way_in_or_none(bea: User, change: dict[str, object]) -> None:
    token = invitations.invite(bea)
    User.objects.update(**change)
    with pytest.raises(InvitationRefused):
        invitations.find_invited(token)


def test_users_with_a_password_and_users_of_a_provider_cannot_be_invited(bea: User) -> None:
    provided = User.objects.create_user("ann", last_login=timezone.now())
    for user in (make_user("bob"), provided, User(username="off", is_active=False)):
        with pytest.raises(Conflict):
            invitations.invite(user)


def test_other_tokens_of_a_user_are_no_invitation(bea: User) -> None:
    forged = invitations.invite(bea)[:-4] + "AAAA"
    session = signed_claims.encode(bea, "komand:session", timedelta(hours=1), {})
    access = access_tokens.open_login(bea).access
    for token in (forged, session, access, "", "a.b.c"):
        with pytest.raises(InvitationRefused):
            invitations.find_invited(token)
