"""The emergency stop: holders of the right stop and resume all agents, or one; every user can read its state."""

from collections.abc import Callable
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import services
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects.control import ControlBody, ControlOut, control
from sessions_app.surfaces.rest.views.base import RestView, ok
from tools_app.policy import emergency_stop
from tools_app.rights import STOP_AGENTS


class ControlStatus(RestView):
    @Operation("Read the state of the emergency stop", ControlOut)
    def get(self, request: Request) -> Response:
        return ok(_status())


class _ControlChange(RestView):
    change: ClassVar[Callable[..., object]]

    def post(self, request: Request) -> Response:
        self.require(STOP_AGENTS)
        body = self.body()
        self.change(body["agent_id"], reason=body["reason"])
        return ok(_status())


class ControlStop(_ControlChange):
    """Stop agents: no message, run or tool call starts, and running ones end as `stopped`. Idempotent."""

    change = staticmethod(services.stop_agents)
    post = Operation("Stop agents", ControlOut, body=ControlBody, errors=[404])(_ControlChange.post)


class ControlResume(_ControlChange):
    """Resume agents. Queued runs start."""

    change = staticmethod(services.resume_agents)
    post = Operation("Resume agents", ControlOut, body=ControlBody, errors=[404])(_ControlChange.post)


def _status() -> dict[str, Any]:
    return control(emergency_stop.get_status(), emergency_stop.list_stopped())
