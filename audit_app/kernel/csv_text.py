"""CSV that is safe from formula injection. Pure."""

import csv
import io
from collections.abc import Iterable, Sequence

# A spreadsheet treats a cell that begins with one of these as a formula, including the full-width forms.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def safe_cell(value: object) -> str:
    """Return the value as the text of one cell, with a leading `'` where a spreadsheet would run it as a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA_STARTS) else text


def csv_lines(rows: Iterable[Sequence[object]]) -> str:
    """Return the rows as CSV text, with all cells safe."""
    buffer = io.StringIO()
    csv.writer(buffer).writerows([safe_cell(value) for value in row] for row in rows)
    return buffer.getvalue()
