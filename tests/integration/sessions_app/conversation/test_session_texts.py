"""Texts of a session by author, and the origins of those that no user here has written."""

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents_app.models import Agent, ModelProvider
from agents_app.types import Message
from sessions_app.conversation.inbound_record import InboundRecord
from sessions_app.conversation.session_texts import StoredSessionTexts
from sessions_app.models import ChannelAccount, Pairing, Session, Turn
from sessions_app.platforms.messages import ChannelMessage, Chat
from sessions_app.services import NewMessage, import_history, open_session, receive

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
READER = StoredSessionTexts()


@pytest.fixture(autouse=True)
def _agent(db):
    provider, _ = ModelProvider.objects.get_or_create(name="demo", defaults={"kind": "demo"})
    fields = {"name": "Assistant", "provider": provider, "is_shared_with_everyone": True}
    Agent.objects.update_or_create(agent_id="default", defaults=fields)


@pytest.fixture
def account():
    return ChannelAccount.objects.create(channel="telegram", access="paired")


@pytest.fixture
def write(account):
    """Store a message of a sender of the account, and return its session."""

    def store(sender):
        incoming = ChannelMessage(
            event_id=sender,
            message_id=sender,
            sender_id=sender,
            sender_name="Ada",
            chat=Chat("77"),
            text="See docs.test",
            sent_at=timezone.now(),
            keys=(sender,),
        )
        record = InboundRecord.of_message(account, incoming, b"{}")
        party = ("Telegram", "default", "77", "Ada", incoming.text)
        accepted = receive(NewMessage(*party, message_id=sender, author_id=sender, arrival=record), owner=None)
        return Session.objects.get(pk=accepted.session_id)

    return store


def test_attached_files_are_an_origin():
    session = open_session(owner=User.objects.create_user("alice"))
    turn = {"session": session, "ordinal": 0, "role": "user", "created_at": session.created_at}
    Turn.objects.create(part=0, content="a", **turn)
    assert READER.origins(session.id) == ()
    Turn.objects.create(part=1, content="b", attached="c", **turn)
    assert READER.origins(session.id) == ("file:attachment",)
    texts = READER.texts(session.id)
    assert (texts.own, texts.others) == (("b", "a"), ("c",))


def test_imported_results_are_an_origin():
    session = open_session(owner=User.objects.create_user("alice"))
    import_history(session, [Message("user", "Hi"), Message("tool", "Go.", tool_call_id="c")])
    assert READER.origins(session.id) == ("import:tool results",)


@pytest.mark.parametrize(
    ("paired", "is_known"), [("", False), ("nobody", False), ("active user", True), ("inactive user", False)]
)
def test_only_senders_with_a_user_write_as_users(account, write, paired, is_known):
    session = write("501")
    if paired:
        user = User.objects.create_user("ada", is_active=paired == "active user") if "user" in paired else None
        Pairing.objects.create(account=account, sender_id="501", user=user)
    texts = READER.texts(session.id)
    assert READER.origins(session.id) == (() if is_known else ("channel:Telegram",))
    assert (texts.own, texts.others) == ((("See docs.test",), ()) if is_known else ((), ("See docs.test",)))


def test_one_sender_without_a_user_makes_a_group_foreign(account, write):
    write("501")
    Pairing.objects.create(account=account, sender_id="501", user=User.objects.create_user("ada"))
    assert READER.origins(write("502").id) == ("channel:Telegram",)


@pytest.mark.parametrize(("sender", "origins"), [("alice", ()), ("carol", ("channel:WebChat",))])
def test_a_sender_for_whom_an_api_key_writes_is_no_user(sender, origins):
    alice = User.objects.create_user("alice")
    accepted = receive(NewMessage("WebChat", "default", sender, "", "Hi"), owner=alice)
    assert READER.origins(accepted.session_id) == origins
