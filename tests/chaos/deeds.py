"""Tools whose effects outside the database are counted, for the crash tests."""

from dataclasses import dataclass, field
from typing import Any

from tests.chaos.crash_gateway import Gateway
from tools_app.types import AsyncTool, Effect, Risk, Tool, ToolContext, ToolError, ToolSpec


@dataclass
class Ledger:
    """The effects of tools outside the database, which no rollback undoes."""

    lines: list[tuple[str, str]] = field(default_factory=list)  # (tool, effect key)

    def keys(self, tool: str) -> set[str]:
        return {key for name, key in self.lines if name == tool}


class Deed(Tool):
    """A tool whose effects are counted."""

    def __init__(self, name: str, effect: Effect, risk: Risk, gateway: Gateway, ledger: Ledger) -> None:
        self.spec = ToolSpec(name, f"Does a {name}.", {"type": "object"}, effect, risk)
        self._gateway = gateway
        self._ledger = ledger

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        self._gateway.point(f"before the effect of {self.spec.name}")
        self._ledger.lines.append((self.spec.name, context.effect_key))
        self._gateway.point(f"after the effect of {self.spec.name}")
        if arguments.get("fails"):
            raise ToolError("It cannot be done.")
        return {"done": self.spec.name}


class LoopDeed(AsyncTool):
    """The same on the event loop of a runs worker."""

    def __init__(self, name: str, effect: Effect, gateway: Gateway, ledger: Ledger) -> None:
        self._deed = Deed(name, effect, Risk.LOW, gateway, ledger)
        self.spec = self._deed.spec

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        return self._deed.run(arguments, context)


def deeds(gateway: Gateway, ledger: Ledger) -> list[Deed | LoopDeed]:
    """Return one tool of each effect class, one that needs approval, and two on the loop."""
    loop = [LoopDeed("look", Effect.READ, gateway, ledger), LoopDeed("mail", Effect.ONCE, gateway, ledger)]
    kinds = [
        ("peek", Effect.READ, Risk.LOW),
        ("file", Effect.KEYED, Risk.LOW),
        ("send", Effect.ONCE, Risk.LOW),
        ("pay", Effect.ONCE, Risk.HIGH),
    ]
    return [*loop, *(Deed(name, effect, risk, gateway, ledger) for name, effect, risk in kinds)]
