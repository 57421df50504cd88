"""The senders for which a principal may write."""

import pytest
from django.contrib.auth.models import User

from sessions_app.identity.principal import Principal


def _principal(*scopes: str, is_staff: bool = False) -> Principal:
    user = User(pk=7, username="alice", email="Alice@example.org", is_staff=is_staff)
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


def test_staff_and_the_scope_may_send_as_any_sender():
    assert _principal("senders:any").may_send_as("bob")
    assert _principal(is_staff=True).may_send_as("bob")


def test_only_the_read_scope_forbids_writing():
    assert _principal().can_write
    assert _principal("senders:any").can_write
    assert not _principal("read").can_write
