"""Tool executions of the caller's sessions: read and cancel."""

from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import NotFound
from sessions_app.access import access_execution, access_execution_and_session
from sessions_app.rights import VIEW_SESSIONS
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects.executions import ExecutionOut, ReceiptBody, ReceiptVerdictOut, execution_json
from sessions_app.surfaces.rest.views.base import RestView, ok
from tools_app import services as tools
from tools_app.receipts import receipts
from tools_app.rights import VIEW_EXECUTIONS


class ExecutionDetail(RestView):
    """One execution; with the right to see sessions, also of a session of others."""

    @Operation("Read a tool execution", ExecutionOut)
    def get(self, request: Request, execution_id: str) -> Response:
        return ok(execution_json(*access_execution_and_session(self.principal.user, execution_id, needs=VIEW_SESSIONS)))


class ReceiptVerify(RestView):
    """Verify that a receipt was issued here and that its call is unchanged. With the right to see executions, any."""

    @Operation("Verify a receipt", ReceiptVerdictOut, body=ReceiptBody)
    def post(self, request: Request) -> Response:
        verdict = receipts.verify_receipt(self.body()["receipt"])
        if verdict.execution_id is not None and not self.principal.holds(VIEW_EXECUTIONS):
            try:
                access_execution(self.principal.user, verdict.execution_id)
            except NotFound:
                verdict = receipts.UNKNOWN
        return ok(ReceiptVerdictOut.of(verdict))


class ExecutionCancel(RestView):
    """Cancel an open execution. Idempotent; returns its present state."""

    @Operation("Stop a tool execution", ExecutionOut)
    def post(self, request: Request, execution_id: str) -> Response:
        execution, session = access_execution_and_session(self.principal.user, execution_id)
        tools.cancel_execution(execution.id)
        return ok(execution_json(access_execution(self.principal.user, execution.id), session))
