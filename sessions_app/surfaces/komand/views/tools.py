"""Tool executions of the caller's sessions: read and cancel."""

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.access import access_execution
from sessions_app.surfaces.komand import shapes
from sessions_app.surfaces.komand.views.base import KomandView, ok
from tools_app import services as tools


class ExecutionDetail(KomandView):
    def get(self, request: Request, execution_id: str) -> Response:
        return ok(shapes.execution(access_execution(self.principal.user, execution_id)))


class ExecutionCancel(KomandView):
    """Stops an open execution. One that has ended stays as it is; either way the answer is its present state."""

    def post(self, request: Request, execution_id: str) -> Response:
        tools.cancel_execution(access_execution(self.principal.user, execution_id).id)
        return ok(shapes.execution(access_execution(self.principal.user, execution_id)))
