"""The bus of robots: order, replies, handlers that fail, and handlers that never end."""

import threading
import time

import pytest

from agents_app.robots import robot_bus
from agents_app.robots.robot_bus import Bus, MessageStorm, RobotMessage
from audit_app.kernel.errors import InvalidInput


def test_the_last_messages_and_dead_letters_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robot_bus, "MOST_KEPT", 2)
    bus = Bus(tries=1)

    def broken(message: RobotMessage) -> None:
        raise ValueError

    bus.join("clerk", broken)
    keys = [bus.send("boss", "clerk", number).key for number in range(5)]
    assert list(bus.outbox) == keys[3:]
    assert [letter.message.content for letter in bus.dead_letters] == [3, 4]
    bus.send("clerk", "clerk", "late", in_reply_to=keys[0])


def test_messages_arrive_in_order_and_replies_are_known_to_the_sender() -> None:
    bus, seen = Bus(), list[tuple[str, str]]()

    def clerk(message: RobotMessage) -> None:
        seen.append(("clerk", message.content))
        bus.send("clerk", message.sender, f"re: {message.content}", in_reply_to=message.key)
        seen.append(("clerk", "done"))  # before the reply is delivered

    bus.join("clerk", clerk)
    bus.join("boss", lambda message: seen.append(("boss", message.content)))
    sent = bus.send("boss", "clerk", "one")
    assert seen == [("clerk", "one"), ("clerk", "done"), ("boss", "re: one")]
    stored = bus.outbox[sent.key]
    assert (sent.key, sent.is_reply, stored.status) == ("boss:1", False, "replied")
    assert stored.replies[0].is_reply and stored.replies[0].content == "re: one"


def test_robots_of_one_name_all_get_a_message() -> None:
    bus, seen = Bus(), list[int]()
    handlers = [lambda message, number=number: seen.append(number) for number in (1, 2)]
    for handler in handlers:
        bus.join("pool", handler)
    bus.send("boss", "pool", "x")
    bus.leave("pool", handlers[0])
    bus.send("boss", "pool", "y")
    assert seen == [1, 2, 2]


def test_a_failing_handler_is_tried_again_and_its_message_kept() -> None:
    bus, tries = Bus(tries=3), list[str]()

    def broken(message: RobotMessage) -> None:
        tries.append(message.content)
        raise ValueError("no")

    bus.join("clerk", broken)
    bus.send("boss", "clerk", "x")
    [letter] = bus.dead_letters
    assert tries == ["x"] * 3 and letter.to == "clerk" and str(letter.error) == "no"


def test_unknown_receivers_and_endless_messages_are_refused() -> None:
    bus = Bus()
    with pytest.raises(InvalidInput, match="no robot 'nobody'"):
        bus.send("boss", "nobody", "x")
    bus.join("a", lambda message: bus.send("a", "b", "x") and None)
    bus.join("b", lambda message: bus.send("b", "a", "x") and None)
    with pytest.raises(MessageStorm):
        bus.send("boss", "a", "x")
    seen = list[RobotMessage]()
    bus.join("c", seen.append)
    bus.send("boss", "c", "still works")
    assert len(seen) == 1


def test_a_handler_may_have_another_thread_send_a_message() -> None:
    bus, seen = Bus(), list[str]()

    def clerk(message: RobotMessage) -> None:
        thread = threading.Thread(target=bus.send, args=("clerk", "boss", "from a tool"), daemon=True)
        thread.start()
        thread.join(60)
        seen.append(f"clerk {thread.is_alive()}")

    bus.join("clerk", clerk)
    bus.join("boss", lambda message: seen.append(message.content))
    bus.send("boss", "clerk", "go")
    assert seen == ["clerk False", "from a tool"]


def test_each_robot_gets_one_message_at_a_time_from_any_thread() -> None:
    bus, now, most, seen = Bus(), list[str](), list[int](), list[str]()

    def clerk(message: RobotMessage) -> None:
        now.append(message.key)
        most.append(len(now))
        time.sleep(0.001)  # the time in which another thread would begin
        now.remove(message.key)
        seen.append(message.key)

    bus.join("clerk", clerk)
    threads = [
        threading.Thread(target=lambda name=name: [bus.send(name, "clerk", number) for number in range(20)])
        for name in ("a", "b", "c")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1 and [len([key for key in seen if key[0] == name]) for name in "abc"] == [20] * 3
    assert [key for key in seen if key[0] == "a"] == [f"a:{number}" for number in range(1, 21)]
