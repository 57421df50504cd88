"""Views of models and stored responses that need not wait."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app.models import Agent
from sessions_app.access import access_agent, list_agents
from sessions_app.models import Turn
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.base.openapi.schemas import ref
from sessions_app.surfaces.base.views import PlainView
from sessions_app.surfaces.openai.commands import run_of
from sessions_app.surfaces.openai.responses import user_item


class ModelList(PlainView):
    @Operation("List the agents, as models", ref("ModelList"))
    def get(self, request: Request) -> Response:
        return Response({"object": "list", "data": [_model(agent) for agent in list_agents(self.principal.user)]})


class ModelDetail(PlainView):
    @Operation("Read an agent, as a model", ref("Model"))
    def get(self, request: Request, model: str) -> Response:
        return Response(_model(access_agent(self.principal.user, model)))


class ResponseInput(PlainView):
    """`GET …/input_items`: the user turns of the run."""

    @Operation("List the input of a response", ref("ResponseInput"))
    def get(self, request: Request, response_id: str) -> Response:
        run_id, _ = run_of(self.principal.user, response_id)
        turns = Turn.objects.filter(run_id=run_id, role="user").order_by("part")
        items = [user_item(turn.pk, turn.content) for turn in turns]
        first, last = (items[0]["id"], items[-1]["id"]) if items else (None, None)
        return Response({"object": "list", "data": items, "first_id": first, "last_id": last, "has_more": False})


def _model(agent: Agent) -> dict[str, Any]:
    return {"id": agent.agent_id, "object": "model", "created": int(agent.created_at.timestamp()), "owned_by": "komand"}
