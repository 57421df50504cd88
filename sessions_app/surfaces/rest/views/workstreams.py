"""The workstreams of a session, and messages and commands of people to them, to one or to several at once."""

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import selectors as agents
from agents_app.services import PersonRequest
from audit_app.kernel.errors import InvalidInput
from sessions_app import services
from sessions_app.access import access_run, access_session
from sessions_app.identity import rate_limits
from sessions_app.rights import VIEW_SESSIONS
from sessions_app.surfaces.base.openapi.operations import IDEMPOTENCY_KEY, Operation
from sessions_app.surfaces.base.workstream_requests import Asked, ask_each
from sessions_app.surfaces.rest.objects.runs import (
    AskedOut,
    AskedRunOut,
    RunMessageBody,
    RunsMessageBody,
    SteerBody,
    WorkstreamOut,
    WorkstreamQuery,
    workstreams_json,
)
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.base import RestView, ok


class SessionWorkstreams(RestView):
    """The workstreams of all runs of a session, at any depth, by their numbers."""

    @paged("List the workstreams of a session", WorkstreamOut, WorkstreamQuery)
    def get(self, request: Request, session_id: str) -> Response:
        session = access_session(self.principal.user, session_id, needs=VIEW_SESSIONS)
        page, query = self.page(), self.query()
        ids, trees, total = services.list_session_workstreams(
            session, offset=page.offset, limit=page.size, only_open=query["open_"]
        )
        shown = {each["id"]: each for each in workstreams_json(trees)}
        return ok([shown[str(run_id)] for run_id in ids], page.meta(total))


_ASKS: dict[str, Any] = {"errors": [404, 409, 422], "parameters": [IDEMPOTENCY_KEY]}


class AskingView(RestView):
    def ask(self, run_id: str, text: str, **more: Any) -> Response:
        """Send a message or a command to a workstream. more: as for `ask_workstream`."""
        view = access_run(self.principal.user, run_id)
        session = access_session(self.principal.user, view.conversation_id)
        rate_limits.take(rate_limits.chat_limit(), self.principal.actor)
        key = self.request.headers.get("Idempotency-Key", "")
        services.ask_workstream(session, view.id, text, actor=self.principal.actor, key=key, **more)
        return ok(AskedOut.of(None, run_id=view.id))


class RunMessage(AskingView):
    """Write to a workstream: the next task of one that waits for messages."""

    @Operation("Write to a workstream", AskedOut, body=RunMessageBody, **_ASKS)
    def post(self, request: Request, run_id: str) -> Response:
        access_run(self.principal.user, run_id)  # before the body: an unknown run is 404
        return self.ask(run_id, self.body()["text"])


class RunSteer(AskingView):
    """Give a workstream an instruction, or pause or resume it. Stop it by POST /api/runs/{runId}/cancel."""

    @Operation("Steer a workstream", AskedOut, body=SteerBody, **_ASKS)
    def post(self, request: Request, run_id: str) -> Response:
        access_run(self.principal.user, run_id)
        fields = self.body()
        return self.ask(run_id, fields["text"], command=fields["command"])


class RunsMessage(RestView):
    """Write to several workstreams, steer, pause, resume or stop them. Each has a result of its own, which names why
    one was not reached. Counts as one message."""

    @Operation(
        "Write to several workstreams",
        [AskedRunOut],
        body=RunsMessageBody,
        parameters=[IDEMPOTENCY_KEY],
        errors=[404, 422],
    )
    def post(self, request: Request) -> Response:
        fields, key = self.body(), request.headers.get("Idempotency-Key", "")
        asked = PersonRequest(fields["text"], self.principal.actor, fields["command"], key)
        return ok([_asked_json(each) for each in ask_each(self.principal.user, self._run_ids(fields), asked)])

    def _run_ids(self, fields: dict[str, Any]) -> list[UUID]:
        """Return the given workstreams, or those of the given parent that work."""
        if ("runs" in fields) == ("parent_run_id" in fields):
            raise InvalidInput("Name either `runs` or `parentRunId`.", code="runs_required")
        if "runs" in fields:
            return list(fields["runs"])
        parent = access_run(self.principal.user, fields["parent_run_id"])
        below = agents.list_subtree(parent.id)
        return [view.launch_id for view in below if view.parent_id == parent.id and view.ended_at is None]


def _asked_json(asked: Asked) -> dict[str, Any]:
    error, code = (asked.error.message, asked.error.code) if asked.error else ("", "")
    return AskedRunOut.of(None, run_id=asked.run_id, is_sent=asked.error is None, error=error, error_code=code)
