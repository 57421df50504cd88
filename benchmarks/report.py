"""Reports of figures: Markdown tables for people, a JSON document for programs. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.figures import Figure

BEGIN, END = "<!-- measured figures -->", "<!-- end of measured figures -->"
_BLOCK = re.compile(f"{re.escape(BEGIN)}(.*?){re.escape(END)}", re.DOTALL)
_HEAD = [
    "| Part | Figure | Measured | Target | Met | Day, load average before | Database |",
    "| --- | --- | ---: | --- | --- | --- | --- |",
]
_VERDICTS = {True: "yes", False: "**no**", None: ""}


def table(figures: Sequence[Figure]) -> str:
    head = ["| part | figure | measured | target | met |", "| --- | --- | ---: | --- | --- |"]
    return "\n".join([*head, *(_row(*_cells(figure)) for figure in figures)])


def write(page: str, figures: Sequence[Figure], conditions: Mapping[str, Any]) -> str:
    """Return the page with these figures in its block of measured figures, in place of those of the same parts.

    page: Markdown with a block between `BEGIN` and `END`; other parts, and those of another database, keep their rows.
    conditions: as in the JSON document. Raises ValueError if the page has no such block.
    """
    found = _BLOCK.search(page)
    if not found:
        raise ValueError(f"there are no lines {BEGIN} and {END}")
    database, loads = conditions["database"], conditions["load_average_before"]
    rows_before = [row for row in found[1].splitlines() if row.startswith("| ") and row not in _HEAD]
    kept = [row for row in rows_before if not (row.endswith(f"| {database} |") and _part_of(row) in loads)]
    day = conditions["at"][:10]
    rows = [_row(*_cells(figure), f"{day}, load {loads[figure.part]}", database) for figure in figures]
    block = "\n".join([BEGIN, "", *_HEAD, *sorted([*kept, *rows], key=_part_of), "", END])
    return page[: found.start()] + block + page[found.end() :]


def document(figures: Sequence[Figure], conditions: Mapping[str, Any]) -> str:
    """Return the JSON document. conditions: the machine, its load and the options."""
    document = {**conditions, "figures": [{**asdict(figure), "is_met": figure.is_met} for figure in figures]}
    return json.dumps(document, indent=2) + "\n"


def _cells(figure: Figure) -> tuple[str, ...]:
    measured = _with_unit(figure.value, figure.unit)
    return figure.part, figure.name, measured, _target(figure), _VERDICTS[figure.is_met]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _part_of(row: str) -> str:
    return row.split(" | ")[0].removeprefix("| ")


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    sign = "≥" if figure.at_least else "≤"
    stretch = "" if figure.stretch is None else f" (stretch {_number(figure.stretch)})"
    return f"{sign} {_with_unit(figure.target, figure.unit)}{stretch}"


def _with_unit(value: float, unit: str) -> str:
    return f"{_number(value)} {unit}".strip()


def _number(value: float) -> str:
    digits = 0 if abs(value) >= 100 or value == int(value) else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"
