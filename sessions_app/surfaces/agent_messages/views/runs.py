"""Agent runs: start, list, search, read, restart, fork, end."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import InvalidInput, NotFound
from sessions_app import services
from sessions_app.surfaces.agent_messages import (
    agent_runs,
    commands,
    requests,
    responses,
    run_details,
    run_search,
    signals,
)
from sessions_app.surfaces.agent_messages.agent_runs import AgentRun
from sessions_app.surfaces.agent_messages.errors import NotHere
from sessions_app.surfaces.agent_messages.views.base import AgentsView

_PROCESS = ("process_id", "process_definition")
_STATUS = {
    "status": "text",
    "activity_state": "text",
    "title": "text",
    "topic": "text",
    "lessons_learned": "list",
    "properties": "object",
    "content": "text",
    "disabled_mcp_collections": "list",
    "tool_approval_mode": "text",
    "model": "text",
    "effort": "text",
    "archive_state": "text",
    "archived_at": "text",
    "archive_version": "number",
    "last_archive_error": "text",
    "sequence": "number",
    "process_state": "object",
}
_REMEMBERED = ("properties", "disabled_mcp_collections", "tool_approval_mode")


class RunList(AgentsView):
    def get(self, request: Request) -> Response:
        runs, total, cursor = run_search.list_runs(self.principal.user, self.asked())
        return Response(
            {"items": [responses.agent_run(run) for run in runs], "total_count": total, "next_cursor": cursor}
        )

    def post(self, request: Request) -> Response:
        """Starts a run. An `Idempotency-Key` makes a repeated request the same one."""
        body = requests.as_object(request.data)
        if any(name in body for name in _PROCESS):
            raise NotHere("The process engine")
        run = commands.start(self.principal, body, request.headers.get("Idempotency-Key", ""))
        return Response(responses.agent_run(run))


class RunSearch(AgentsView):
    def get(self, request: Request) -> Response:
        hits, total = run_search.search_runs(self.principal.user, self.asked())
        return Response({"hits": [responses.search_hit(run, score) for run, score in hits], "total": total})


class RunDetail(AgentsView):
    def get(self, request: Request, run_id: str) -> Response:
        return Response(responses.agent_run(self.agent_run(run_id)))

    def delete(self, request: Request, run_id: str) -> Response:
        """Ends the run. One that has ended stays as it is."""
        reason = requests.clean(self.asked().get("reason", ""))[:1000]
        outcome = signals.terminate(self.principal, self.agent_run(run_id), reason)
        return Response({"message": outcome.message, **({"reason": reason} if reason else {})})


class RunRestart(AgentsView):
    def post(self, request: Request, run_id: str) -> Response:
        return Response(responses.agent_run(commands.restart(self.principal, self.agent_run(run_id))))


class RunFork(AgentsView):
    def post(self, request: Request, run_id: str) -> Response:
        return Response(responses.agent_run(commands.fork(self.principal, self.agent_run(run_id))))


class RunStatus(AgentsView):
    """What a client may say about a run: its title, its labels, and that it has ended."""

    def post(self, request: Request, run_id: str) -> Response:
        run, told = self.agent_run(run_id), requests.checked(request.data, _STATUS)
        if title := told.get("title", "").strip():
            services.rename_session(run.session, title[: services.LONGEST_TITLE])
        kept = {name: told[name] for name in _REMEMBERED if name in told}
        if kept or "topic" in told:
            changed = {**run.kept.get("request", {}), **kept}
            agent_runs.change(run.session, request=changed, topic=told.get("topic", run.kept.get("topic")))
        self._set_status(run, told.get("status", ""))
        return Response(responses.agent_run(agent_runs.access_run(self.principal.user, run.id)))

    def _set_status(self, run: AgentRun, status: str) -> None:
        if status == "cancelled":
            signals.terminate(self.principal, run, "")
        elif status in agent_runs.TERMINAL and not run.is_terminal:
            signals.end(run, status)
        elif status == "running":
            commands.restart(self.principal, run)


class RunInternals(AgentsView):
    def get(self, request: Request, run_id: str) -> Response:
        return Response(responses.internals(self.agent_run(run_id)))


class RunDetails(AgentsView):
    """The run as a workflow's record; its history on request."""

    def get(self, request: Request, run_id: str, workflow_id: str = "") -> Response:
        asked = self.asked()
        form = asked.get("history_format", "")
        if not form and asked.get("include_history", "") in ("true", "1"):
            form = "events"
        if form and form not in run_details.FORMATS:
            raise InvalidInput(f"history_format is one of {', '.join(run_details.FORMATS)}.", code="invalid_format")
        return Response(run_details.run_details(self.agent_run(run_id, workflow_id), form))


class RunChildren(AgentsView):
    """Child runs. There are none as long as agents launch none."""

    def get(self, request: Request, run_id: str) -> Response:
        self.agent_run(run_id)
        return Response({"runs": []})


class ChildDetails(AgentsView):
    def get(self, request: Request, run_id: str, child_id: str) -> Response:
        self.agent_run(run_id)
        raise NotFound("There is no such child run.")


class ExecuteAsync(AgentsView):
    """The older way to start: whatever else the body has is read over."""

    def post(self, request: Request) -> Response:
        body = requests.as_object(request.data)
        known = ("interaction", "data", "interactive", "visibility", "config", "tags", "tool_names", "title")
        wanted: dict[str, Any] = {name: body[name] for name in known if name in body}
        run = commands.start(self.principal, wanted, request.headers.get("Idempotency-Key", ""))
        return Response({"run_id": run.id, "workflow_id": f"{agent_runs.WORKFLOW}{run.id}"})
