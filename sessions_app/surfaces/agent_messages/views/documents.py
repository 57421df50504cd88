"""Files of the user as documents of the protocol: search, read."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.surfaces.agent_messages import documents, requests
from sessions_app.surfaces.agent_messages.documents import Document
from sessions_app.surfaces.agent_messages.views.base import AgentsView
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.base.openapi.schemas import OBJECT, TEXT, list_of, record
from sessions_app.surfaces.base.timestamps import iso

_MOST_OFFSET = 1_000_000


class DocumentSearch(AgentsView):
    """Files of the user's sessions, the last changed first. Filters and facets of the protocol have no effect."""

    @Operation("List documents", record({"results": list_of(OBJECT), "facets": OBJECT}), body=OBJECT)
    def post(self, request: Request) -> Response:
        body = requests.as_object(request.data)
        limit = _number(body.get("limit"), documents.MOST, documents.MOST)
        offset = _number(body.get("offset"), 0, _MOST_OFFSET)
        found = documents.list_documents(self.principal.user, offset=offset, limit=limit)
        return Response({"results": [_shown(row, self.principal.actor) for row in found], "facets": {}})


class DocumentDetail(AgentsView):
    @Operation("Read a document", OBJECT)
    def get(self, request: Request, artifact_id: str) -> Response:
        return Response(_shown(documents.find(self.principal.user, artifact_id), self.principal.actor))


class DocumentText(AgentsView):
    @Operation("Read the text of a document", record({"text": TEXT}, optional=["text"]))
    def get(self, request: Request, artifact_id: str) -> Response:
        """Return the text of the file, or what is read from it; none for a file without text."""
        text = documents.text_of(documents.find(self.principal.user, artifact_id))
        return Response({} if text is None else {"text": text})


def _number(given: Any, default: int, most: int) -> int:
    is_number = isinstance(given, int) and not isinstance(given, bool) and given >= 0
    return min(given, most) if is_number else default


def _shown(document: Document, owner: str) -> dict[str, Any]:
    at = iso(document.changed_at)
    return {
        "id": str(document.id),
        "name": document.name,
        "location": "/",
        "status": "completed",
        "properties": {"title": document.name},
        "content": {"name": document.name, "type": document.media_type},
        "revision": {"root": str(document.id), "head": True},
        "created_by": owner,
        "updated_by": owner,
        "created_at": at,
        "updated_at": at,
        "embeddings": {},
    }
