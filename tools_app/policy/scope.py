"""Which names of a kind (tools, MCP servers) an agent has: none, a list, or what the level above says. Pure.

The levels, from the narrowest: this call, the agent, its network, the installation. The first that does not inherit
decides alone; where all inherit, there is no restriction. What a rule denies stays denied whatever they say.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ScopeMode(StrEnum):
    NONE = "none"
    INHERIT = "inherit"
    LIST = "list"


@dataclass(frozen=True)
class Scope:
    """What one level says. names: for LIST alone; an empty list is a list, and means nothing at all."""

    mode: ScopeMode = ScopeMode.INHERIT
    names: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"mode": self.mode.value, "names": [*self.names]}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Scope":
        """Of what `to_dict` gave."""
        return cls(ScopeMode(stored["mode"]), tuple(stored["names"]))


INHERIT = Scope()


def resolve(*levels: Scope) -> tuple[str, ...] | None:
    """The names that hold, from the narrowest level to the widest; None: every one there is."""
    for level in levels:
        match level.mode:
            case ScopeMode.NONE:
                return ()
            case ScopeMode.LIST:
                return tuple(dict.fromkeys(level.names))
    return None


def of_nullable(names: Collection[str] | None) -> Scope:
    """How a stored list is read that may be missing: missing is INHERIT, an empty one NONE."""
    if names is None:
        return INHERIT
    return Scope(ScopeMode.LIST, tuple(names)) if names else Scope(ScopeMode.NONE)


def of_setting(words: Sequence[str]) -> Scope:
    """How a setting is read: no word or `inherit`, `none`, or names."""
    if not words or list(words) == [ScopeMode.INHERIT]:
        return INHERIT
    return Scope(ScopeMode.NONE) if list(words) == [ScopeMode.NONE] else Scope(ScopeMode.LIST, tuple(words))
