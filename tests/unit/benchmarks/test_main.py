"""The command line of the benchmarks."""

import pytest

from benchmarks.__main__ import NAMES, parse


def test_without_parts_everything_is_measured() -> None:
    assert parse([]).parts == list(NAMES)


def test_parts_are_measured_in_their_own_order_and_once() -> None:
    assert parse(["streams", "memory", "streams"]).parts == ["memory", "streams"]


def test_an_unknown_part_ends_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["speed"])
    assert "there is no part 'speed'; there are startup" in capsys.readouterr().err


def test_quick_figures_are_not_written_into_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--quick", "--write", "page.md"])
    assert "--quick measures nothing that belongs into a page" in capsys.readouterr().err
