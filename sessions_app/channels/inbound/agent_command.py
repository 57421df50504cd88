"""The command /agent: lists the agents that a sender may choose, and stores the choice."""

from collections.abc import Callable, Sequence

from agents_app.models import Agent
from sessions_app.channels import routes
from sessions_app.channels.routes import Place

_FIXED = "The operator has chosen who answers here."
_DEFAULT = "default"


def carry_out(place: Place, wanted: str) -> tuple[str, Callable[[], object] | None]:
    """Return the reply, and the function that stores the choice, which is called in the transaction of the reply."""
    choosable = routes.list_choosable(place.account)
    if not choosable or routes.is_fixed(place):
        return _FIXED, None
    if not wanted:
        return _list(place, choosable), None
    if wanted.lower() == _DEFAULT:
        return "The operator's choice answers here again.", lambda: routes.forget_choice(place)
    found = [agent for agent in choosable if wanted.lower() in (agent.agent_id.lower(), agent.name.lower())]
    if len(found) != 1:
        return f"There is no such agent to choose.\n\n{_list(place, choosable)}", None
    reply = f"{found[0].name} answers here from now on. The conversation continues; `/new` starts a new one."
    return reply, lambda: routes.choose(place, found[0])


def _list(place: Place, choosable: Sequence[Agent]) -> str:
    routing = routes.find(place)
    current = "" if routing.network else routing.agent_id
    lines = [f"- `{agent.agent_id}`: {agent.name}{' (now)' * (agent.agent_id == current)}" for agent in choosable]
    return "\n".join(["Agents here:\n", *lines, "\nChoose one by `/agent NAME`; `/agent default` goes back."])
