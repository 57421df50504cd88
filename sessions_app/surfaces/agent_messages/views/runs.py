"""Agent runs: start, list, search, read, change, restart, fork, end."""

from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import InvalidInput
from sessions_app import services
from sessions_app.surfaces.agent_messages import (
    agent_runs,
    child_runs,
    commands,
    requests,
    responses,
    run_details,
    signals,
)
from sessions_app.surfaces.agent_messages.agent_runs import AgentRun
from sessions_app.surfaces.agent_messages.errors import NotOffered
from sessions_app.surfaces.agent_messages.operations import BOOLEANS, RUN, START, STARTED, STARTS, limit, query_value
from sessions_app.surfaces.agent_messages.run_search import list_runs, search_runs
from sessions_app.surfaces.agent_messages.views.base import AgentsView
from sessions_app.surfaces.base.bodies import clean
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.base.openapi.schemas import COUNT, OBJECT, TEXT, list_of, nullable, record

_PROCESS = ("process_id", "process_definition")
_LABELS = ("status", "activity_state", "title", "topic", "content", "tool_approval_mode", "model", "effort")
_STATUS = {
    **dict.fromkeys((*_LABELS, "archive_state", "archived_at", "last_archive_error"), "string"),
    **dict.fromkeys(("lessons_learned", "disabled_mcp_collections"), "array"),
    **dict.fromkeys(("properties", "process_state"), "object"),
    **dict.fromkeys(("archive_version", "sequence"), "number"),
}
_STORED = ("properties", "disabled_mcp_collections", "tool_approval_mode")

_SHOWN = [
    limit("The maximal number of runs.", maximum=200),
    query_value("status", "One or several statuses, separated by commas."),
    query_value("interaction", "Only runs of this agent."),
]
_FILTERS = [
    *_SHOWN,
    query_value("cursor", "`next_cursor` of the previous page."),
    query_value("sort", "The field to sort by.", "started_at", "updated_at"),
    query_value("order", "The sort order.", "asc", "desc"),
]


class RunList(AgentsView):
    @Operation(
        "List runs",
        record({"items": list_of(RUN), "total_count": COUNT, "next_cursor": nullable(TEXT)}),
        parameters=_FILTERS,
    )
    def get(self, request: Request) -> Response:
        runs, total, cursor = list_runs(self.principal.user, self.query_values())
        items = [responses.agent_run(run) for run in runs]
        return Response({"items": items, "total_count": total, "next_cursor": cursor})

    @Operation("Start a run", RUN, body=START, **STARTS)
    def post(self, request: Request) -> Response:
        """Start a run. Idempotent for an `Idempotency-Key`."""
        body = requests.as_object(request.data)
        if any(name in body for name in _PROCESS):
            raise NotOffered("The process engine")
        run = commands.start(self.principal, body, request.headers.get("Idempotency-Key", ""))
        return Response(responses.agent_run(run))


class RunSearch(AgentsView):
    @Operation(
        "Search runs",
        record({"hits": list_of(OBJECT), "total": COUNT}),
        parameters=[*_SHOWN, query_value("query", "Text in the title or in a message.")],
    )
    def get(self, request: Request) -> Response:
        hits, total = search_runs(self.principal.user, self.query_values())
        return Response({"hits": [responses.search_hit(run, score) for run, score in hits], "total": total})


class RunDetail(AgentsView):
    @Operation("Read a run", RUN)
    def get(self, request: Request, run_id: str) -> Response:
        return Response(responses.agent_run(self.agent_run(run_id)))

    @Operation(
        "End a run",
        record({"message": TEXT, "reason": TEXT}, optional=["reason"]),
        parameters=[query_value("reason", "The reason; shown to users.")],
    )
    def delete(self, request: Request, run_id: str) -> Response:
        """End the run. Idempotent."""
        reason = clean(self.query_values().get("reason", ""))[:1000]
        result = signals.terminate(self.principal, self.agent_run(run_id), reason)
        return Response({"message": result.message, **({"reason": reason} if reason else {})})


class RunRestart(AgentsView):
    @Operation("Restart an ended run", RUN, errors=[409])
    def post(self, request: Request, run_id: str) -> Response:
        return Response(responses.agent_run(commands.restart(self.principal, self.agent_run(run_id))))


class RunFork(AgentsView):
    @Operation("Fork a run", RUN, errors=[409])
    def post(self, request: Request, run_id: str) -> Response:
        return Response(responses.agent_run(commands.fork(self.principal, self.agent_run(run_id))))


class RunStatusUpdate(AgentsView):
    """Changes of a run's title, labels and status."""

    @Operation("Set the status of a run", RUN, body=OBJECT, errors=[409])
    def post(self, request: Request, run_id: str) -> Response:
        run, changes = self.agent_run(run_id), requests.checked(request.data, _STATUS)
        if title := changes.get("title", "").strip():
            services.rename_session(run.session, title[: services.LONGEST_TITLE])
        stored = {name: changes[name] for name in _STORED if name in changes}
        if stored or "topic" in changes:
            topic = changes.get("topic", run.metadata.get("topic"))
            agent_runs.update_metadata(run.session, request={**run.request, **stored}, topic=topic)
        self._set_status(run, changes.get("status", ""))
        return Response(responses.agent_run(agent_runs.access_run(self.principal.user, run.id)))

    def _set_status(self, run: AgentRun, status: str) -> None:
        if status == "cancelled":
            signals.terminate(self.principal, run, "")
        elif status in agent_runs.TERMINAL and not run.is_terminal:
            signals.end(run, status)
        elif status == "running":
            commands.restart(self.principal, run)


class RunInternals(AgentsView):
    @Operation("Read the internal state of a run", OBJECT)
    def get(self, request: Request, run_id: str) -> Response:
        return Response(responses.internals(self.agent_run(run_id)))


class RunDetails(AgentsView):
    """The run as a workflow's record, with its history on request."""

    @Operation(
        "Read the details of a run",
        OBJECT,
        parameters=[query_value("include_history", "Include the events.", *BOOLEANS)],
    )
    def get(self, request: Request, run_id: str, workflow_id: str = "") -> Response:
        query = self.query_values()
        history = query.get("history_format", "")
        if not history and query.get("include_history", "") in ("true", "1"):
            history = "events"
        if history and history not in run_details.FORMATS:
            known = ", ".join(run_details.FORMATS)
            raise InvalidInput(f"`history_format` must be one of {known}.", code="invalid_format")
        return Response(run_details.run_details(self.agent_run(run_id, workflow_id), history))


class RunChildren(AgentsView):
    """Child runs at any depth, oldest first."""

    @Operation("List child runs", record({"runs": list_of(OBJECT)}))
    def get(self, request: Request, run_id: str) -> Response:
        return Response({"runs": child_runs.list_children(self.agent_run(run_id))})


class ChildDetails(AgentsView):
    @Operation("Read a child run", OBJECT)
    def get(self, request: Request, run_id: str, child_id: str) -> Response:
        return Response(child_runs.child_details(self.agent_run(run_id), child_id))


class ExecuteAsync(AgentsView):
    """The older route to start a run. Ignores unknown keys."""

    @Operation("Start a run (older clients)", STARTED, body=START, **STARTS)
    def post(self, request: Request) -> Response:
        body = requests.as_object(request.data)
        known = ("interaction", "data", "interactive", "visibility", "config", "tags", "tool_names", "title")
        start = {name: body[name] for name in known if name in body}
        run = commands.start(self.principal, start, request.headers.get("Idempotency-Key", ""))
        return Response({"run_id": run.id, "workflow_id": run.workflow_id})


class AppInstallations(AgentsView):
    """The apps of the account: this server installs none."""

    @Operation("List installed apps", list_of(OBJECT), parameters=[query_value("kind", "Only apps of this kind.")])
    def get(self, request: Request) -> Response:
        return Response([])
