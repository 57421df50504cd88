"""The cost of a receipt: making it when a tool call ends, and checking it later. Needs no installation."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

from benchmarks.figures import Figure, p50
from benchmarks.scale import Scale
from tools_app.receipts.mac import CallState, find_fault, make_receipt, parse

PART = "receipts"

_KEYS = "a key of nobody"
_AT = datetime(2026, 1, 1, tzinfo=UTC)


def measure(scale: Scale) -> list[Figure]:
    """Measure a call of usual size, and one with the largest stored result."""
    usual, largest = _call(1_000), _call(256 * 1024)
    receipt = make_receipt(usual, _KEYS)
    rounds = 200 if scale.starts > 1 else 20
    return [
        Figure(
            PART,
            "make a receipt, 1 KB result, median",
            _median_us(lambda: make_receipt(usual, _KEYS), rounds),
            "µs",
            target=5_000,
        ),
        Figure(
            PART,
            "make a receipt, 256 KB result, median",
            _median_us(lambda: make_receipt(largest, _KEYS), rounds),
            "µs",
            target=5_000,
        ),
        Figure(
            PART,
            "check a receipt, 1 KB result, median",
            _median_us(lambda: _check(receipt, usual), rounds),
            "µs",
            target=5_000,
        ),
    ]


def _call(characters: int) -> CallState:
    return CallState(
        UUID(int=1),
        UUID(int=2),
        "web_fetch",
        {"url": "https://example.com/", "max_characters": 20_000},
        "Completed",
        "x" * characters,
        _AT,
        _AT,
        _AT,
    )


def _check(receipt: str, call: CallState) -> None:
    found = parse(receipt)
    assert found and not find_fault(found, call, _KEYS)


def _median_us(act: Callable[[], object], rounds: int) -> float:
    spent = []
    for _ in range(rounds):
        begun = time.perf_counter()
        act()
        spent.append((time.perf_counter() - begun) * 1e6)
    return p50(spent)
