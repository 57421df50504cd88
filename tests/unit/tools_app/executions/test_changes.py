"""The change that a call would make, as a diff."""

import pytest

from tools_app.executions.changes import diff, find_change
from tools_app.types import Change


def shown(before: str, after: str) -> list[tuple[str, str]]:
    return [(line.kind, line.text) for line in diff(Change(before, after))]


def test_what_goes_stands_before_what_comes() -> None:
    assert shown("a\nb\nc", "a\nB\nc") == [("same", "a"), ("removed", "b"), ("added", "B"), ("same", "c")]


def test_a_new_text_is_all_added_and_an_equal_one_is_no_change() -> None:
    assert shown("", "a\nb") == [("added", "a"), ("added", "b")]
    assert shown("a", "a") == []


def test_what_stays_is_left_out_around_changes() -> None:
    lines = [str(number) for number in range(40)]
    changed = [*lines[:20], "new", *lines[20:]]
    kinds = [kind for kind, _ in shown("\n".join(lines), "\n".join(changed))]
    assert kinds == ["skipped", "same", "same", "same", "added", "same", "same", "same", "skipped"]


@pytest.mark.timeout(5)
def test_huge_texts_are_truncated_with_a_mark() -> None:
    lines = diff(Change("\n".join("a" * 5 + str(n) for n in range(50_000)), "x" * 100_000))
    assert lines[-1].kind == "skipped" and len(lines) < 1_100 and max(len(line.text) for line in lines) <= 500


@pytest.mark.parametrize("names", [("old", "new"), ("before", "after"), ("old_string", "new_string")])
def test_arguments_with_both_texts_are_a_change(names: tuple[str, str]) -> None:
    assert find_change({names[0]: "a", names[1]: "b", "path": "x.txt"}) == Change("a", "b", "x.txt")


@pytest.mark.parametrize("arguments", [{}, {"old": "a"}, {"old": 1, "new": "b"}, {"old": ["a"], "new": ["b"]}])
def test_other_arguments_are_none(arguments: dict[str, object]) -> None:
    assert find_change(arguments) is None
