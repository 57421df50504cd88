"""Messages of a run, signals, queries and telemetry. Streams are in `consumers`."""

import gzip

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import InvalidInput
from audit_app.kernel.json_text import as_json
from sessions_app.surfaces.agent_messages import queries, requests, session_writes, signals, workflow_queries
from sessions_app.surfaces.agent_messages.operations import BEFORE, SINCE, limit
from sessions_app.surfaces.agent_messages.views.base import AgentsView
from sessions_app.surfaces.agent_messages.wire_format import AgentMessageType, create
from sessions_app.surfaces.agent_messages.wire_schemas import POSTED_TYPES
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.base.openapi.schemas import ANYTHING, BOOLEAN, COUNT, OBJECT, TEXT, list_of, record, ref

_WORTH_COMPRESSING = 3000  # bytes
_LONGEST_NAME = 120
_TELEMETRY = {"type": "object", "properties": {"events": list_of(ANYTHING)}}


class RunUpdates(AgentsView):
    """The stored messages after `since`, by time. `limit` and `before` page backwards."""

    @Operation(
        "List the messages of a run",
        record({"messages": list_of(OBJECT)}),
        parameters=[SINCE, BEFORE, limit("Only the newest N messages.")],
    )
    def get(self, request: Request, run_id: str, workflow_id: str = "") -> HttpResponse:
        run, query = self.agent_run(run_id, workflow_id), self.query_values()
        since, before = requests.read_since(query.get("since", "")), requests.read_since(query.get("before", ""))
        found = queries.read_history(self.principal, run, since)
        if before:
            found = [message for message in found if message["ts"] < before]
        if limit := query.get("limit", ""):
            if not (limit.isascii() and limit.isdecimal() and int(limit[:9]) > 0):
                raise InvalidInput("`limit` must be an integer of at least 1.", code="invalid_limit", param="limit")
            found = found[-int(limit[:9]) :]
        body = as_json({"messages": found}).encode()
        response = HttpResponse(body, content_type="application/json")
        response.headers["Vary"] = "Accept-Encoding"
        if len(body) > _WORTH_COMPRESSING and "gzip" in request.headers.get("Accept-Encoding", ""):
            response.content = gzip.compress(body, 5)
            response.headers["Content-Encoding"] = "gzip"
        return response

    @Operation("Post a message", record({"success": BOOLEAN}), body=ref("AgentMessagePosted"), errors=[409])
    def post(self, request: Request, run_id: str, workflow_id: str = "") -> Response:
        """Store a message, with the server's time. An unknown type is stored as UPDATE."""
        run, posted = self.agent_run(run_id, workflow_id), requests.checked(request.data, POSTED_TYPES)
        try:
            kind = AgentMessageType(posted.get("type", AgentMessageType.UPDATE))
        except ValueError:
            kind = AgentMessageType.UPDATE
        if kind is AgentMessageType.STREAMING_CHUNK:
            raise InvalidInput("Chunks are not stored and cannot be posted.", code="chunk_posted", param="type")
        text, workstream = posted.get("message", ""), posted.get("workstream_id", "")
        if len(workstream) > _LONGEST_NAME or len(text) > requests.LONGEST_TEXT:
            raise InvalidInput("The message is too long.", code="text_too_long")
        message = create(kind, text, workstream=workstream, details=posted.get("details"))
        session_writes.post_message(run.session, message)
        return Response({"success": True})


class RunSignal(AgentsView):
    @Operation("Signal a run", record({"status": TEXT, "message": TEXT}), body=OBJECT, errors=[409, 422])
    def post(self, request: Request, run_id: str, signal: str, workflow_id: str = "") -> Response:
        result = signals.send(self.principal, self.agent_run(run_id, workflow_id), signal, request.data)
        return Response({"status": result.status, "message": result.message})


class RunQuery(AgentsView):
    @Operation("Query a run", ANYTHING)
    def get(self, request: Request, run_id: str, query: str, workflow_id: str = "") -> Response:
        return Response(workflow_queries.answer(self.agent_run(run_id, workflow_id), query))


class RunEvents(AgentsView):
    """Telemetry of external workers: accepted and discarded. The timeline has the events of this server's workers."""

    @Operation("Send telemetry", record({"ingested": COUNT, "status": TEXT}), body=_TELEMETRY)
    def post(self, request: Request, run_id: str, workflow_id: str = "") -> Response:
        self.agent_run(run_id, workflow_id)
        requests.checked(request.data, {"events": "array"})
        return Response({"ingested": 0, "status": "ignored"})
