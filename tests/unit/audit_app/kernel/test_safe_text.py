"""Untrusted text, lengths of time and cells of a spreadsheet, as admin pages show and export them."""

from datetime import UTC, datetime, timedelta

import pytest

from audit_app.kernel.csv_text import csv_lines, safe_cell
from audit_app.kernel.ids import first_id_at, new_id
from audit_app.kernel.safe_text import clipped, duration, pretty_json, summary, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain äöü 日本 🙂", "plain äöü 日本 🙂"),
        ("two\nlines\tand tab", "two\nlines\tand tab"),
        ("windows\r\nline", "windows\r\nline"),
        ("over\rwritten", "over\\u000dwritten"),
        ("\x1b[31mred", "\\u001b[31mred"),
        ("invoice\u202efdp.exe", "invoice\\u202efdp.exe"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("\u2066isolated\u2069", "\\u2066isolated\\u2069"),
        ("family 👨\u200d👩\u200d👧", "family 👨\u200d👩\u200d👧"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("ad\u200dmin", "ad\\u200dmin"),
        ("\U000e0041tag", "\\ue0041tag"),
    ],
)
def test_invisible_characters_are_spelled_out(text, shown):
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0 ms"),
        (0.0426, "43 ms"),
        (0.9999, "1.0 s"),
        (1, "1.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min"),
        (60, "1 min"),
        (250, "4 min 10 s"),
        (3599.6, "1 h"),
        (7500, "2 h 5 min"),
        (86_400, "24 h"),
    ],
)
def test_a_length_of_time_has_a_suitable_unit(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "  ="])
def test_a_cell_is_never_a_formula(start):
    assert safe_cell(f"{start}1+1") == f"'{start}1+1"


@pytest.mark.parametrize(
    ("value", "cell"), [(None, ""), ("user:1", "user:1"), ('{"a": 1}', '{"a": 1}'), ("a=b", "a=b")]
)
def test_a_harmless_cell_stays_as_it_is(value, cell):
    assert safe_cell(value) == cell


def test_commas_quotes_and_lines_stay_in_their_cell():
    assert csv_lines([['say "a, b"', "two\nlines"], ["=1", None]]) == '"say ""a, b""","two\nlines"\r\n\'=1,\r\n'


def test_a_clipped_text_ends_with_the_number_of_characters_left_out():
    assert clipped("abcdef", 6) == "abcdef"
    assert clipped("abcdefgh" * 1000, 3) == "abc… (7,997 more characters)"


def test_json_is_indented_and_other_text_is_unchanged():
    assert pretty_json('{"b":1,"a":"é\u202e"}') == '{\n  "b": 1,\n  "a": "é\\u202e"\n}'
    assert pretty_json("{broken\u202e") == "{broken\\u202e"
    assert pretty_json('"text"') == "text"


def test_a_summary_leaves_out_empty_values_and_ids_unless_there_is_nothing_else():
    values = {"run_id": "r", "tool": "echo", "reason": "", "duration_ms": None, "arguments": {"a": [1]}, "crashes": 0}
    assert summary(values) == 'tool: echo, arguments: {"a":[1]}, crashes: 0'
    assert summary({"run_id": "r", "reason": ""}) == "run_id: r"
    assert summary({"text": "x" * 200}, 10) == "text: xxx…"


def test_ids_from_before_a_moment_are_lower_than_its_first_id_and_later_ones_higher():
    now = datetime.now(UTC)
    made = new_id()
    assert first_id_at(now - timedelta(milliseconds=2)) < made < first_id_at(now + timedelta(seconds=5))
