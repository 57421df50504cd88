"""Limits of the values that agents have as JSON: budgets and fallback chains. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audit_app.kernel.errors import InvalidInput

MOST_FALLBACKS = 5
LONGEST_PROVIDER, LONGEST_MODEL = 60, 200


@dataclass(frozen=True)
class Budget:
    """One budget of an agent.

    most: its highest value.
    is_whole: it counts actions.
    """

    most: int
    is_whole: bool = False


BUDGETS: Mapping[str, Budget] = {
    "actionsPerHour": Budget(10**9, is_whole=True),
    "costPerHour": Budget(10**12),
    "costPerDay": Budget(10**12),
    "costPerMonth": Budget(10**12),
}


def check_budgets(value: Any) -> dict[str, float]:
    """Return budgets by name, without those that are null. Raises ValueError."""
    given = {name: one for name, one in value.items() if one is not None} if isinstance(value, dict) else {"": value}
    for name, number in given.items():
        budget = BUDGETS.get(name)
        is_number = type(number) is int or (type(number) is float and budget is not None and not budget.is_whole)
        if budget is None or not is_number or not 0 <= number <= budget.most:
            limits = ", ".join(f"{known} ({one.most:,})" for known, one in BUDGETS.items())
            raise ValueError(f"it must map any of these to numbers from 0 to their limit: {limits}")
    return given


def check_chain(value: Any) -> list[dict[str, str]]:
    """Return a fallback chain. Raises ValueError, InvalidInput (too_many_fallbacks)."""
    if not isinstance(value, list) or not all(map(_is_entry, value)):
        raise ValueError("it must be a list of {provider: name, model: name}")
    if len(value) > MOST_FALLBACKS:
        raise InvalidInput(f"at most {MOST_FALLBACKS} models.", code="too_many_fallbacks")
    return value


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or entry.keys() != {"provider", "model"}:
        return False
    provider, model = entry["provider"], entry["model"]
    are_texts = isinstance(provider, str) and isinstance(model, str)
    return are_texts and 0 < len(provider) <= LONGEST_PROVIDER and len(model) <= LONGEST_MODEL
