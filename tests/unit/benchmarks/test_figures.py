"""The statistics and the verdicts of the benchmark table."""

import json

import pytest

from benchmarks.figures import Figure, p50, p99, percentile
from benchmarks.report import document, table


def test_percentile_is_a_sample_that_enough_others_do_not_exceed() -> None:
    samples = [float(number) for number in range(100, 0, -1)]
    assert (p50(samples), p99(samples), percentile(samples, 1)) == (50, 99, 100)


def test_percentiles_of_a_single_sample_are_that_sample() -> None:
    assert p50([7.0]) == p99([7.0]) == 7.0


def test_no_samples_have_no_percentile() -> None:
    with pytest.raises(ValueError, match="no samples"):
        p50([])


@pytest.mark.parametrize(
    ("value", "at_least", "is_met"), [(60, False, True), (60.1, False, False), (60, True, True), (59.9, True, False)]
)
def test_a_target_is_met_up_to_and_including_its_bound(value: float, at_least: bool, is_met: bool) -> None:
    assert Figure("p", "n", value, "ms", target=60, at_least=at_least).is_met is is_met


def test_a_row_shows_value_target_stretch_and_verdict() -> None:
    row = table([Figure("first-token", "added", 71.26, "ms", target=60, stretch=40)]).splitlines()[-1]
    assert row == "| first-token | added | 71.3 ms | ≤ 60 ms (stretch 40) | **no** |"


def test_a_figure_without_a_target_has_no_verdict() -> None:
    assert table([Figure("memory", "RSS of web", 1234.5, "MB")]).splitlines()[-1] == (
        "| memory | RSS of web | 1,234 MB |  |  |"
    )


def test_the_document_holds_conditions_and_verdicts() -> None:
    read = json.loads(document([Figure("p", "n", 1, target=2)], {"machine": "small"}))
    assert read["machine"] == "small"
    assert read["figures"][0]["is_met"] is True
