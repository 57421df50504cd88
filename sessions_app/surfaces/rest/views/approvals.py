"""Requests for approval: people see those of their own sessions, operators may see and decide more of them."""

from collections.abc import Iterable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app import selectors
from sessions_app.access import access_approval
from sessions_app.approvals import decisions, permissions
from sessions_app.surfaces.rest import responses
from sessions_app.surfaces.rest.requests import ApprovalQuery, DecideBody
from sessions_app.surfaces.rest.views.base import KomandView, ok
from tools_app import selectors as tools
from tools_app.types import ApprovalView


class OfApprovals(KomandView):
    """What the views of requests share: how one is shown to the caller."""

    def shown(self, found: Iterable[ApprovalView]) -> list[dict[str, Any]]:
        views, user = list(found), self.principal.user
        sessions = selectors.sessions_by_id({view.session_id for view in views})
        shown = []
        for view in views:
            session = sessions.get(view.session_id)
            owner_id = session.owner_id if session else None
            allowed_decisions = permissions.allowed_decisions(user, owner_id) if self.principal.can_write else ()
            shown.append(
                responses.approval(
                    view, session_key=session.key if session else "", allowed_decisions=allowed_decisions
                )
            )
        return shown


class ApprovalList(OfApprovals):
    """Newest first; `?status=pending` for those that wait. `meta.total` is absent: the list is for working through."""

    def get(self, request: Request) -> Response:
        user, query = self.principal.user, self.query(ApprovalQuery)
        page, own = query.wanted, None if permissions.sees_all(user) else selectors.session_ids_of(user)
        rows = tools.list_approvals(
            status=query.validated_data["status"], session_ids=own, limit=page.size, offset=page.offset
        )
        return ok(self.shown(rows), {"page": page.number, "pageSize": page.size})


class ApprovalDetail(OfApprovals):
    def get(self, request: Request, approval_id: str) -> Response:
        return ok(*self.shown([access_approval(self.principal.user, approval_id)]))


class ApprovalDecide(OfApprovals):
    """Decides once: 409 names the first decision, 410 says that the time was over, 403 that it takes an operator."""

    def post(self, request: Request, approval_id: str) -> Response:
        approval = access_approval(self.principal.user, approval_id, to_decide=True)
        asked = self.body(DecideBody)
        decided = decisions.decide(
            approval.id, decision=asked["decision"], actor=self.principal.actor, note=asked["note"]
        )
        return ok(*self.shown([decided]))
