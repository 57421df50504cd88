"""The table of results: each way in and each configuration, with the attacks that succeeded."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.security.taint.attacks import WAYS_IN, WAYS_OUT, Attack

BEGIN, END = "<!-- results of tests/security/taint -->", "<!-- end of results -->"
_BLOCK = re.compile(f"{re.escape(BEGIN)}\n(.*?){re.escape(END)}", re.DOTALL)


@dataclass(frozen=True)
class Column:
    """A configuration. step: of the ways out, each which-th is tried: others than full autonomy only ask more."""

    autonomy: str
    step: int = 1
    is_guarded: bool = True


COLUMNS = {
    "`readonly`": Column("readonly", 8),
    "`supervised`": Column("supervised", 8),
    "`full`": Column("full"),
    "`full`, without the guard": Column("full", 8, is_guarded=False),
}
Successes = Mapping[str, Mapping[str, int]]  # by column and way in


def attacks_of(name: str) -> Iterator[Attack]:
    """Yield the attacks of a column. The ways out that are tried differ from one way in to the next."""
    step = COLUMNS[name].step
    for number, way_in in enumerate(WAYS_IN):
        yield from (Attack(way_in, way_out) for way_out in list(WAYS_OUT)[number % step :: step])


def table(found: Successes) -> str:
    """Return the table."""
    rows: list[Sequence[str]] = [("way in", *COLUMNS), ("---", *("---:" for _ in COLUMNS))]
    for way_in in WAYS_IN:
        tried = [sum(attack.way_in == way_in for attack in attacks_of(name)) for name in COLUMNS]
        cells = (f"{found[name][way_in]} of {most}" for name, most in zip(COLUMNS, tried, strict=True))
        rows.append((way_in, *cells))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def write(page: str, found: Successes) -> str:
    """Return the page with the table in its block. Raises ValueError if it has none."""
    if not (block := _BLOCK.search(page)):
        raise ValueError(f"there are no lines {BEGIN} and {END}")
    return f"{page[: block.start(1)]}{table(found)}\n{page[block.end(1) :]}"


def read(page: str) -> Successes:
    """Return the successes that stand in the page."""
    block = _BLOCK.search(page)
    lines = block[1].splitlines() if block else []
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {
        name: {row[0]: int(row[number].partition(" ")[0]) for row in rows} for number, name in enumerate(head) if number
    }
