"""Exports of sessions, links to them for people without a login, and forks."""

from django.http import HttpResponse
from django.utils.http import content_disposition_header
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app import services
from sessions_app.access import access_session, uuid_or_404
from sessions_app.chat_copies import copy_reader, exports, share_links
from sessions_app.conversation import forks
from sessions_app.identity import rate_limits
from sessions_app.rights import VIEW_SESSIONS
from sessions_app.surfaces.base.addresses import origin_for
from sessions_app.surfaces.base.openapi.operations import Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import TEXT
from sessions_app.surfaces.rest.objects import shares as objects
from sessions_app.surfaces.rest.objects.sessions import SessionOut
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.base import RestView, ok


class SessionExport(RestView):
    """The messages, answers, questions, workstreams and names of files of the active branch, as a file."""

    @Operation(
        "Export a session",
        query=objects.ExportQuery,
        answers={200: Answer("The file.", TEXT, media_type="text/markdown", also_as=["application/json"])},
    )
    def get(self, request: Request, session_id: str) -> HttpResponse:
        session, query = access_session(self.principal.user, session_id, needs=VIEW_SESSIONS), self.query()
        copy, wanted = copy_reader.read_copy(session), query["format_"]
        copy = copy if query["tool_calls"] else copy.without_calls()
        response = HttpResponse(exports.write(copy, wanted), content_type=exports.MEDIA_TYPES[wanted])
        disposition = content_disposition_header(True, exports.filename_of(copy, wanted))
        response.headers["Content-Disposition"] = disposition or "attachment"
        return response


class SessionShares(RestView):
    """Your links to the session that are not over."""

    @paged("List the links to a session", objects.ShareLinkOut)
    def get(self, request: Request, session_id: str) -> Response:
        session = access_session(self.principal.user, session_id)
        return self.page_of(share_links.list_links(self.principal.user, session), objects.ShareLinkOut.of)

    @Operation(
        "Share a session by a link", objects.NewShareLinkOut, status=201, body=objects.ShareBody, errors=[403, 409]
    )
    def post(self, request: Request, session_id: str) -> Response:
        """The link shows the session as it is now. Whoever has it can read that without a login, until it ends."""
        session, fields = access_session(self.principal.user, session_id), self.body()
        created = share_links.create(
            session, self.principal.user, days=fields["days"], has_calls=fields["tool_calls"], has_files=fields["files"]
        )
        url = f"{origin_for(request)}/share/{created.token}"
        return ok(objects.NewShareLinkOut.of(created.row, url=url), status=201)


class ShareList(RestView):
    @paged("List your links to sessions", objects.ShareLinkOut)
    def get(self, request: Request) -> Response:
        return self.page_of(share_links.list_links(self.principal.user), objects.ShareLinkOut.of)


class ShareDetail(RestView):
    @Operation("Revoke a link to a session")
    def delete(self, request: Request, share_id: str) -> Response:
        share_links.revoke(self.principal.user, uuid_or_404(share_id, "link"))
        return ok(None)


class SessionFork(RestView):
    """A new session that goes on from a message of this one, which stays as it is."""

    @Operation("Fork a session", SessionOut, status=201, body=objects.ForkBody, errors=[409])
    def post(self, request: Request, session_id: str) -> Response:
        session, owner = access_session(self.principal.user, session_id), self.principal.user
        rate_limits.take(rate_limits.chat_limit(), self.principal.actor)
        fork = forks.fork_session(session, self.body()["run_id"], owner=owner, channel=services.WEB_CHAT)
        return ok(SessionOut.of(fork), status=201)
