"""Sessions whose sender id names a user: nobody else can open, own or block them."""

import pytest
from django.contrib.auth.models import User

from audit_app.kernel.errors import Forbidden
from audit_app.models import AuditEntry
from sessions_app import services
from sessions_app.identity.api_keys import authenticate_key, create_api_key
from sessions_app.identity.principal import Principal
from sessions_app.models import Session, Turn
from sessions_app.services import WEB_CHAT, NewMessage
from sessions_app.surfaces.rest.consumers import accept_message
from sessions_app.surfaces.signalr import commands as hub
from tests.support.rest import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "default_agent"), pytest.mark.one_database]


@pytest.fixture
def bob() -> User:
    return make_user("bob")


@pytest.fixture
def gateway() -> Principal:
    key = create_api_key(make_user("gateway"), "k", scopes=["rest", "senders:any"])
    return authenticate_key(key.key)


def write(principal: Principal, sender_id: object, account: str = "default") -> Session:
    body = {"senderId": str(sender_id), "accountId": account, "text": "hello"}
    return Session.objects.get(pk=accept_message(principal, body, "").session_id)


def usurped(gateway: Principal, sender_id: object) -> Session:
    """Return a session under the sender id that the gateway opened in a release without this guard."""
    key = f"{WEB_CHAT}:default:{sender_id}"
    opened = services.open_session(owner=gateway.user, title="taken")
    Session.objects.filter(pk=opened.pk).update(key=key, sender_id=str(sender_id))
    return opened


@pytest.mark.parametrize("account", ["default", "shop"])
@pytest.mark.parametrize("name", ["id", "bob", "BOB", "bob@example.org"])
def test_a_key_for_any_sender_cannot_write_as_another_user(gateway, bob, name, account):
    User.objects.filter(pk=bob.pk).update(email="bob@example.org")
    sender_id = str(bob.pk) if name == "id" else name
    with pytest.raises(Forbidden, match="user of this installation") as refusal:
        write(gateway, sender_id, account)
    assert refusal.value.code == "foreign_sender"
    assert not Session.objects.exists()
    assert AuditEntry.objects.get(action="SenderRefused").details == {"sender_id": sender_id}


def test_it_still_writes_as_senders_who_are_no_users(gateway, bob):
    for sender_id in ("customer-17", "9" * 30, "٧"):
        assert write(gateway, sender_id).owner == gateway.user


def test_a_user_gets_the_own_session_back_from_one_who_opened_it_first(gateway, bob):
    taken = usurped(gateway, bob.pk)
    mine = write(Principal(bob, "jwt"), bob.pk)
    assert (mine.owner, mine.key) == (bob, f"{WEB_CHAT}:default:{bob.pk}")
    taken.refresh_from_db()
    assert taken.owner == gateway.user and taken.key != mine.key
    assert not Turn.objects.filter(session=taken).exists()
    assert AuditEntry.objects.filter(action="SessionSetAside").count() == 1


def test_the_hub_does_not_write_into_a_session_that_another_opened(gateway, bob):
    taken = usurped(gateway, bob.pk)
    subscription = hub.send_message(Principal(bob, "jwt"), "default", "hello")
    assert subscription.session_id != taken.pk
    assert Session.objects.get(pk=subscription.session_id).owner == bob


def test_a_user_who_comes_later_gets_the_session_of_the_own_name(gateway):
    theirs = write(gateway, "carol")
    carol = make_user("carol")
    mine = write(Principal(carol, "jwt"), "carol")
    assert mine.pk != theirs.pk and mine.owner == carol


def test_two_users_named_alike_cannot_take_each_others_session():
    bob, other = make_user("bob@example.org"), make_user("bert")
    User.objects.filter(pk=other.pk).update(email="bob@example.org")
    other.refresh_from_db()
    mine = write(Principal(bob, "jwt"), "bob@example.org")
    with pytest.raises(Exception, match="no such session"):
        write(Principal(other, "jwt"), "bob@example.org")
    mine.refresh_from_db()
    assert mine.owner == bob


def test_a_platforms_sender_ids_name_no_users_here(bob):
    message = NewMessage("Telegram", "main", str(bob.pk), "Zoe", "hello")
    owner = make_user("paired")
    assert services.receive(message, owner=owner).session_key == f"Telegram:main:{bob.pk}"
