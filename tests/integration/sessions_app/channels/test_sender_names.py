"""New names of senders, as platforms report them."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from sessions_app.channels import sender_names
from sessions_app.channels.sender_names import Names, rename_sender
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


@pytest.mark.parametrize(("found", "stored"), [("Zo\u200bë\n", ["Zoë", "Zoë"]), ("\u200b\n", [])])
def test_a_name_without_visible_characters_is_no_name(
    monkeypatch: pytest.MonkeyPatch, found: str, stored: list[str]
) -> None:
    names: list[str] = []

    async def find_name(sender_id: str) -> str:
        return found

    def store(*arguments: Any) -> None:
        names.append(arguments[-1])

    monkeypatch.setattr(sender_names, "_find_nameless_sender", lambda run_id: "U5")
    monkeypatch.setattr(sender_names, "_store_name", store)
    monkeypatch.setattr(sender_names, "name_author", store)
    account, adapter = ChannelAccount(channel="slack"), SimpleNamespace(name="Slack", find_name=find_name)
    asyncio.run(Names().complete(account, adapter, account.pk, is_group=True))  # type: ignore[arg-type]
    assert names == stored
