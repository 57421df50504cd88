"""Workstreams of a run."""

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import selectors as agents
from sessions_app.access import access_run
from sessions_app.surfaces.rest.objects.runs import WorkstreamOut
from sessions_app.surfaces.rest.views.base import RestView


class RunWorkstreams(RestView):
    """The child runs of a run, at any depth, oldest first; `parentRunId` is the tree."""

    def get(self, request: Request, run_id: str) -> Response:
        run = access_run(self.principal.user, run_id)
        return self.page_of(agents.list_subtree(run.id), WorkstreamOut.of)
