"""The base of this surface's views."""

from typing import Any, NoReturn

from rest_framework.request import Request

from sessions_app.surfaces.agent_messages import agent_runs, errors
from sessions_app.surfaces.agent_messages.agent_runs import AgentRun
from sessions_app.surfaces.base.views import PlainView


class AgentsView(PlainView):
    """A resource of the protocol."""

    def agent_run(self, run_id: str, workflow_id: str = "") -> AgentRun:
        return agent_runs.access_run(self.principal.user, run_id, workflow_id)

    def query_values(self) -> dict[str, str]:
        """Return the query parameters, the last value of each."""
        return {name: str(value) for name, value in self.request.query_params.items()}


class NotOfferedView(AgentsView):
    """A part of the protocol that this server does not implement: 501 for every method."""

    what = ""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise errors.NotOffered(self.what)

    def http_method_not_allowed(self, request: Request, *args: Any, **kwargs: Any) -> NoReturn:  # type: ignore[override]
        raise errors.NotOffered(self.what)
