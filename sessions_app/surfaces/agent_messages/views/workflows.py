"""What only the older addresses of runs have: by workflow and run."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import InvalidInput
from sessions_app.surfaces.agent_messages import agent_runs, commands, requests, run_details, run_search, signals
from sessions_app.surfaces.agent_messages.views.base import AgentsView

_STATUSES = {"running": "running", "completed": "completed", "failed": "failed", "canceled": "cancelled"}
_STATUSES |= {"cancelled": "cancelled", "terminated": "cancelled", "created": "created"}
_MOST = 200
_REASON = {"reason": "text"}


class WorkflowRuns(AgentsView):
    """Runs by filters, the newest first, in pages."""

    def post(self, request: Request) -> Response:
        body = requests.clean(requests.as_object(request.data))
        runs, cursor = self._found(body)
        if body.get("interactive") in (True, False):
            runs = [run for run in runs if run.is_interactive == body["interactive"]]
        if state := body.get("activity_state"):
            runs = [run for run in runs if run.is_working == (state == "working")]
        shown: dict[str, Any] = {"runs": [run_details.workflow_run(run) for run in runs], "has_more": bool(cursor)}
        return Response({**shown, "next_page_token": cursor} if cursor else shown)

    def _found(self, body: dict[str, Any]) -> tuple[list[agent_runs.AgentRun], str | None]:
        status, size = body.get("status") or "", body.get("page_size") or 50
        if status and str(status).lower() not in _STATUSES:
            raise InvalidInput(f"status is one of {', '.join(_STATUSES)}.", code="invalid_status")
        if isinstance(size, bool) or not isinstance(size, int | float) or size < 1:
            raise InvalidInput("page_size is a number of at least 1.", code="invalid_page_size")
        if body.get("document_id") or body.get("rule_id") or body.get("event_name"):
            return [], None  # nothing here is started by documents
        query = {
            "status": _STATUSES.get(str(status).lower(), ""),
            "limit": str(int(min(size, _MOST))),
            "interaction": body.get("interaction"),
            "since": body.get("start"),
            "until": body.get("end"),
            "started_by": body.get("initiated_by"),
            "cursor": body.get("next_page_token"),
        }
        asked = {name: str(said) for name, said in query.items() if said}
        runs, _, cursor = run_search.list_runs(self.principal.user, asked)
        return runs, cursor


class RunAction(AgentsView):
    """`terminate` and `cancel`: both end the run."""

    def post(self, request: Request, workflow_id: str, run_id: str, action: str) -> Response:
        if action not in ("terminate", "cancel"):
            raise InvalidInput("An action is terminate or cancel.", code="unknown_action")
        reason = requests.checked(request.data, _REASON).get("reason", "")[:1000]
        outcome = signals.terminate(self.principal, self.agent_run(run_id, workflow_id), reason)
        return Response({"message": outcome.message})


class RunInteraction(AgentsView):
    def get(self, request: Request, workflow_id: str, run_id: str) -> Response:
        return Response(run_details.interaction(self.agent_run(run_id, workflow_id)))


class Execute(AgentsView):
    """Starts a run of the agent of that name, or of the one that `vars.interaction` names."""

    def post(self, request: Request, name: str) -> Response:
        variables = requests.as_object(request.data).get("vars") or {}
        if not isinstance(variables, dict):
            raise InvalidInput("vars is an object.", code="invalid_value", param="vars")
        data = variables.get("data", variables)
        wanted = {
            "interaction": variables.get("interaction", name),
            "data": data,
            "interactive": bool(variables.get("interactive", False)),
        }
        run = commands.start(self.principal, wanted, request.headers.get("Idempotency-Key", ""))
        return Response([{"run_id": run.id, "workflow_id": f"{agent_runs.WORKFLOW}{run.id}"}])
