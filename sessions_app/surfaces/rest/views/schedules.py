"""The caller's schedules: create, list, change, delete, run now."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.access import access_agent, access_runnable_network, access_schedule, access_session, list_schedules
from sessions_app.identity import rate_limits
from sessions_app.models import Schedule
from sessions_app.schedules import plans, ticks
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects import schedules as objects
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.base import RestView, ok

_SHOWN_TICKS = 50


class _ScheduleView(RestView):
    def plan(self, values: dict[str, Any]) -> plans.Plan:
        """Return the plan of a body. Raises as `access_runnable_network` if the caller may not run its network."""
        plan = plans.Plan(**{name: values[name] for name in plans.Plan.__annotations__ if name in values})
        self.check_network(plan.network)
        return plan

    def check_network(self, name: str) -> None:
        if name:
            access_runnable_network(self.principal.user, name)


class ScheduleList(_ScheduleView):
    @paged("List your schedules", objects.ScheduleOut)
    def get(self, request: Request) -> Response:
        return self.page_of(list_schedules(self.principal.user), objects.ScheduleOut.of)

    @Operation("Create a schedule", objects.ScheduleInFullOut, body=objects.NewScheduleBody, errors=[404, 409])
    def post(self, request: Request) -> Response:
        body = self.body()
        user = self.principal.user
        session = access_session(user, body["session_id"]) if body["session_id"] else None
        schedule = plans.create(
            body["task_id"],
            self.plan(body),
            agent=access_agent(user, body["agent_id"]),
            owner=user,
            session=session,
            actor=self.principal.actor,
        )
        return ok(_in_full(schedule))


class ScheduleDetail(_ScheduleView):
    @Operation("Read a schedule", objects.ScheduleInFullOut)
    def get(self, request: Request, agent_id: str, task_id: str) -> Response:
        return ok(_in_full(access_schedule(self.principal.user, agent_id, task_id)))

    @Operation("Change a schedule", objects.ScheduleInFullOut, body=objects.ScheduleBody, partial=True)
    def put(self, request: Request, agent_id: str, task_id: str) -> Response:
        """Change what the body has. A time that is over is kept only if it is not changed."""
        schedule = access_schedule(self.principal.user, agent_id, task_id)
        body = self.body()
        plan = self.plan({**_current(schedule, body), **body})
        return ok(_in_full(plans.change(schedule, plan, actor=self.principal.actor)))

    @Operation("Delete a schedule")
    def delete(self, request: Request, agent_id: str, task_id: str) -> Response:
        schedule = access_schedule(self.principal.user, agent_id, task_id)
        plans.delete(schedule, actor=self.principal.actor)
        return ok(None)


class ScheduleRun(_ScheduleView):
    @Operation("Send the message of a schedule now", objects.StartedRunOut, errors=[409])
    def post(self, request: Request, agent_id: str, task_id: str) -> Response:
        """Send the message now. The schedule's times stay as they are."""
        schedule = access_schedule(self.principal.user, agent_id, task_id)
        rate_limits.take(rate_limits.chat_limit(), self.principal.actor)
        self.check_network(schedule.network)  # the caller's key may extend to fewer agents than its user
        return ok({"runId": str(ticks.run_now(schedule, actor=self.principal.actor))})


def _current(schedule: Schedule, body: dict[str, Any]) -> dict[str, Any]:
    """Return the present plan. A single time and a cron expression replace each other."""
    current = dict(vars(plans.plan_of(schedule)))
    if body.get("cron"):
        current["at"] = None
    if body.get("at"):
        current["cron"] = ""
    return current


def _in_full(schedule: Schedule) -> dict[str, Any]:
    return objects.ScheduleInFullOut.of(schedule, history=list(schedule.ticks.all()[:_SHOWN_TICKS]))
