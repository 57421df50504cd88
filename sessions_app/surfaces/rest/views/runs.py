"""Runs: read, cancel, retry, and the workstreams of a run."""

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import selectors as agents
from sessions_app import services
from sessions_app.access import access_run, access_run_and_session
from sessions_app.identity import rate_limits
from sessions_app.rights import VIEW_SESSIONS
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects.messages import AcceptedOut
from sessions_app.surfaces.rest.objects.runs import RunOut, WorkstreamOut, run_json, workstreams_json
from sessions_app.surfaces.rest.operations import CANCELLED, paged
from sessions_app.surfaces.rest.views.base import RestView, ok

_STOPPED = "Stopped by its user."


class RunDetail(RestView):
    @Operation("Read a run", RunOut)
    def get(self, request: Request, run_id: str) -> Response:
        view, session = access_run_and_session(self.principal.user, run_id, needs=VIEW_SESSIONS)
        return ok(run_json(agents.get_transcript(view.id), session, agents.get_cost(view.id)))


class RunCancel(RestView):
    """Cancel one run, also a workstream: its parent goes on. Returns whether the run was open, as 1 or 0."""

    @Operation("Stop a run or a workstream", CANCELLED)
    def post(self, request: Request, run_id: str) -> Response:
        view, session = access_run_and_session(self.principal.user, run_id)
        return ok({"cancelled": services.cancel_session_runs(session, reason=_STOPPED, run_id=view.id)})


class RunRetry(RestView):
    """Retry the message of a failed or cancelled run with a new run."""

    @Operation("Retry a run", AcceptedOut, status=202, errors=[409])
    def post(self, request: Request, run_id: str) -> Response:
        view, session = access_run_and_session(self.principal.user, run_id)
        rate_limits.take(rate_limits.chat_limit(), self.principal.actor)
        again = services.retry_run(session, view.id, actor=self.principal.actor, owner=self.principal.user)
        return ok(AcceptedOut.of(None, session_id=session.key, run_id=again), status=202)


class RunWorkstreams(RestView):
    """The child runs of a run, at any depth, oldest first; `parentRunId` is the tree."""

    @paged("List the workstreams of a run", WorkstreamOut)
    def get(self, request: Request, run_id: str) -> Response:
        run = access_run(self.principal.user, run_id, needs=VIEW_SESSIONS)
        return self.page_of(workstreams_json(agents.list_subtree(run.id)), dict)
