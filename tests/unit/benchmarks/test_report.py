"""The report of the benchmarks: figures in the block of a page."""

import pytest

from benchmarks import report
from benchmarks.figures import Figure

PAGE = f"# Speed\n\n{report.BEGIN}\n{report.END}\n\nThe end.\n"


def measured(database: str, day: str, **loads: float) -> dict[str, object]:
    return {"database": database, "at": f"{day}T10:00:00+00:00", "load_average_before": loads}


def test_figures_are_written_into_the_block_and_nothing_else_changes() -> None:
    page = report.write(
        PAGE, [Figure("page", "chat page", 48, "ms", target=200)], measured("sqlite", "2026-11-24", page=0.5)
    )
    assert "| page | chat page | 48 ms | ≤ 200 ms | yes | 2026-11-24, load 0.5 | sqlite |" in page
    assert page.startswith("# Speed\n") and page.endswith("\n\nThe end.\n")


def test_another_measurement_replaces_the_rows_of_its_parts_and_of_its_database_alone() -> None:
    page = report.write(
        PAGE,
        [Figure("page", "chat page", 48, "ms"), Figure("idle", "RSS", 47, "kB")],
        measured("sqlite", "2026-11-23", page=0.5, idle=0.6),
    )
    page = report.write(page, [Figure("page", "chat page", 50, "ms")], measured("postgres", "2026-11-23", page=0.7))
    page = report.write(page, [Figure("page", "first request", 51, "ms")], measured("sqlite", "2026-11-24", page=0.8))
    rows = [line for line in page.splitlines() if line.startswith(("| page", "| idle"))]
    assert rows == [
        "| idle | RSS | 47 kB |  |  | 2026-11-23, load 0.6 | sqlite |",
        "| page | chat page | 50 ms |  |  | 2026-11-23, load 0.7 | postgres |",
        "| page | first request | 51 ms |  |  | 2026-11-24, load 0.8 | sqlite |",
    ]


def test_a_page_without_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="there are no lines"):
        report.write("# Speed\n", [], measured("sqlite", "2026-11-24"))
