"""YAML files of users: each fault is a problem with its line."""

import sys
from types import FrameType
from typing import Any

import pytest

from agents_app.yaml_documents import UnusableFile, read


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [1", "line 1: the file: it is not YAML"),
        ("a: &x 1\nb: *x", "aliases (`*name`) are not supported"),
        ("[" * 2000, "line 1: the file: it is not YAML: it is nested more than 50 levels deep"),
        ('["]",' * 60, "it is nested more than 50 levels deep"),
        ('{"a":' * 60, "it is nested more than 50 levels deep"),
        ("- " * 60 + "1", "it is nested more than 50 levels deep"),
        ("\n".join(" " * level + "a:" for level in range(60)), "line 51: the file: it is not YAML: it is nested"),
        ("a: 1" + ":1" * 1000, "a number is longer than 1,000 characters"),
        ("a: 1" + ":1" * 300 + ".5", "a value does not match its tag"),
        ("a: 1" + ":1" * 1000 + ".5", "a number is longer than 1,000 characters"),
        ('a: !!int ""', "it is not YAML: a value does not match its tag"),
        ('a: !!float ""', "it is not YAML: a value does not match its tag"),
        ("a: !!bool maybe", "it is not YAML: a value does not match its tag"),
        ("a: !!timestamp soon", "it is not YAML: a value does not match its tag"),
    ],
)
def test_a_file_that_is_not_yaml_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UnusableFile) as refused:
        read(text, "Nothing was imported")
    assert refused.value.message.startswith("Nothing was imported:")
    assert problem in refused.value.message


def test_each_place_has_its_line() -> None:
    document = read("a:\n- b: 1\n- c: 2\n", "")
    assert document.content == {"a": [{"b": 1}, {"c": 2}]}
    assert document.problem("a[1].c", "").line == 3 and document.problem("a[1].missing", "").line == 3


def test_a_text_may_have_as_many_brackets_as_it_likes() -> None:
    text = "[{" * 1000
    assert read(f"a: |\n  {text}\nb: '{text}' # {text}\nc: {'[' * 40}{']' * 40}\n", "").content["b"] == text


@pytest.mark.parametrize(
    ("head", "repeated"),
    [
        ("", "["),
        ("[" * 40, "1,"),
        ("[", "[],"),
        ("", "- a: 1\n"),
        ("a:\n", "- {b: [1, 'x']}\n"),
        ("? " + "k" * 5000 + "\n: ", "\n  - 1"),
    ],
)
def test_the_work_grows_linearly_with_the_size(head: str, repeated: str) -> None:
    small, large = (_work(head + repeated * times) for times in (200, 800))
    assert large < 5 * small


def test_long_keys_do_not_multiply_with_what_they_have() -> None:
    document = read("? " + "k" * 50_000 + "\n: [" + "1," * 1_000 + "]", "")
    assert sum(map(len, document.lines)) < 200_000


def _work(text: str) -> int:
    """Return the number of lines of Python that reading a text takes."""
    lines = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        read(text, "")
    except UnusableFile:
        pass
    finally:
        sys.settrace(before)
    return lines
