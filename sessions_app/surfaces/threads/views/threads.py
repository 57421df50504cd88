"""Threads, and the messages that the agent is to answer."""

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import selectors as agents
from sessions_app import selectors, services
from sessions_app.identity import rate_limits
from sessions_app.models import Session
from sessions_app.services import WEB_CHAT
from sessions_app.surfaces.base.openapi.operations import IDEMPOTENCY_KEY, Operation
from sessions_app.surfaces.base.openapi.schemas import ref
from sessions_app.surfaces.threads import commands, responses
from sessions_app.surfaces.threads.foreign_ids import user_uuid, workflow_id
from sessions_app.surfaces.threads.requests import ThreadBody, ThreadChanges, ThreadQuery, UserMessageBody
from sessions_app.surfaces.threads.views.base import ThreadsView

_ORDER = {"CREATED_AT": "created_at", "UPDATED_AT": "last_active_at"}


class ThreadList(ThreadsView):
    @Operation("List your threads", ref("ThreadPage"), query=ThreadQuery)
    def get(self, request: Request) -> Response:
        query, fields, user = self.checked_query, self.query(), self.principal.user
        bounds = {name.replace("updated_at", "last_active_at"): bound for name, bound in query.between().items()}
        rows = selectors.sessions_of(user).filter(channel=WEB_CHAT, **bounds)
        if fields["parent_path_part_id"] not in (None, user_uuid(user.pk)):
            rows = rows.none()  # there is no other folder
        if fields["title_like"]:
            rows = rows.filter(title__icontains=fields["title_like"])
        shown = list(query.page_of(rows.select_related("agent"), _ORDER[fields["sort_by"]]))
        busy = agents.list_busy([session.id for session in shown])
        items = [responses.thread(session, user, is_busy=session.id in busy) for session in shown]
        return Response(responses.page(items, rows.count(), fields))

    @Operation("Create a thread", responses.ThreadOut, status=201, body=ThreadBody, errors=[404, 409])
    def post(self, request: Request) -> Response:
        session = commands.open_thread(self.principal.user, self.body())
        return Response(responses.thread(session, self.principal.user, is_busy=False), status=201)


class ThreadDetail(ThreadsView):
    @Operation("Read a thread", responses.ThreadOut)
    def get(self, request: Request, thread_id: str) -> Response:
        return self._shown(self.thread(thread_id))

    @Operation("Change a thread", responses.ThreadOut, body=ThreadChanges, errors=[409])
    def patch(self, request: Request, thread_id: str) -> Response:
        session = self.thread(thread_id)
        return self._shown(commands.change_thread(self.principal.user, session, self.body()))

    @Operation("Delete a thread", status=204)
    def delete(self, request: Request, thread_id: str) -> Response:
        """Delete the thread and stop its runs."""
        services.delete_session(self.thread(thread_id))
        return Response(status=204)

    def _shown(self, session: Session) -> Response:
        is_busy = bool(agents.list_busy([session.id]))
        return Response(responses.thread(session, self.principal.user, is_busy=is_busy))


class UserMessage(ThreadsView):
    """Stores a message and answers at once; clients receive the agent's answer from the stream or the messages."""

    @Operation(
        "Send a message",
        responses.ThreadMessageTakenOut,
        body=UserMessageBody,
        status=202,
        errors=[409],
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: Request, thread_id: str) -> Response:
        session, user = self.thread(thread_id), self.principal.user
        rate_limits.take(rate_limits.chat_limit(), self.principal.actor)
        key = request.headers.get("Idempotency-Key", "")
        accepted = commands.send_message(user, session, self.body(), key)
        ids = {"user_message_id": str(accepted.turn_id), "message_id": str(accepted.run_id)}
        return Response({"workflow_id": workflow_id(session.id), **ids}, status=202)
