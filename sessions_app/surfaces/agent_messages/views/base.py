"""What all plain views of this surface share: its errors, and the gate to a run by either of its two addresses."""

from typing import Any, NoReturn

from rest_framework.request import Request

from sessions_app.surfaces.agent_messages import agent_runs, errors
from sessions_app.surfaces.agent_messages.agent_runs import AgentRun
from sessions_app.surfaces.base.views import PlainView


class AgentsView(PlainView):
    """One resource. A run is named by its id alone, or by its workflow's and its id."""

    def agent_run(self, run_id: str, workflow_id: str = "") -> AgentRun:
        return agent_runs.access_run(self.principal.user, run_id, workflow_id)

    def asked(self) -> dict[str, str]:
        """The query, each name once."""
        return {name: str(value) for name, value in self.request.query_params.items()}


class Refused(AgentsView):
    """A part of the protocol that is not offered here: 501 for every method, whoever asks."""

    what = ""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise errors.NotHere(self.what)

    def http_method_not_allowed(self, request: Request, *args: Any, **kwargs: Any) -> NoReturn:  # type: ignore[override]
        raise errors.NotHere(self.what)
