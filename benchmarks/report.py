"""Reports of figures: a Markdown table for people, a JSON document for programs. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.figures import Figure

_VERDICTS = {True: "yes", False: "**no**", None: ""}


def table(figures: Sequence[Figure]) -> str:
    rows = [("part", "figure", "measured", "target", "met"), ("---", "---", "---:", "---", "---")]
    rows += [
        (figure.part, figure.name, _with_unit(figure.value, figure.unit), _target(figure), _VERDICTS[figure.is_met])
        for figure in figures
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def document(figures: Sequence[Figure], conditions: Mapping[str, Any]) -> str:
    """Return the JSON document. conditions: the machine, its load and the options."""
    document = {**conditions, "figures": [{**asdict(figure), "is_met": figure.is_met} for figure in figures]}
    return json.dumps(document, indent=2) + "\n"


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
