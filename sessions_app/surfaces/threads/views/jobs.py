"""Runs as the protocol's workflows and traces: status, cancel, duration and usage."""

from django.db.models import Count
from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import selectors as agents
from agents_app import services as runs
from agents_app.models import IS_ROOT, Run, Step
from agents_app.types import RunView
from audit_app.kernel.errors import NotFound
from sessions_app.access import access_session
from sessions_app.models import Session
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.base.openapi.schemas import BOOLEAN, OBJECT, TEXT, list_of, record
from sessions_app.surfaces.threads import responses
from sessions_app.surfaces.threads.foreign_ids import thread_id_of
from sessions_app.surfaces.threads.resume import latest_run
from sessions_app.surfaces.threads.views.base import ThreadsView
from tools_app import selectors as tools

_MOST_TRACES = 100


class Job(ThreadsView):
    """`agent-<thread id>`: the thread's active run, else its latest."""

    @Operation("Read the state of a thread's run", responses.ThreadJobOut)
    def get(self, request: Request, workflow_id: str) -> Response:
        session, run = self._run(workflow_id)
        return Response(responses.job(session.id, run))

    @Operation("Stop a thread's run", record({"workflow_id": TEXT, "message": TEXT}))
    def delete(self, request: Request, workflow_id: str) -> Response:
        """Request the run's end, keeping its text. Idempotent."""
        session, run = self._run(workflow_id)
        was_open = runs.cancel_run(run.id, reason="Cancelled by the client.")
        message = "The run is being cancelled." if was_open else "The run had already ended."
        return Response({"workflow_id": responses.job(session.id, run)["workflow_id"], "message": message})

    def _run(self, workflow_id: str) -> tuple[Session, RunView]:
        try:
            session = access_session(self.principal.user, thread_id_of(workflow_id))
        except NotFound:
            raise NotFound("There is no such workflow.") from None
        run = latest_run(session.id)
        if run is None:
            raise NotFound("This thread has no runs yet.")
        return session, run


class ThreadDiagnostics(ThreadsView):
    """Traces of the newest hundred runs, oldest first."""

    @Operation("Read the timing of each turn", record({"final": BOOLEAN, "traces": list_of(OBJECT)}))
    def post(self, request: Request, thread_id: str) -> Response:
        session = self.thread(thread_id)
        rows = Run.objects.select_related("agent").filter(IS_ROOT, conversation_id=session.id).order_by("-ordinal")
        views = [agents.run_view(row) for row in reversed(rows[:_MOST_TRACES])]
        ids = [run.id for run in views]
        counted = Step.objects.filter(run_id__in=ids).values_list("run_id").annotate(Count("id")).order_by()
        models = dict(Step.objects.filter(run_id__in=ids).order_by("index").values_list("run_id", "model"))
        generations, traces = dict(counted), []
        for run in views:
            counts = len(tools.list_executions(run.id)), generations.get(run.id, 0)
            traces.append(responses.trace(run, self.principal.user, *counts, models.get(run.id, "")))
        return Response({"final": all(run.status.is_terminal for run in views), "traces": traces})
