"""The messages of a thread."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import NotFound
from sessions_app.models import Session
from sessions_app.surfaces.base.openapi.operations import Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import ref
from sessions_app.surfaces.threads import commands, queries, responses
from sessions_app.surfaces.threads.queries import MessageFilter, ThreadMessage
from sessions_app.surfaces.threads.requests import MessageBody, MessageQuery, OneMessageQuery
from sessions_app.surfaces.threads.views.base import ThreadsView


class _MessagesView(ThreadsView):
    def shape(self, message: ThreadMessage, session: Session) -> responses.Shape:
        return responses.message(message, session, self.principal.user)


class MessageList(_MessagesView):
    @Operation("List messages", ref("ThreadMessagePage"), query=MessageQuery)
    def get(self, request: Request, thread_id: str) -> Response:
        session, fields = self.thread(thread_id), self.query()
        wanted = MessageFilter(
            limit=fields["limit"],
            offset=fields["offset"],
            role=(fields["role"] or "").lower(),
            before=fields["before"],
            newest_first=fields["sort_dir"] == "DESC",
            with_details=fields["with_details"],
        )
        messages, total = queries.list_messages(session, wanted)
        return Response(responses.page([self.shape(message, session) for message in messages], total, fields))

    @Operation(
        "Store a message",
        responses.ThreadMessageOut,
        status=201,
        body=MessageBody,
        answers={200: Answer("It exists already.", responses.ThreadMessageOut)},
        errors=[409],
    )
    def post(self, request: Request, thread_id: str) -> Response:
        """Store a message that starts no run. Always 201, also for a repeated `message_id`: clients expect no other."""
        session = self.thread(thread_id)
        turn = commands.write_message(session, self.body())
        return Response(self.shape(queries.get_message(session, turn.pk), session), status=201)


class MessageDetail(_MessagesView):
    @Operation("Read a message", responses.ThreadMessageOut, query=OneMessageQuery)
    def get(self, request: Request, thread_id: str, message_id: str) -> Response:
        session, fields = self.thread(thread_id), self.query()
        try:
            found = queries.get_message(session, UUID(message_id), with_details=fields["with_details"])
        except ValueError:
            raise NotFound("There is no such message in this thread.") from None
        return Response(self.shape(found, session))
