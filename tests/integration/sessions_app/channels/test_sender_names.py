"""New names of senders, as platforms report them."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from sessions_app.channels.sender_names import rename_sender
from sessions_app.conversation.session_key import SessionKey
from sessions_app.models import ChannelAccount, Session
from tests.support.rest import make_agent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


def open_session(sender_id: str, thread_id: str = "") -> str:
    """Store a session of the account main and return its key."""
    key = SessionKey("Slack", "main", sender_id, thread_id)
    now = timezone.now()
    values = {"channel": "Slack", "account_id": "main", "sender_id": sender_id, "agent": make_agent()}
    Session.objects.create(key=str(key), created_at=now, last_active_at=now, **values)
    return str(key)


def test_a_new_name_is_stored_with_all_sessions_of_the_sender_and_no_others() -> None:
    account = ChannelAccount.objects.create(channel="slack", account_id="main")
    own = {open_session("U5"), open_session("U5", "17.1")}
    open_session("U55"), open_session("u5"), open_session("C5", "U5")
    with CaptureQueriesContext(connection) as queries:
        rename_sender(account, "Slack", "U5", "Zoë")
    assert {*Session.objects.filter(sender_name="Zoë").values_list("key", flat=True)} == own
    # The order of texts is that of the database's language, in which a range does not contain what begins the same.
    [update] = [query["sql"] for query in queries if "komand_session" in query["sql"]]
    assert ">=" not in update
