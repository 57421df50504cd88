"""Tool executions of the caller's sessions: read and cancel."""

from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import NotFound
from sessions_app.access import access_execution
from sessions_app.surfaces.rest import responses
from sessions_app.surfaces.rest.requests import ReceiptBody
from sessions_app.surfaces.rest.views.base import KomandView, ok
from tools_app import services as tools
from tools_app.receipts import receipts


class ExecutionDetail(KomandView):
    def get(self, request: Request, execution_id: str) -> Response:
        return ok(responses.ExecutionOut.of(access_execution(self.principal.user, execution_id)))


class ReceiptVerify(KomandView):
    """Is the receipt ours, and is the call that it names still recorded as it was? Operators may ask of any call."""

    def post(self, request: Request) -> Response:
        verdict = receipts.verify_receipt(self.body(ReceiptBody)["receipt"])
        if verdict.execution_id is not None and not self.principal.user.is_staff:
            try:
                access_execution(self.principal.user, verdict.execution_id)
            except NotFound:
                verdict = receipts.UNKNOWN
        return ok(responses.ReceiptVerdictOut.of(verdict))


class ExecutionCancel(KomandView):
    """Stops an open execution. One that has ended stays as it is; either way the answer is its present state."""

    def post(self, request: Request, execution_id: str) -> Response:
        tools.cancel_execution(access_execution(self.principal.user, execution_id).id)
        return ok(responses.ExecutionOut.of(access_execution(self.principal.user, execution_id)))
