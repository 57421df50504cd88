"""The workstreams of a session, and messages and commands of people to them, to one or to several at once."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import AppError
from sessions_app import services
from sessions_app.access import access_run, access_session
from sessions_app.identity import rate_limits
from sessions_app.rights import VIEW_SESSIONS
from sessions_app.surfaces.base.openapi.operations import IDEMPOTENCY_KEY, Operation
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


class RunsMessage(AskingView):
    """Write the same to several workstreams. Each has a result of its own: those that cannot be written to name why."""

    @Operation(
        "Write to several workstreams", [AskedRunOut], body=RunsMessageBody, parameters=[IDEMPOTENCY_KEY], errors=[422]
    )
    def post(self, request: Request) -> Response:
        fields = self.body()
        return ok([self._asked(str(run_id), fields["text"]) for run_id in dict.fromkeys(fields["runs"])])

    def _asked(self, run_id: str, text: str) -> dict[str, Any]:
        try:
            self.ask(run_id, text)
        except AppError as error:
            return AskedRunOut.of(None, run_id=run_id, is_sent=False, error=error.message, error_code=error.code)
        return AskedRunOut.of(None, run_id=run_id, is_sent=True, error="", error_code="")
