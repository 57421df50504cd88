"""Groups of workstreams on the page: those of one launch, and those of one agent with numbered names.

`static/js/chat/workstream-groups.js` groups the cards that come live by the same rule.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sessions_app.surfaces.chat.tool_cards import ToolCard
from sessions_app.surfaces.chat.workstream_cards import WorkstreamCard

LEAST = 3  # cards of a group
# Labels of the counts, by the CSS class of a card's state; any other state is running.
_COUNTED = {"done": "done", "failed": "failed", "timed-out": "timed out", "cancelled": "stopped"}


@dataclass(frozen=True)
class WorkstreamGroup:
    """Cards of one parent that are shown as one element, in the order of their launch."""

    workstreams: tuple[WorkstreamCard, ...]

    @property
    def id(self) -> UUID:
        return self.workstreams[0].id

    @property
    def step(self) -> int:
        return self.workstreams[0].step

    @property
    def asks(self) -> bool:
        """Return whether one of them waits for a person."""
        return any(card.asks for card in self.workstreams)

    @property
    def name(self) -> str:
        """Return `12 workstreams`, or `12 × Worker` if that is what all names have before their numbers."""
        names = {card.kin for card in self.workstreams}
        shared = names.pop().partition("/")[2] if len(names) == 1 else ""
        return f"{len(self.workstreams)} × {shared}" if shared else f"{len(self.workstreams)} workstreams"

    @property
    def counts(self) -> str:
        """Return the number of its workstreams by state, such as `9 done, 2 running, 1 waits for you`."""
        found = Counter("asks" if card.asks else _COUNTED.get(card.state.name, "running") for card in self.workstreams)
        labels = [f"{found[label]} {label}" for label in (*_COUNTED.values(), "running") if found[label]]
        waiting = [f"{found['asks']} wait{'s' if found['asks'] == 1 else ''} for you"] if found["asks"] else []
        return ", ".join([*labels, *waiting])


def placed(parts: Sequence[Any], cards: Iterable[WorkstreamCard]) -> tuple[Any, ...]:
    """Return the parts of an answer with its workstreams: cards and groups, below the calls that launched them."""
    below: dict[UUID | None, list[WorkstreamCard]] = {}
    called = {part.id for part in parts if isinstance(part, ToolCard)}
    for card in cards:
        below.setdefault(card.call_id if card.call_id in called else None, []).append(card)
    found: list[Any] = below.pop(None, [])
    for part in parts:
        found.append(part)
        if isinstance(part, ToolCard):
            found += below.get(part.id, ())
    return tuple(_grouped(found))


def _grouped(parts: Sequence[Any]) -> Iterable[Any]:
    """Yield the parts with a group in the place of its first card."""
    cards = [part for part in parts if isinstance(part, WorkstreamCard)]
    group_of = _largest(cards, lambda card: str(card.step) if card.call_id else "")
    group_of |= _largest([card for card in cards if card.id not in group_of], lambda card: card.kin)
    for part in parts:
        group = group_of.get(part.id) if isinstance(part, WorkstreamCard) else None
        if group is None:
            yield part
        elif group.id == part.id:
            yield group


def _largest(cards: Iterable[WorkstreamCard], key: Callable[[WorkstreamCard], str]) -> dict[UUID, WorkstreamGroup]:
    """Return the group of each card that has enough others with the same key."""
    alike: dict[str, list[WorkstreamCard]] = {}
    for card in cards:
        alike.setdefault(key(card), []).append(card)
    groups = [WorkstreamGroup(tuple(found)) for name, found in alike.items() if name and len(found) >= LEAST]
    return {card.id: group for group in groups for card in group.workstreams}
