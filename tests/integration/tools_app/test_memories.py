"""Memories: stored for one actor, and inaccessible to the runs of others."""

from uuid import uuid4

import pytest

from tools_app.builtin.memory_forget import MemoryForget
from tools_app.builtin.memory_recall import MemoryRecall
from tools_app.builtin.memory_store import MemoryStore
from tools_app.models import Memory
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
