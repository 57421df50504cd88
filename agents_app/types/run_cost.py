"""The models that a run has called and what they cost. Pure."""

from dataclasses import dataclass

from agents_app.types.model_calls import Usage


@dataclass(frozen=True)
class Fallback:
    """The entry of its agent's fallback chain that a run uses. A run keeps it to its end, unless that fails, too.

    position: in the chain, from 1.
    model: empty for the default model of the provider.
    failed: the name of the model before it.
    reason: why that could not answer, for users.
    """

    position: int
    provider: str
    model: str
    failed: str = ""
    reason: str = ""

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}" if self.model else self.provider


@dataclass(frozen=True)
class RunCost:
    """The resources that a run has used.

    models: names of the models that it called.
    cost: in units of the currency, at the prices of the time of each call; None if no model had a price.
    seconds: from its start to its end; None before the end.
    fallback: the entry of the fallback chain that it used last, if any.
    with_workstreams: tokens and cost of the run together with those of the runs below it; None if there are none.
    """

    models: tuple[str, ...]
    usage: Usage
    cost: float | None
    seconds: float | None
    fallback: Fallback | None = None
    with_workstreams: "TreeCost | None" = None


@dataclass(frozen=True)
class TreeCost:
    """The tokens and the cost of a run and of all runs below it. cost: as that of one."""

    usage: Usage
    cost: float | None

    def __add__(self, other: "TreeCost") -> "TreeCost":
        costs = [each for each in (self.cost, other.cost) if each is not None]
        return TreeCost(self.usage + other.usage, sum(costs) if costs else None)
