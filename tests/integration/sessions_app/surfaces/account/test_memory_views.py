"""The page and the REST routes on which users see and change what agents remember about them."""

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client

from audit_app.models import AuditEntry
from sessions_app.access import memory_owner
from sessions_app.models import ChannelAccount, Pairing
from tests.support.rest import RestCaller, make_user
from tools_app.models import Memory
from tools_app.storage import memories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.fixture
def user() -> User:
    return make_user("ada")


def remember(user: User, key: str, text: str, *, agent_id: str = "default", **written: Any) -> Memory:
    memories.store(memories.Holder(agent_id, f"user:{user.pk}"), memories.Written(key, text, uuid4(), **written))
    return Memory.objects.get(key=key, actor=f"user:{user.pk}", agent_id=agent_id)


def trusted(user: User, text: str) -> list[str]:
    return [
        found.key for found in memories.recall_trusted(memories.Holder("default", f"user:{user.pk}"), text, limit=9)
    ]


def test_memories_are_listed_and_searched_page_by_page(user: User) -> None:
    for number in range(3):
        remember(user, f"car {number}", "It is blue.")
    remember(user, "pets", "A dog.", agent_id="other")
    remember(make_user("eve"), "car", "Eve's blue one.")
    api = RestCaller(user)
    first = api.get("memories?limit=3")
    second = api.get(f"memories?limit=3&cursor={first.meta['nextCursor'].replace('+', '%2B')}")
    assert [row["key"] for row in (*first.data, *second.data)] == ["pets", "car 2", "car 1", "car 0"]
    assert second.meta["nextCursor"] is None
    assert {row["key"] for row in api.get("memories?query=blue&limit=2").data} < {"car 0", "car 1", "car 2"}
    assert [row["key"] for row in api.get("memories?agentId=other").data] == ["pets"]
    rest = api.get(f"memories?query=blue&limit=2&cursor={api.get('memories?query=blue&limit=2').meta['nextCursor']}")
    assert len(rest.data) == 1 and rest.meta["nextCursor"] is None
    for wrong in ("cursor=x", "cursor=x&query=blue", "cursor=2020-01-01/x"):
        assert api.get(f"memories?{wrong}").status == 400


def test_a_memory_from_outside_is_used_only_once_it_is_approved_or_corrected(user: User) -> None:
    row = remember(user, "bank", "The bank is Evil.", origins=("page:evil.example",), source="tool")
    api = RestCaller(user)
    shown = api.get(f"memories/{row.pk}").data
    assert (shown["isTrusted"], shown["source"], shown["origins"]) == (False, "tool", ["page:evil.example"])
    assert trusted(user, "my bank") == []
    assert api.post(f"memories/{row.pk}/approve").data["isTrusted"] is True
    assert trusted(user, "my bank") == ["bank"]
    remember(user, "bank", "The bank is Other.", origins=("page:evil.example",))  # an approval is of one text
    assert trusted(user, "my bank") == []
    changed = api.put(f"memories/{row.pk}", {"text": "The bank is Mine."}).data
    assert (changed["isTrusted"], changed["source"], changed["origins"]) == (True, "person", [])
    assert trusted(user, "which bank is mine?") == ["bank"]
    actions = AuditEntry.objects.filter(action__startswith="Memory").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["MemoryApproved", "MemoryChanged"]


def test_a_pinned_memory_fits_every_message(user: User) -> None:
    row = remember(user, "name", "Call her Ada.")
    assert trusted(user, "what is the weather?") == []
    RestCaller(user).put(f"memories/{row.pk}", {"isPinned": True})
    assert trusted(user, "what is the weather?") == ["name"]


@pytest.mark.parametrize("text", ["", "  ", "x" * 102_401])
def test_a_text_has_to_fit(user: User, text: str) -> None:
    answer = RestCaller(user).put(f"memories/{remember(user, 'a', 'b').pk}", {"text": text})
    assert answer.status in (400, 422) and Memory.objects.get().text == "b"


def test_others_can_neither_see_nor_change_a_memory(user: User) -> None:
    row, eve = remember(user, "car", "blue"), RestCaller(make_user("eve"))
    assert eve.get("memories").data == [] and eve.delete("memories").data == {"deleted": 0}
    for answer in (
        eve.get(f"memories/{row.pk}"),
        eve.put(f"memories/{row.pk}", {"text": "red"}),
        eve.delete(f"memories/{row.pk}"),
        eve.post(f"memories/{row.pk}/approve"),
    ):
        assert answer.status == 404
    assert Memory.objects.get().text == "blue"


def test_all_can_be_deleted_or_those_of_one_agent(user: User) -> None:
    remember(user, "car", "blue")
    remember(user, "car", "red", agent_id="other")
    api = RestCaller(user)
    assert api.delete("memories?agentId=other").data == {"deleted": 1}
    assert api.delete("memories").data == {"deleted": 1}
    assert AuditEntry.objects.filter(action="MemoriesDeleted").count() == 2


def test_the_memories_of_a_paired_sender_are_the_users_own(user: User) -> None:
    telegram = ChannelAccount.objects.create(channel="telegram", account_id="one")
    Pairing.objects.create(account=telegram, sender_id="501", user=user)
    web = ChannelAccount.objects.create(channel="web", account_id="shop")
    ChannelAccount.objects.create(channel="web", account_id="blog")  # where 501 may be somebody else
    Pairing.objects.create(account=web, sender_id="501", user=user)
    assert memory_owner(user).actors == (f"user:{user.pk}", "sender:Telegram:501", "sender:Web/shop:501")


def test_the_page_lists_corrects_approves_and_deletes(user: User) -> None:
    client = Client()
    client.force_login(user)
    assert "No agent remembers anything about you yet" in client.get("/account/memories").content.decode()
    row = remember(user, "<b>car</b>", "It is\n<i>blue</i>.", origins=("page:example.org",))
    html = client.get("/account/memories").content.decode()
    assert "&lt;b&gt;car&lt;/b&gt;" in html and "&lt;i&gt;blue" in html and "This comes from page:example.org" in html
    client.post(f"/account/memories/{row.pk}/approve")
    assert "This comes from" not in client.get("/account/memories").content.decode()
    client.post(f"/account/memories/{row.pk}/pin", {"is_pinned": "1"})
    answer = client.post(f"/account/memories/{row.pk}/change", {"text": "It is red.", "agent": "default"})
    assert answer.headers["Location"] == f"/account/memories?agent=default#memory-{row.pk}"
    changed = Memory.objects.get()
    assert (changed.text, changed.source, changed.is_pinned) == ("It is red.", "person", True)
    assert "No memory matches" in client.get("/account/memories", {"q": "green"}).content.decode()
    assert client.post("/account/memories/delete-all").status_code == 400 and Memory.objects.exists()
    client.post("/account/memories/delete-all", {"confirmed": "yes"})
    assert not Memory.objects.exists()
