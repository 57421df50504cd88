"""The limit of a model call's text: its length, and repetition without end, but no legitimate long text."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents_app.runs.text_limit import TextLimit

TABLE = "| Item | Amount | Unit |\n| --- | --- | --- |\n" + "".join(
    f"| part {n} | {n % 7} | piece |\n" for n in range(4_000)
)
CODE = "".join(f"    case {n}:\n        return handle(request, {n})\n" for n in range(2_500))
LIST = "".join(f"{n}. Check the valve and note the pressure.\n" for n in range(2_500))
ZEROS = "[" + "[0, 0, 0, 0, 0, 0, 0, 0],\n" * 512 + "]"
LINES = "I must not talk in class.\n" * 500
RULE = "-" * 10_000


def reached(text: str, *, piece: int = 370, limit: int = 1_000_000) -> str:
    """Return why a text that comes in pieces of that length is stopped, empty if it is not."""
    text_limit = TextLimit(limit)
    for start in range(0, len(text), piece):
        text_limit.take(text[start : start + piece])
        if text_limit.reached:
            return text_limit.reached
    return ""


@pytest.mark.parametrize(
    "text", [TABLE, CODE, LIST, ZEROS, LINES, RULE], ids=str.split("table code list zeros lines rule")
)
def test_long_tables_code_and_lists_are_no_repetition(text: str) -> None:
    assert not reached(text)


@given(
    beginning=st.text(max_size=3_000),
    piece=st.text(min_size=1, max_size=60) | st.integers(61, 2_000).map(lambda n: "".join(map(str, range(n)))[:n]),
    size=st.integers(100, 3_000),
)
def test_a_text_that_repeats_a_piece_without_end_is_stopped(beginning: str, piece: str, size: int) -> None:
    times = (max(20_000, 20 * len(piece)) + 5_000) // len(piece) + 1
    assert reached(beginning + piece * times, piece=size) == "repeats"


@given(
    line=st.text(st.characters(exclude_characters="\n"), min_size=1, max_size=200),
    numbers=st.integers(0, 10**6),
    size=st.integers(100, 3_000),
)
def test_lines_that_differ_in_a_number_are_no_repetition(line: str, numbers: int, size: int) -> None:
    assert not reached("".join(f"{line} {numbers + n}\n" for n in range(40_000 // len(line))), piece=size)


@given(piece=st.text(min_size=1, max_size=200), times=st.integers(1, 2_000))
def test_a_repetition_that_is_not_long_is_none(piece: str, times: int) -> None:
    assert not reached("Here it is:\n" + (piece * times)[:19_000])


@given(text=st.text(max_size=400), limit=st.integers(1, 300), size=st.integers(1, 50))
def test_the_text_is_cut_at_the_limit_of_characters(text: str, limit: int, size: int) -> None:
    text_limit = TextLimit(limit)
    taken = "".join(text_limit.take(text[start : start + size]) for start in range(0, len(text), size))
    assert taken == text[:limit]
    assert text_limit.reached == ("too_long" if len(text) > limit else "")


def test_the_search_for_repetition_has_a_bounded_cost() -> None:
    """Not even for texts that nearly repeat: 200,000 characters take far less time than a model needs for them."""
    hostile = (("a" * 1_999 + "b") * 10 + "a" * 3_000 + "c") * 9
    began = time.process_time()
    assert not reached(hostile[:200_000], piece=40)
    assert time.process_time() - began < 2
