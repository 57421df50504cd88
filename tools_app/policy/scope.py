"""Scopes of names (tools, MCP servers) that an agent may use: none, a list, or inherited. Pure.

Levels, narrowest first: the call, the agent, its network, the installation. The first level that does not inherit
decides alone; if all inherit, there is no restriction. Denying rules apply in any case.
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
    """The scope of one level. names: for LIST only; an empty list permits nothing."""

    mode: ScopeMode = ScopeMode.INHERIT
    names: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"mode": self.mode.value, "names": [*self.names]}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Scope":
        """Return the scope that `to_dict` serialized."""
        return cls(ScopeMode(stored["mode"]), tuple(stored["names"]))


INHERIT = Scope()


def resolve(*levels: Scope) -> tuple[str, ...] | None:
    """Return the permitted names, given the levels from narrowest to widest; None for no restriction."""
    for level in levels:
        match level.mode:
            case ScopeMode.NONE:
                return ()
            case ScopeMode.LIST:
                return tuple(dict.fromkeys(level.names))
    return None


def narrowed(names: tuple[str, ...] | None, to: Collection[str] | None) -> tuple[str, ...] | None:
    """Return the names that both permit; None, the absence of a restriction, permits all."""
    if to is None or names is None:
        return names if to is None else tuple(to)
    return tuple(name for name in names if name in to)


def of_nullable(names: Collection[str] | None) -> Scope:
    """Return the scope of a stored list that may be null: null is INHERIT, an empty list NONE."""
    if names is None:
        return INHERIT
    return Scope(ScopeMode.LIST, tuple(names)) if names else Scope(ScopeMode.NONE)


def of_setting(items: Sequence[str]) -> Scope:
    """Return the scope of a setting: empty or `inherit`, `none`, or names."""
    if not items or list(items) == [ScopeMode.INHERIT]:
        return INHERIT
    return Scope(ScopeMode.NONE) if list(items) == [ScopeMode.NONE] else Scope(ScopeMode.LIST, tuple(items))
