"""Paths through the branches of a session, and the alternatives at one place. Pure.

A path is a chain of links (branch, below), from the branch itself to the first path of the session: it has the runs of
each branch whose ordinals are lower than `below`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

END = 2**31 - 1  # above every ordinal
Path = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class BranchView:
    """A branch: its number, its parent's number, the ordinal that it replaces there, the ordinal of its first run."""

    number: int
    parent: int
    replaces: int
    ordinal: int


Branches = Mapping[int, BranchView]


@dataclass(frozen=True)
class Versions:
    """The alternatives at one place of a session. number: of the shown one, from 1.

    place: ordinal of the first of them.
    earlier, later: numbers of the branches that show the neighbours; None at the ends.
    """

    number: int
    count: int
    place: int
    earlier: int | None
    later: int | None


def path_to(branches: Branches, number: int) -> Path:
    """Return the path of a branch."""
    links = [(number, END)]
    while branch := branches.get(links[-1][0]):
        links.append((branch.parent, branch.replaces))
    return tuple(links)


def has_run(path: Path, branch: int, ordinal: int) -> bool:
    """Return whether the run of this branch and ordinal is on the path."""
    return any(branch == number and ordinal < below for number, below in path)


def origin_of(branches: Branches, branch: int, ordinal: int) -> tuple[int, int]:
    """Return the branch and the ordinal of the first alternative to a run, which may be the run itself."""
    own = branches.get(branch)
    return (own.parent, own.replaces) if own and own.ordinal == ordinal else (branch, ordinal)


def versions_of(branches: Branches, branch: int, ordinal: int) -> Versions | None:
    """Return the alternatives to a run, the oldest first; None if there are none."""
    parent, replaces = origin_of(branches, branch, ordinal)
    others = [other for other in branches.values() if (other.parent, other.replaces) == (parent, replaces)]
    if not others:
        return None
    runs = [(parent, replaces), *sorted((other.number, other.ordinal) for other in others)]
    at = runs.index((branch, ordinal))
    return Versions(
        number=at + 1,
        count=len(runs),
        place=replaces,
        earlier=_newest_with(branches, runs[at - 1]) if at else None,
        later=_newest_with(branches, runs[at + 1]) if at + 1 < len(runs) else None,
    )


def _newest_with(branches: Branches, run: tuple[int, int]) -> int:
    """Return the newest branch whose path has the run: what follows it was written last there."""
    return max(number for number in (run[0], *branches) if has_run(path_to(branches, number), *run))


def first_difference(runs: Collection[tuple[int, int]], old: Path, new: Path) -> int:
    """Return the lowest ordinal that is on one of two paths only. runs: (branch, ordinal) of all of the session."""
    return min(
        (ordinal for branch, ordinal in runs if has_run(old, branch, ordinal) != has_run(new, branch, ordinal)),
        default=END,
    )
