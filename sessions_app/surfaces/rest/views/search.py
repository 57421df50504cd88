"""Search in the messages of the caller's sessions."""

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.conversation import message_search
from sessions_app.surfaces.rest.objects.messages import FoundMessageOut, SearchQuery
from sessions_app.surfaces.rest.operations import scrolled
from sessions_app.surfaces.rest.views.base import RestView, ok


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
