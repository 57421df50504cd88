"""Globs: matches, and linear time for any pattern and text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cpu_cost import costs_less_than
from tools_app.policy.globs import Glob, fold


@pytest.mark.parametrize(
    ("glob", "text", "matches"),
    [
        ("echo", "echo", True),
        ("echo", "echo2", False),
        ("*", "", True),
        ("**", "anything/at all", True),
        ("mcp__*", "mcp__github__push", True),
        ("*__push", "mcp__github__push", True),
        ("a*b*c", "a--b--c", True),
        ("a*b*c", "a--c--b", False),
        ("ab*ba", "aba", False),
        ("?", "x", True),
        ("?", "", False),
        ("a?c*", "abcdef", True),
        ("*a?c*", "xxabcxx", True),
        (r"\*", "*", True),
        (r"\*", "x", False),
        (r"a\?b", "a?b", True),
        ("[ab]", "a", False),
        ("a.c", "abc", False),
        ("line*end", "line\nmiddle\nend", True),
    ],
)
def test_a_glob_fits_whole_texts(glob, text, matches):
    assert Glob.parse(glob).matches(text) is matches


@given(st.text("ab*?", max_size=12), st.text("ab", max_size=12))
def test_it_agrees_with_the_plain_meaning(glob, text):
    meaning = re.compile("".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in glob), re.DOTALL)
    assert Glob.parse(glob).matches(text) is (meaning.fullmatch(text) is not None)


def test_hostile_globs_and_texts_take_no_time():
    with costs_less_than(1.0):
        Glob.parse("*a" * 200 + "b").matches("a" * 200_000)
        Glob.parse("*?a" * 100 + "b").matches("a" * 200_000)


@pytest.mark.parametrize("spelling", ["RM -RF", "rm\t-rf", " rm  -rf ", "\uff52m -rf", "r\u200bm -rf"])
def test_folding_undoes_spellings(spelling):
    assert fold(spelling) == "rm -rf"
