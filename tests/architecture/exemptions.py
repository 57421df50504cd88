"""Exemptions from rules. One that is not needed fails, so that no list outlives the code that it names."""

from collections.abc import Collection, Iterable


def problems(found: Iterable[tuple[str, str]], exempt: Collection[str]) -> list[str]:
    """Return the places that break a rule without an exemption, and the exemptions that no place needs.

    found: the name to exempt, and the place, of each breach.
    """
    breaches = list(found)
    needed = {name for name, _ in breaches}
    broken = [place for name, place in breaches if name not in exempt]
    return broken + [f"{name} is exempt, but breaks no rule" for name in exempt if name not in needed]
