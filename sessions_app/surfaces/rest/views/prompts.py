"""Requests of model calls in parts, as the model sees them, for those who may see the configuration of the agent."""

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app.configuration.agent_access import may_view
from agents_app.models import Agent
from agents_app.rights import VIEW_AGENTS
from agents_app.runs.request_view import RequestView, view_first_request, view_request
from sessions_app.access import access_agent, access_run
from sessions_app.identity import scopes
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects.prompts import PromptOut, PromptQuery, StepQuery
from sessions_app.surfaces.rest.views.base import RestView, ok

_PROMPT = "For those who may see the agent's configuration. Tokens are estimated by the model's family."


class _PromptView(RestView):
    def require_view(self, agent: Agent) -> None:
        """Raise MissingRight unless the caller may see the agent's prompt."""
        if not may_view(self.principal.user, agent):
            self.require(VIEW_AGENTS)

    def shown(self, view: RequestView) -> dict[str, object]:
        return PromptOut.of(view.seen_by(self.principal.user))


class AgentPrompt(_PromptView):
    @Operation("Read what the model sees of a first message", PromptOut, query=PromptQuery, description=_PROMPT)
    def get(self, request: Request, agent_id: str) -> Response:
        agent = access_agent(self.principal.user, agent_id, or_visible=True)
        self.require_view(agent)
        return ok(self.shown(view_first_request(agent, self.query()["text"])))


class RunPrompt(_PromptView):
    @Operation("Read what the model saw at a step", PromptOut, query=StepQuery, description=_PROMPT)
    def get(self, request: Request, run_id: str) -> Response:
        run = access_run(self.principal.user, run_id)
        agent = Agent.objects.get(agent_id=run.agent_id)  # of a workstream, perhaps another one than the session's
        scopes.require_agent(self.principal.user, agent)
        self.require_view(agent)
        return ok(self.shown(view_request(run.id, self.query()["step"])))
