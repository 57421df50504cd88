"""Messages of the caller's sessions: answered again, edited, found by the search."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Q
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app import selectors, services
from sessions_app.access import access_session
from sessions_app.conversation import arrivals, message_search
from sessions_app.conversation.arrivals import Arrival
from sessions_app.identity import rate_limits
from sessions_app.models import Session, Turn
from sessions_app.rights import VIEW_SESSIONS
from sessions_app.surfaces.base.openapi.operations import IDEMPOTENCY_KEY, Operation
from sessions_app.surfaces.base.written_files import files_by_run
from sessions_app.surfaces.rest.objects.messages import (
    AcceptedOut,
    EditBody,
    FoundMessageOut,
    InboundMessageOut,
    OutboundMessageOut,
    RegenerateBody,
    SearchQuery,
)
from sessions_app.surfaces.rest.operations import paged, scrolled
from sessions_app.surfaces.rest.views.base import RestView, ok

_REPLACES: dict[str, Any] = {
    "status": 202,
    "errors": [404, 409, 422],
    "parameters": [IDEMPOTENCY_KEY],
    "description": "The new message begins a branch, which later messages continue. The earlier turns stay.",
}


class SessionMessages(RestView):
    """Messages and their answers in the fields of a channel's messages, the oldest first; pages as of the turns."""

    @paged("Read messages as a channel sends them", (InboundMessageOut, OutboundMessageOut))
    def get(self, request: Request, session_id: str) -> Response:
        session, page = access_session(self.principal.user, session_id, needs=VIEW_SESSIONS), self.page()
        among = selectors.ON_PATH & (Q(role="user") | Q(role="assistant", is_answer=True))
        turns = selectors.list_turns(session, limit=page.size, offset=page.offset, failed=False, among=among)
        return ok(_messages(session, turns), page.meta(selectors.count_turns(session, failed=False, among=among)))


def _messages(session: Session, turns: Sequence[Turn]) -> list[dict[str, Any]]:
    arrived, files = arrivals.of_turns(session, turns), selectors.attachments_of(turns)
    written = files_by_run(session.pk) if any(turn.is_answer for turn in turns) else {}
    return [
        _inbound(session, turn, arrived[turn.pk], attachments=files.get(turn.pk, ()))
        if turn.pk in arrived
        else _outbound(session, turn, attachments=written.get(turn.run_id, ()))
        for turn in turns
    ]


def _inbound(session: Session, turn: Turn, arrival: Arrival, **given: Any) -> dict[str, Any]:
    return InboundMessageOut.of(
        turn,
        direction="inbound",
        session_id=session.key,
        channel=session.channel,
        channel_account_id=session.account_id,
        message_id=arrival.message_id,
        sender_id=arrival.sender_id,
        sender_display_name=arrival.sender_name,
        timestamp=arrival.sent_at or turn.created_at,
        metadata=arrival.metadata,
        **given,
    )


def _outbound(session: Session, turn: Turn, **given: Any) -> dict[str, Any]:
    place = {"session_id": session.key, "channel": session.channel, "recipient_id": session.sender_id}
    return OutboundMessageOut.of(turn, direction="outbound", **place, **given)


class SessionRegenerate(RestView):
    """Answer the message of a run again, in a branch of its own: by default the last message."""

    @Operation("Generate an answer again", AcceptedOut, body=RegenerateBody, **_REPLACES)
    def post(self, request: Request, session_id: str) -> Response:
        session, owner = access_session(self.principal.user, session_id), self.principal.user
        rate_limits.take(rate_limits.chat_limit(), self.principal.actor)
        run_id, key = self.body()["run_id"], request.headers.get("Idempotency-Key", "")
        return _accepted(services.regenerate_answer(session, run_id, owner=owner, idempotency_key=key))


class SessionEdit(RestView):
    """Replace the message of a run, in a branch of its own. The turns from that message on stay in the one before."""

    @Operation("Edit a message", AcceptedOut, body=EditBody, **_REPLACES)
    def post(self, request: Request, session_id: str) -> Response:
        session, owner = access_session(self.principal.user, session_id), self.principal.user
        rate_limits.take(rate_limits.chat_limit(), self.principal.actor)
        fields, key = self.body(), request.headers.get("Idempotency-Key", "")
        accepted = services.edit_message(session, fields["run_id"], fields["text"], owner=owner, idempotency_key=key)
        return _accepted(accepted)


class Search(RestView):
    """The messages that match, the best of the newest first. `meta.nextCursor` is null at the end."""

    @scrolled("Search in the messages of your sessions", "messages", FoundMessageOut, SearchQuery)
    def get(self, request: Request) -> Response:
        wanted = self.query()
        found = message_search.search_messages(
            self.principal.user, wanted["query"], limit=wanted["limit"], cursor=wanted["cursor"]
        )
        shown = [FoundMessageOut.of(message) for message in found.messages]
        return ok(shown, {"nextCursor": found.cursor or None})


def _accepted(accepted: services.Accepted) -> Response:
    return ok(AcceptedOut.of(None, session_id=accepted.session_key, run_id=accepted.run_id), status=202)
