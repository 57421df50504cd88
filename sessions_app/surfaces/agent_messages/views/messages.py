"""What is said in a run: stored messages, posted ones, signals, queries. What streams is in live.py."""

import gzip
import json

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import InvalidInput
from sessions_app.surfaces.agent_messages import queries as queries_module
from sessions_app.surfaces.agent_messages import requests, session_writes, signals, wire_format, workflow_queries
from sessions_app.surfaces.agent_messages.views.base import AgentsView
from sessions_app.surfaces.agent_messages.wire_format import MessageType

_WORTH_COMPRESSING = 3000  # bytes
_POSTED = {
    "timestamp": "number",
    "workflow_run_id": "text",
    "type": "number",
    "message": "text",
    "details": "object",
    "workstream_id": "text",
}
_LONGEST_NAME = 120


class RunUpdates(AgentsView):
    """The stored messages, by time; `since` leaves out those up to that time, `limit` and `before` page backwards."""

    def get(self, request: Request, run_id: str, workflow_id: str = "") -> HttpResponse:
        run, asked = self.agent_run(run_id, workflow_id), self.asked()
        since, before = requests.read_since(asked.get("since", "")), requests.read_since(asked.get("before", ""))
        found = queries_module.read_history(self.principal, run, since)
        if before:
            found = [message for message in found if message["ts"] < before]
        if limit := asked.get("limit", ""):
            if not (limit.isascii() and limit.isdecimal() and int(limit[:9]) > 0):
                raise InvalidInput("limit is a whole number of at least 1.", code="invalid_limit", param="limit")
            found = found[-int(limit[:9]) :]
        body = json.dumps({"messages": found}, ensure_ascii=False, separators=(",", ":")).encode()
        response = HttpResponse(body, content_type="application/json")
        response.headers["Vary"] = "Accept-Encoding"
        if len(body) > _WORTH_COMPRESSING and "gzip" in request.headers.get("Accept-Encoding", ""):
            response.content = gzip.compress(body, 5)
            response.headers["Content-Encoding"] = "gzip"
        return response

    def post(self, request: Request, run_id: str, workflow_id: str = "") -> Response:
        """Adds a message, in the long form. Its time is the one at which it is stored, whatever it says."""
        run, told = self.agent_run(run_id, workflow_id), requests.checked(request.data, _POSTED)
        kind = wire_format.normalise_type(told.get("type", MessageType.UPDATE))
        if told.get("type") == MessageType.RESTARTING:
            kind = MessageType.RESTARTING
        if kind is MessageType.STREAMING_CHUNK:
            raise InvalidInput("Chunks are not stored, so they cannot be posted.", code="chunk_posted", param="type")
        if len(told.get("workstream_id", "")) > _LONGEST_NAME or len(told.get("message", "")) > requests.LONGEST_TEXT:
            raise InvalidInput("The message is too long.", code="text_too_long")
        message = wire_format.create(
            kind, message=told.get("message", ""), workstream=told.get("workstream_id", ""), details=told.get("details")
        )
        session_writes.post(run.session, message)
        return Response({"success": True})


class RunSignal(AgentsView):
    def post(self, request: Request, run_id: str, signal: str, workflow_id: str = "") -> Response:
        outcome = signals.send(self.principal, self.agent_run(run_id, workflow_id), signal, request.data)
        return Response({"status": outcome.status, "message": outcome.message})


class RunQuery(AgentsView):
    def get(self, request: Request, run_id: str, query: str, workflow_id: str = "") -> Response:
        return Response(workflow_queries.answer(self.agent_run(run_id, workflow_id), query))


class RunEvents(AgentsView):
    """Telemetry of outside workers. Taken, and not kept: what our own workers do is in the timeline already."""

    def post(self, request: Request, run_id: str, workflow_id: str = "") -> Response:
        self.agent_run(run_id, workflow_id)
        requests.checked(request.data, {"events": "list"})
        return Response({"ingested": 0, "status": "ignored"})
