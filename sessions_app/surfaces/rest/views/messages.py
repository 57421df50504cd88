"""Messages of the caller's sessions: answered again, edited, found by the search."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app import services
from sessions_app.access import access_session
from sessions_app.conversation import message_search
from sessions_app.identity import rate_limits
from sessions_app.surfaces.base.openapi.operations import IDEMPOTENCY_KEY, Operation
from sessions_app.surfaces.rest.objects.messages import (
    AcceptedOut,
    EditBody,
    FoundMessageOut,
    RegenerateBody,
    SearchQuery,
)
from sessions_app.surfaces.rest.operations import scrolled
from sessions_app.surfaces.rest.views.base import RestView, ok

_REPLACES: dict[str, Any] = {
    "status": 202,
    "errors": [404, 409, 422],
    "parameters": [IDEMPOTENCY_KEY],
    "description": "The new message begins a branch, which later messages continue. The earlier turns stay.",
}


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
