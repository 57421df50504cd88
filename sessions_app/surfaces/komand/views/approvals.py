"""Requests for approval: operators see and decide all of them, others see those of their own sessions."""

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import services as runs
from sessions_app import selectors
from sessions_app.access import access_approval
from sessions_app.surfaces.komand import shapes
from sessions_app.surfaces.komand.serializers import ApprovalQuery, DecideBody
from sessions_app.surfaces.komand.views.base import KomandView, ok
from tools_app import selectors as tools


class ApprovalList(KomandView):
    """Newest first; `?status=pending` for those that wait. `meta.total` is absent: the list is for working through."""

    def get(self, request: Request) -> Response:
        user, query = self.principal.user, self.query(ApprovalQuery)
        page, own = query.wanted, None if user.is_staff else selectors.session_ids_of(user)
        rows = tools.list_approvals(
            status=query.validated_data["status"], session_ids=own, limit=page.size, offset=page.offset
        )
        return ok([shapes.approval(row) for row in rows], {"page": page.number, "pageSize": page.size})


class ApprovalDetail(KomandView):
    def get(self, request: Request, approval_id: str) -> Response:
        return ok(shapes.approval(access_approval(self.principal.user, approval_id)))


class ApprovalDecide(KomandView):
    """Decides once: 409 names the first decision, 410 says that the time was over, 403 that it takes an operator."""

    def post(self, request: Request, approval_id: str) -> Response:
        approval = access_approval(self.principal.user, approval_id, to_decide=True)
        asked = self.body(DecideBody)
        decided = runs.decide_approval(
            approval.id, approve=asked["decision"] == "allow_once", actor=self.principal.actor, note=asked["note"]
        )
        return ok(shapes.approval(decided))
