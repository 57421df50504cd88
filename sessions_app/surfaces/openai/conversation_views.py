"""Views of conversations and their items. API reference, Conversations."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import InvalidInput
from sessions_app import services
from sessions_app.models import Session
from sessions_app.surfaces.base.bodies import clean
from sessions_app.surfaces.base.function_tools import invalid_param
from sessions_app.surfaces.base.openapi.operations import Operation, Parameter
from sessions_app.surfaces.base.openapi.schemas import TEXT, one_of, ref
from sessions_app.surfaces.base.views import PlainView
from sessions_app.surfaces.openai import conversation_items, conversations
from sessions_app.surfaces.openai.body_schemas import CONVERSATION_BODY, CONVERSATION_UPDATE_BODY, ITEMS_BODY
from sessions_app.surfaces.openai.conversation_items import Page
from sessions_app.surfaces.openai.requests import read_metadata

_MOST_LISTED, _LISTED = 100, 20
_PAGE = [
    Parameter("limit", "Number of items, 20 by default.", {"type": "integer", "minimum": 1, "maximum": _MOST_LISTED}),
    Parameter("order", "By default the newest first.", one_of(["asc", "desc"])),
    Parameter("after", "Id of the item before the page.", TEXT),
]


class _View(PlainView):
    def session(self) -> Session:
        """Return the session of the conversation in the address. Raises NotFound."""
        return conversations.access_conversation(self.principal.user, self.kwargs["conversation_id"])

    def object(self) -> dict[str, Any]:
        """Return the JSON object of the body. Raises InvalidInput."""
        body = clean(self.request.data)
        if not isinstance(body, dict):
            raise InvalidInput("The body must be a JSON object.", code="invalid_body")
        return body


class ConversationList(_View):
    @Operation("Create a conversation", ref("Conversation"), body=CONVERSATION_BODY, errors=[404])
    def post(self, request: Request) -> Response:
        body, user = self.object(), self.principal.user
        items = conversations.read_items(user, body["items"]) if body.get("items") else ()
        return Response(conversations.as_sent(conversations.create(user, read_metadata(body), items)))


class ConversationDetail(_View):
    @Operation("Read a conversation", ref("Conversation"))
    def get(self, request: Request, conversation_id: str) -> Response:
        return Response(conversations.as_sent(self.session()))

    @Operation("Replace the metadata of a conversation", ref("Conversation"), body=CONVERSATION_UPDATE_BODY)
    def post(self, request: Request, conversation_id: str) -> Response:
        session, body = self.session(), self.object()
        if "metadata" not in body:
            raise invalid_param("metadata is missing.", "metadata", "missing_required_parameter")
        conversations.update(session, read_metadata(body))
        return Response(conversations.as_sent(session))

    @Operation("Delete a conversation", ref("ConversationDeleted"), description="Deletes its items, too.")
    def delete(self, request: Request, conversation_id: str) -> Response:
        session = self.session()
        services.delete_session(session)
        found = {"id": conversations.id_of(session.pk), "object": "conversation.deleted", "deleted": True}
        return Response(found)


class ConversationItems(_View):
    @Operation("List the items of a conversation", ref("ConversationItemList"), parameters=_PAGE)
    def get(self, request: Request, conversation_id: str) -> Response:
        order = request.query_params.get("order") or "desc"
        if order not in ("asc", "desc"):
            raise invalid_param("order must be asc or desc.", "order")
        after, limit = request.query_params.get("after", ""), self._limit()
        page = conversation_items.list_items(
            self.session(), limit=limit, newest_first=order == "desc", after=after.replace("\0", "")
        )
        return Response(page.as_sent)

    @Operation("Add items to a conversation", ref("ConversationItemList"), body=ITEMS_BODY, errors=[409])
    def post(self, request: Request, conversation_id: str) -> Response:
        session, user = self.session(), self.principal.user
        turns = conversations.add_items(user, session, conversations.read_items(user, self.object().get("items")))
        return Response(Page(conversation_items.items_of_import(turns)).as_sent)

    def _limit(self) -> int:
        given = self.request.query_params.get("limit") or str(_LISTED)
        if not (given.isascii() and given.isdecimal() and len(given) < 5 and 1 <= int(given) <= _MOST_LISTED):
            raise invalid_param(f"limit must be a number from 1 to {_MOST_LISTED}.", "limit")
        return int(given)


class ConversationItem(_View):
    @Operation("Read an item of a conversation", ref("ConversationItem"))
    def get(self, request: Request, conversation_id: str, item_id: str) -> Response:
        return Response(conversation_items.find_item(self.session(), item_id))

    @Operation(
        "Remove a message from a conversation",
        ref("Conversation"),
        errors=[400, 409],
        description="Later responses do not read it. Calls of tools and their outputs cannot be removed.",
    )
    def delete(self, request: Request, conversation_id: str, item_id: str) -> Response:
        session = self.session()
        turn = conversation_items.find_turn(session, conversation_items.find_item(session, item_id))
        if turn is None:
            message = "Only messages can be removed. Delete the conversation to remove calls and their outputs."
            raise invalid_param(message, "item_id", "not_removable")
        services.remove_turn(session, turn)
        return Response(conversations.as_sent(session))
