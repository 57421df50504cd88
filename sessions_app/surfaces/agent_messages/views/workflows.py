"""Routes that only the older URLs of runs have: by workflow and run."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import InvalidInput
from sessions_app.surfaces.agent_messages import commands, requests, run_details, run_search, signals
from sessions_app.surfaces.agent_messages.agent_runs import STATUSES, AgentRun
from sessions_app.surfaces.agent_messages.operations import STARTED, STARTS
from sessions_app.surfaces.agent_messages.views.base import AgentsView
from sessions_app.surfaces.base.bodies import clean
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.base.openapi.schemas import BOOLEAN, OBJECT, TEXT, list_of, record

_STATUSES = {**{status: status for status in STATUSES}, "canceled": "cancelled", "terminated": "cancelled"}

_PAGE = record({"runs": list_of(OBJECT), "has_more": BOOLEAN, "next_page_token": TEXT}, optional=["next_page_token"])


class WorkflowRuns(AgentsView):
    """Pages of runs by filters, newest first."""

    @Operation("List runs (older clients)", _PAGE, body=OBJECT)
    def post(self, request: Request) -> Response:
        body = clean(requests.as_object(request.data))
        runs, cursor = self._page(body)
        if body.get("interactive") in (True, False):
            runs = [run for run in runs if run.is_interactive == body["interactive"]]
        if state := body.get("activity_state"):
            runs = [run for run in runs if (run.activity == "working") == (state == "working")]
        shown: dict[str, Any] = {"runs": [run_details.workflow_run(run) for run in runs], "has_more": bool(cursor)}
        return Response({**shown, "next_page_token": cursor} if cursor else shown)

    def _page(self, body: dict[str, Any]) -> tuple[list[AgentRun], str | None]:
        status, size = _status_of(body), _size_of(body)
        if body.get("document_id") or body.get("rule_id") or body.get("event_name"):
            return [], None  # documents do not start runs on this server
        query = {
            "status": _STATUSES.get(status, ""),
            "limit": int(min(size, run_search.MOST)),
            "interaction": body.get("interaction"),
            "since": body.get("start"),
            "until": body.get("end"),
            "started_by": body.get("initiated_by"),
            "cursor": body.get("next_page_token"),
        }
        given = {name: str(value) for name, value in query.items() if value}
        runs, _, cursor = run_search.list_runs(self.principal.user, given)
        return runs, cursor


class RunAction(AgentsView):
    """The actions `terminate` and `cancel`, which both end the run."""

    @Operation("End a run", record({"message": TEXT}), body=OBJECT)
    def post(self, request: Request, workflow_id: str, run_id: str, action: str) -> Response:
        if action not in ("terminate", "cancel"):
            raise InvalidInput("The action must be terminate or cancel.", code="unknown_action")
        reason = requests.checked(request.data, {"reason": "string"}).get("reason", "")[:1000]
        result = signals.terminate(self.principal, self.agent_run(run_id, workflow_id), reason)
        return Response({"message": result.message})


class RunInteraction(AgentsView):
    @Operation("Read the agent of a run", OBJECT)
    def get(self, request: Request, workflow_id: str, run_id: str) -> Response:
        return Response(run_details.interaction(self.agent_run(run_id, workflow_id)))


class Execute(AgentsView):
    """Starts a run of the agent of the URL, or of the one that `vars.interaction` names."""

    @Operation("Start a run by the name of its agent", list_of(STARTED), body=OBJECT, **STARTS)
    def post(self, request: Request, name: str) -> Response:
        variables = requests.as_object(request.data).get("vars") or {}
        if not isinstance(variables, dict):
            raise InvalidInput("`vars` must be an object.", code="invalid_value", param="vars")
        start = {
            "interaction": variables.get("interaction", name),
            "data": variables.get("data", variables),
            "interactive": bool(variables.get("interactive", False)),
        }
        run = commands.start(self.principal, start, request.headers.get("Idempotency-Key", ""))
        return Response([{"run_id": run.id, "workflow_id": run.workflow_id}])


def _status_of(body: dict[str, Any]) -> str:
    status = str(body.get("status") or "").lower()
    if status and status not in _STATUSES:
        raise InvalidInput(f"`status` must be one of {', '.join(_STATUSES)}.", code="invalid_status")
    return status


def _size_of(body: dict[str, Any]) -> float:
    size = body.get("page_size") or 50
    if isinstance(size, bool) or not isinstance(size, int | float) or size < 1:
        raise InvalidInput("`page_size` must be a number of at least 1.", code="invalid_page_size")
    return size
