"""The audit log, for users with the right to read it."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from audit_app import selectors
from audit_app.kernel.errors import NotFound
from audit_app.rights import READ_AUDIT
from sessions_app.models import Session
from sessions_app.surfaces.rest.objects.audit import AuditEntryOut, AuditQuery
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.base import RestView, ok


class AuditList(RestView):
    """The newest first. `meta.total` is at most `selectors.MOST_COUNTED`."""

    @paged("Read the audit log", AuditEntryOut, AuditQuery, errors=[403, 404])
    def get(self, request: Request) -> Response:
        self.require(READ_AUDIT)
        page, fields = self.page(), self.query()
        wanted = selectors.EntryFilter(
            action=fields["action"],
            actor=f"user:{fields['actor']}" if fields["actor"].isdigit() else fields["actor"],
            agent_id=fields["agent_id"],
            session_id=_session_uuid(fields["session"]) if fields["session"] else None,
            since=fields["since"],
            until=fields["until"],
        )
        rows = selectors.list_entries(wanted, limit=page.size, offset=page.offset)
        return ok([AuditEntryOut.of(row) for row in rows], page.meta(selectors.count_entries(wanted)))


def _session_uuid(id_or_key: str) -> UUID:
    """Return the id of any session: the right covers all. A deleted session has no public id, only its UUID."""
    try:
        return UUID(id_or_key)
    except ValueError:
        found = Session.objects.filter(key=id_or_key).values_list("pk", flat=True).first()
    if found is None:
        raise NotFound("There is no such session.")
    return found
