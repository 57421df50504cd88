"""The emergency stop: holders of the right stop and resume all agents, or one; every user can read its state."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import services
from sessions_app.surfaces.rest.objects.control import ControlBody, control
from sessions_app.surfaces.rest.views.base import RestView, ok
from tools_app.policy import emergency_stop
from tools_app.rights import STOP_AGENTS


class ControlStatus(RestView):
    def get(self, request: Request) -> Response:
        return ok(_status())


class ControlStop(RestView):
    """Stop agents: no message, run or tool call starts, and running ones end as `stopped`. Idempotent."""

    change = staticmethod(services.stop_agents)

    def post(self, request: Request) -> Response:
        self.require(STOP_AGENTS)
        body = self.body(ControlBody)
        self.change(body["agent_id"], reason=body["reason"])
        return ok(_status())


class ControlResume(ControlStop):
    """Resume agents. Queued runs start."""

    change = staticmethod(services.resume_agents)


def _status() -> dict[str, Any]:
    return control(emergency_stop.get_status(), emergency_stop.list_stopped())
