"""Shortening of text for people."""

import pytest

from audit_app.kernel.shorten import one_line, shorten


@pytest.mark.parametrize(
    ("text", "shortened"), [("", ""), ("seven c", "seven c"), ("eight ch", "eight…"), ("elevenchars", "eleven…")]
)
def test_a_long_text_is_cut_with_an_ellipsis(text: str, shortened: str) -> None:
    assert shorten(text, 7) == shortened


def test_white_space_becomes_single_blanks() -> None:
    assert one_line("  a\n\n b\t c  and more", 10) == "a b c and…"
