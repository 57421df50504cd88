"""The emergency stop: operators stop and resume all agents, or one; everybody sees whether it is on."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import services
from audit_app.kernel.errors import Forbidden
from sessions_app.surfaces.rest import agent_responses
from sessions_app.surfaces.rest.requests import ControlBody
from sessions_app.surfaces.rest.views.base import KomandView, ok
from tools_app.policy import emergency_stop


class ControlStatus(KomandView):
    def get(self, request: Request) -> Response:
        return ok(_status())


class ControlStop(KomandView):
    """Nothing is accepted, claimed or called any more; what runs ends as `stopped`. Twice does no harm."""

    def post(self, request: Request) -> Response:
        asked = _operator(self).body(ControlBody)
        services.stop_agents(asked["agent_id"], reason=asked["reason"])
        return ok(_status())


class ControlResume(KomandView):
    """What was queued goes on."""

    def post(self, request: Request) -> Response:
        asked = _operator(self).body(ControlBody)
        services.resume_agents(asked["agent_id"], reason=asked["reason"])
        return ok(_status())


def _operator(view: KomandView) -> KomandView:
    if not view.principal.user.is_staff:
        raise Forbidden("Only an operator may stop and resume agents.")
    return view


def _status() -> dict[str, Any]:
    return agent_responses.control(emergency_stop.get_status(), emergency_stop.list_stopped())
