"""Approvals: users see those of their own sessions; rights over approvals let them see and decide those of others."""

from collections.abc import Sequence
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app import selectors
from sessions_app.access import access_approval
from sessions_app.approvals import decisions, permissions
from sessions_app.identity import scopes
from sessions_app.models import Session
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects.approvals import ApprovalOut, ApprovalQuery, DecideBody, approval
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.base import RestView, ok
from tools_app import selectors as tools
from tools_app.types import ApprovalView


class ApprovalsView(RestView):
    def shown(self, views: Sequence[ApprovalView]) -> list[dict[str, Any]]:
        """Return the approvals with the decisions that the caller may make."""
        sessions = selectors.sessions_by_id({view.session_id for view in views})
        return [self._shown(view, sessions.get(view.session_id)) for view in views]

    def _shown(self, view: ApprovalView, session: Session | None) -> dict[str, Any]:
        owner_id = session.owner_id if session else None
        owner_id = permissions.deciding_user_id(view, owner_id)
        allowed = permissions.allowed_decisions(self.principal.user, owner_id) if self.principal.can_write else ()
        return approval(view, session_key=session.key if session else "", allowed_decisions=allowed)


class ApprovalList(ApprovalsView):
    """The newest first; `?status=pending` for the open ones. `meta.total` is absent."""

    @paged("List approvals", ApprovalOut, ApprovalQuery)
    def get(self, request: Request) -> Response:
        user, page = self.principal.user, self.page()
        is_limited = scopes.agents_of(user) is not None
        own = selectors.session_ids_of(user) if is_limited or not permissions.sees_all(user) else None
        rows = tools.list_approvals(
            status=self.query()["status"],
            session_ids=own,
            credential_owner="" if is_limited else permissions.credential_owner_of(user),
            limit=page.size,
            offset=page.offset,
        )
        return ok(self.shown(rows), {"page": page.number, "pageSize": page.size})


class ApprovalDetail(ApprovalsView):
    @Operation("Read an approval", ApprovalOut)
    def get(self, request: Request, approval_id: str) -> Response:
        return ok(*self.shown([access_approval(self.principal.user, approval_id)]))


class ApprovalDecide(ApprovalsView):
    """Decide an approval. 409 if it is decided already, 410 if it has expired, 403 `missing_right`."""

    @Operation("Decide an approval", ApprovalOut, body=DecideBody, errors=[409, 410])
    def post(self, request: Request, approval_id: str) -> Response:
        fields = self.body()
        approval = access_approval(self.principal.user, approval_id, decision=fields["decision"])
        actor, has_fresh_login = self.principal.actor, self.principal.has_fresh_login
        decided = decisions.decide(approval.id, actor=actor, has_fresh_login=has_fresh_login, **fields)
        return ok(*self.shown([decided]))
