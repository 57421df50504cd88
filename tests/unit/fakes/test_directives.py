from typing import Any

import pytest

from tests.fakes.directives import Directives, read_directives


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", {}),
        ("go [[tokens=100 rate=30]] please", {"tokens": 100, "rate": 30.0}),
        ("[[nodone]] and [[cut=3 crlf]]", {"nodone": True, "cut": 3, "crlf": True}),
        ('[[tool=echo args={"text": "a ]] b"}]]', {"tool": "echo", "args": {"text": "a ]] b"}}),
        ('[[text="Hello there" first=0.5]]', {"text": "Hello there", "first": 0.5}),
        ('[[tools=[["echo",{"text":"a"}]]]]', {"tools": [["echo", {"text": "a"}]]}),
    ],
)
def test_directives_are_read_from_a_message(text: str, expected: dict[str, Any]) -> None:
    assert read_directives(text, {}) == Directives(**expected)


def test_a_message_wins_over_the_defaults() -> None:
    assert read_directives("[[tokens=3]]", {"tokens": 9, "rate": 5.0}) == Directives(tokens=3, rate=5.0)


@pytest.mark.parametrize("text", ["[[tokns=3]]", "[[tokens=many]]", "[[tokens=3", "[[", "[[args={]]"])
def test_a_mistake_is_not_passed_over(text: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        read_directives(text, {})
