"""The memory of robots: writers, waits with one deadline, and subscribers that cannot harm each other."""

import threading
import time

import pytest

from agents_app.robots.robot_memory import MOST_KEYS, RESERVED, Memory, MemoryChange, MemoryRefused, MemoryTimeout


def test_values_have_the_robot_that_wrote_them() -> None:
    memory = Memory({"a": 1})
    with memory.written_by("clerk"):
        memory.set("b", 2)
        with memory.written_by("boss"):
            memory.set("c", 3)
        assert memory.current_writer == "clerk"
    assert memory.current_writer == "" and memory.get("a", "b", "missing") == {"a": 1, "b": 2, "missing": None}
    assert list(map(memory.writer_of, memory.keys())) == ["", "clerk", "boss"]
    memory.delete("c")
    assert memory.writer_of("c") == "", "or keys that come and go would stay in memory"


def test_writers_of_threads_do_not_mix() -> None:
    memory, both = Memory(), threading.Barrier(2)

    def write(name: str) -> None:
        with memory.written_by(name):
            both.wait(60)
            memory.set(name, 1)

    threads = [threading.Thread(target=write, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (memory.writer_of("a"), memory.writer_of("b")) == ("a", "b")


def test_a_wait_ends_with_the_write_or_at_one_deadline_for_all_keys() -> None:
    memory = Memory()
    threading.Timer(0.05, memory.set, ("a", 1)).start()
    assert memory.get("a", wait=True) == 1
    began = time.monotonic()
    with pytest.raises(MemoryTimeout, match="written b, c within 0.05 seconds"):
        memory.get("a", "b", "c", wait=0.05)
    assert time.monotonic() - began < 2


def test_subscribers_get_each_change_of_their_pattern() -> None:
    memory, changes = Memory(), list[MemoryChange]()

    def fail(change: MemoryChange) -> None:
        raise ValueError("broken subscriber")

    memory.subscribe("area:*", callback=fail)
    subscription = memory.subscribe("area:?", "other[1]", callback=changes.append)
    with memory.written_by("clerk"):
        memory.set("area:1", "x")
        memory.set("area:1", "y")
        memory.set("area:12", "z")
        memory.set("other[1]", 1)
        memory.delete("area:1")
        memory.delete("area:1")
    seen = [(change.key, change.previous, change.value, change.is_created, change.is_deleted) for change in changes]
    assert seen == [
        ("area:1", None, "x", True, False),
        ("area:1", "x", "y", False, False),
        ("other[1]", None, 1, True, False),
        ("area:1", "y", None, False, True),
    ]
    assert {change.writer for change in changes} == {"clerk"}
    memory.unsubscribe(subscription)
    memory.set("area:1", 1)
    assert len(changes) == 4


def test_a_memory_has_a_limit() -> None:
    memory = Memory({str(number): 1 for number in range(MOST_KEYS)})
    memory.set("0", 2)
    with pytest.raises(ValueError, match="at most"):
        memory.set("more", 1)


def test_a_memory_is_used_like_a_dict_and_can_be_cleared() -> None:
    memory, deleted = Memory({"a": 1}), []
    memory.subscribe("*", callback=lambda change: deleted.append(change.key) if change.is_deleted else None)
    memory["b"] = 2
    assert (memory["b"], "b" in memory, "c" in memory) == (2, True, False)
    with pytest.raises(KeyError):
        memory["c"]
    del memory["a"]
    memory.clear()
    assert memory.keys() == () and deleted == ["a", "b"]


@pytest.mark.parametrize("key", sorted(RESERVED))
def test_a_reserved_key_is_refused(key: str) -> None:
    memory = Memory()
    for use in (lambda: memory.set(key, 1), lambda: memory.get(key), lambda: memory[key], lambda: Memory({key: 1})):
        with pytest.raises(MemoryRefused, match=f"The key '{key}' is reserved, like "):
            use()


def test_a_limited_memory_has_some_keys_of_another_one() -> None:
    memory, seen = Memory({"facts:a": 1, "plan": 2}), []
    limited = memory.limited(["facts:*"])
    limited.subscribe("*", callback=lambda change: seen.append(change.key))
    with limited.written_by("clerk"):
        limited.set("facts:b", 3)
    memory.set("plan", 4)
    assert limited.to_dict() == {"facts:a": 1, "facts:b": 3} and memory.writer_of("facts:b") == "clerk"
    assert seen == ["facts:b"] and "plan" not in limited
    for use in (lambda: limited.set("plan", 5), lambda: limited.get("plan"), lambda: limited.delete("plan")):
        with pytest.raises(MemoryRefused, match="may not use the key 'plan'"):
            use()
    limited.clear()
    assert memory.to_dict() == {"plan": 4}
