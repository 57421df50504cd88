"""The report of an evaluation: one line a case, sums, and what became worse."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from sessions_app.evaluation.checks import Outcome

_LONGEST = 60


@dataclass(frozen=True)
class Result:
    """A case with its outcome. faults: none if it passed."""

    name: str
    outcome: Outcome
    faults: tuple[str, ...]

    @property
    def passes(self) -> bool:
        return not self.faults

    def to_dict(self) -> dict[str, Any]:
        outcome = self.outcome
        return {
            "name": self.name,
            "passes": self.passes,
            "faults": list(self.faults),
            "answer": outcome.answer,
            "tools": list(outcome.tools),
            "inputTokens": outcome.usage.input_tokens,
            "outputTokens": outcome.usage.output_tokens,
            "cost": outcome.cost,
            "seconds": round(outcome.seconds, 3),
        }


@dataclass(frozen=True)
class Column:
    """The results with one version. title: of the column."""

    title: str
    results: tuple[Result, ...]

    @property
    def passed(self) -> int:
        return sum(result.passes for result in self.results)

    @property
    def cost(self) -> float | None:
        """Return the sum of the known costs, None if none is known."""
        known = [result.outcome.cost for result in self.results if result.outcome.cost is not None]
        return sum(known) if known else None

    def to_dict(self) -> dict[str, Any]:
        results = [result.to_dict() for result in self.results]
        return {"version": self.title, "passed": self.passed, "cost": self.cost, "cases": results}


def worse(now: Column, before: Column) -> list[str]:
    """Return the names of the cases that passed before and do not now."""
    passed = {result.name for result in before.results if result.passes}
    return [result.name for result in now.results if not result.passes and result.name in passed]


def lines(columns: Sequence[Column], currency: str) -> Iterator[str]:
    """Yield the report as a table with a column for each version."""
    pairs = zip(*(column.results for column in columns), strict=True)
    rows = [["", *(column.title for column in columns)]]
    rows += [[each[0].name, *("pass" if result.passes else "FAIL" for result in each)] for each in pairs]
    rows.append(["", *("" for _ in columns)])
    rows.append(["passed", *(f"{c.passed} of {len(c.results)} ({_percent(c)} %)" for c in columns)])
    rows.append(["cost", *("unknown" if c.cost is None else f"{c.cost:.6g} {currency}".strip() for c in columns)])
    rows.append(["tokens in / out", *(_tokens(column) for column in columns)])
    rows.append(["median seconds", *(f"{_median(column):.2f}" for column in columns)])
    widths = [max(len(row[at][:_LONGEST]) for row in rows) for at in range(len(columns) + 1)]
    for row in rows:
        yield "  ".join(cell[:_LONGEST].ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for column in columns:
        for result in column.results:
            yield from (f"{column.title}: {result.name}: {fault}" for fault in result.faults)


def _percent(column: Column) -> int:
    return 100 * column.passed // max(1, len(column.results))


def _tokens(column: Column) -> str:
    used = [result.outcome.usage for result in column.results]
    return f"{sum(usage.input_tokens for usage in used):,} / {sum(usage.output_tokens for usage in used):,}"


def _median(column: Column) -> float:
    return median([result.outcome.seconds for result in column.results] or [0.0])
