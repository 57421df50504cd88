"""The senders for which a principal may write."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from audit_app import rights
from audit_app.rights import READ_AUDIT
from sessions_app.identity.principal import Principal
from sessions_app.rights import SEND_AS_ANYONE
from tests.support.rest import make_user
from tests.support.rights import make_operator

pytestmark = pytest.mark.django_db


def _principal(*scopes: str, **fields: Any) -> Principal:
    user = User(pk=7, username="alice", email="Alice@example.org", **fields)
    return Principal(user, "api_key", frozenset(scopes))


@pytest.mark.parametrize("sender_id", ["7", "alice", "alice@example.org", "ALICE@example.org"])
def test_a_user_may_send_under_own_names(sender_id):
    assert _principal().may_send_as(sender_id)


@pytest.mark.parametrize("sender_id", ["", "8", "bob", "07", "7 ", "٧"])
def test_a_user_may_not_send_under_other_names(sender_id):
    assert not _principal().may_send_as(sender_id)


def test_a_user_named_like_anothers_id_is_not_that_other():
    assert not Principal(User(pk=9, username="7"), "jwt").is_self("7")


def test_a_user_without_an_address_is_not_the_empty_sender():
    assert not Principal(User(pk=9, username="bob", email=""), "jwt").is_self("")


def test_the_right_and_the_scope_let_send_as_any_sender():
    assert _principal("senders:any").may_send_as("bob")
    assert Principal(make_operator("carol", SEND_AS_ANYONE), "jwt").may_send_as("bob")
    assert not Principal(make_user("sam", is_staff=True), "jwt").may_send_as("bob")


def test_a_key_writes_only_with_a_scope_that_says_so():
    assert _principal("all").can_write
    assert not _principal().can_write
    assert not _principal("senders:any").can_write
    assert not _principal("read").can_write
    assert Principal(User(pk=9, username="bob"), "jwt").can_write


def test_a_key_uses_rights_only_with_the_scope_rights():
    def admin() -> User:
        return User(pk=7, username="root", is_superuser=True)

    assert Principal(admin(), "jwt").holds(READ_AUDIT)
    assert Principal(admin(), "api_key", frozenset({"read", "rights"})).holds(READ_AUDIT)
    narrow = Principal(admin(), "api_key", frozenset({"read"}))
    assert not narrow.holds(READ_AUDIT)
    assert not rights.holds(narrow.user, READ_AUDIT)


def test_the_refusal_of_a_narrow_key_names_the_scope():
    narrow = Principal(User(pk=7, username="root", is_superuser=True), "api_key", frozenset({"read"}))
    with pytest.raises(rights.MissingRight, match=r"audit_app.view_auditentry\. This API key lacks the scope `rights`"):
        narrow.require(READ_AUDIT)
