"""The fallback chain of an agent: the models that answer, in this order, while the agent's own model cannot."""

from collections.abc import Mapping, Sequence

from agents_app.models import Agent, ModelProvider
from audit_app.kernel.errors import InvalidInput


def check_fallbacks(agent: Agent) -> None:
    """Raise InvalidInput (unknown_provider, repeated_model) for a chain that names no provider, or a model twice.

    agent: with its provider, as it is to be stored. The message names the place in the list.
    """
    known = {row.name: row for row in ModelProvider.objects.filter(is_enabled=True)} if agent.fallbacks else {}
    own = model_name(agent.provider.name, agent.model_id or agent.provider.default_model)
    used = {own: "the agent's own model"}
    for place, entry in enumerate(agent.fallbacks):
        where, provider = f"fallbacks[{place}]", known.get(entry["provider"])
        if provider is None:
            message = f"{where}: there is no model provider {entry['provider']!r}. Known: {', '.join(sorted(known))}."
            raise InvalidInput(message, code="unknown_provider")
        name = model_name(provider.name, entry["model"] or provider.default_model)
        if name in used:
            raise InvalidInput(f"{where}: {name} is already {used[name]}. Name another one.", code="repeated_model")
        used[name] = where


def parse_fallbacks(lines: str) -> list[dict[str, str]]:
    """Return the chain of a text with one `provider/model` a line. `provider` alone: its default model."""
    names = [line.strip().partition("/") for line in lines.splitlines() if line.strip()]
    return [{"provider": provider.strip(), "model": model.strip()} for provider, _, model in names]


def format_fallbacks(chain: Sequence[Mapping[str, str]]) -> str:
    """Return the text of a chain, as `parse_fallbacks` reads it."""
    return "\n".join(model_name(entry["provider"], entry["model"]) for entry in chain)


def model_name(provider: str, model: str) -> str:
    """Return the name of a provider's model, as events and pages show it. model: empty for the provider's default."""
    return f"{provider}/{model}" if model else provider
