"""Memories: stored for one actor, and inaccessible to the runs of others."""

from uuid import uuid4

import pytest
from django.utils import timezone

from audit_app.models import SearchEntry
from tools_app.builtin.memory_forget import MemoryForget
from tools_app.builtin.memory_recall import MemoryRecall
from tools_app.builtin.memory_store import MemoryStore
from tools_app.models import Memory
from tools_app.policy import readings
from tools_app.storage import memories
from tools_app.types import ToolContext, ToolError

pytestmark = pytest.mark.django_db


def call(tool, arguments, *, actor="user:1", agent_id="default"):
    context = ToolContext(
        execution_id=uuid4(),
        run_id=uuid4(),
        session_id=uuid4(),
        agent_id=agent_id,
        actor=actor,
        effect_key="k",
        timeout_seconds=10,
    )
    return tool.run(arguments, context)


def store(key, text, **who):
    return call(MemoryStore(), {"key": key, "text": text}, **who)


def recall(query="", **who):
    return [memory["key"] for memory in call(MemoryRecall(), {"query": query}, **who)["memories"]]


def test_a_memory_is_found_by_its_words_with_its_source():
    store("favourite colour", "She likes dark blue.")
    store("pets", "Two dogs.")
    found = call(MemoryRecall(), {"query": "blue"})
    assert [memory["text"] for memory in found["memories"]] == ["She likes dark blue."]
    assert found["total"] == 2
    source = {"uri": "memory:favourite colour", "title": "favourite colour", "quote": "She likes dark blue."}
    assert found["sources"] == [source]


def test_the_same_key_replaces():
    assert store("colour", "blue")["replaced"] is False
    assert store(" colour ", "red")["replaced"] is True
    assert [row.text for row in Memory.objects.all()] == ["red"]


def test_without_a_query_the_newest_come_first():
    for key in ("one", "two", "three"):
        store(key, "text")
    assert recall() == ["three", "two", "one"]


@pytest.mark.parametrize("other", [{"actor": "user:2"}, {"agent_id": "other"}, {"actor": "sender:Telegram:1"}])
def test_nobody_else_sees_changes_or_deletes_it(other):
    store("secret", "mine")
    assert recall("mine", **other) == []
    assert call(MemoryForget(), {"key": "secret"}, **other)["forgotten"] is False
    store("secret", "theirs", **other)
    assert recall("mine") == ["secret"]


def test_what_is_forgotten_is_gone_and_forgetting_again_does_no_harm():
    store("colour", "blue")
    assert call(MemoryForget(), {"key": "colour"})["forgotten"] is True
    assert call(MemoryForget(), {"key": "colour"})["forgotten"] is False
    assert recall() == []


def test_a_full_memory_is_an_error_but_can_be_corrected(monkeypatch):
    monkeypatch.setattr(memories, "MAX_MEMORIES", 2)
    store("one", "1")
    store("two", "2")
    with pytest.raises(ToolError, match="Forget some"):
        store("three", "3")
    store("two", "22")
    assert store("three", "3", actor="user:2")


def test_a_text_that_is_too_long_is_an_error_and_a_long_one_is_read_by_its_key():
    with pytest.raises(ToolError, match="at most 102,400 bytes"):
        store("long", "ä" * 60_000)
    store("long", "word " * 15_000)
    [shown] = call(MemoryRecall(), {"query": "word"})["memories"]
    assert (len(shown["text"]), shown["characters"]) == (2_000, 75_000)
    [whole] = call(MemoryRecall(), {"key": "long"})["memories"]
    assert len(whole["text"]) == 75_000 and "characters" not in whole


def test_a_memory_is_found_by_its_new_text_alone_and_not_after_it_is_forgotten():
    store("colour", "She likes dark blue.")
    store("colour", "She likes red.")
    assert (recall("blue"), recall("red")) == ([], ["colour"])
    call(MemoryForget(), {"key": "colour"})
    assert recall("red") == [] and not SearchEntry.objects.exists()


def test_memories_of_a_release_without_the_index_are_found_once_indexed():
    now = timezone.now()
    who = {"agent_id": "default", "actor": "user:1", "run_id": uuid4(), "created_at": now, "updated_at": now}
    Memory.objects.create(**who, key="pets", text="Two dogs.")
    assert (memories.index_missing(), memories.index_missing()) == (1, 0)
    assert recall("dog") == ["pets"]


class Session:
    """The messages of a session, for the policy."""

    def __init__(self, *own, origins=()):
        self._own, self._origins = own, origins

    def origins(self, session_id):
        return self._origins

    def texts(self, session_id):
        return readings.SessionTexts(own=self._own)


@pytest.mark.parametrize(
    ("session", "source", "is_trusted"),
    [
        (Session("By the way, I like dark blue cars."), "person", True),
        (Session("What is my favourite?"), "agent", True),
        (Session("Read this page", origins=("page:example.org",)), "tool", False),
        (Session("I like dark blue cars", origins=("page:example.org",)), "person", False),
    ],
)
def test_the_source_is_what_the_system_knows(monkeypatch, session, source, is_trusted):
    monkeypatch.setattr(readings, "_registered", [session])
    stored = call(MemoryStore(), {"key": "colour", "text": "Likes dark blue cars."})
    assert (stored["source"], stored["is_trusted"]) == (source, is_trusted)
    [found] = call(MemoryRecall(), {"query": "blue"})["memories"]
    assert (found["source"], found.get("is_trusted", True)) == (source, is_trusted)
    holder = memories.Holder("default", "user:1")
    assert bool(memories.recall_trusted(holder, "a blue car?", limit=5)) is is_trusted
