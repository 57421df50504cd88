"""The caller's schedules as the cron jobs of this protocol: prompts to agents, never commands of a shell."""

from dataclasses import replace
from typing import Any

from django.utils import timezone
from django.utils.text import slugify
from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import InvalidInput
from audit_app.kernel.ids import new_id
from sessions_app.access import access_agent, access_schedule_by_id, list_schedules
from sessions_app.models import Schedule
from sessions_app.schedules import plans
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.base.openapi.schemas import BOOLEAN, list_of, record, ref
from sessions_app.surfaces.base.views import PlainView
from sessions_app.surfaces.zeroclaw import queries
from sessions_app.surfaces.zeroclaw.requests import JobBody, JobChanges, RunsQuery
from sessions_app.surfaces.zeroclaw.responses import GatewayJobOut, GatewayJobRunOut

_LONGEST_NAME = 60
_JOB = record({"job": ref("GatewayJob")})


class JobList(PlainView):
    @Operation("List your schedules", record({"jobs": list_of(ref("GatewayJob"))}))
    def get(self, request: Request) -> Response:
        return Response({"jobs": [GatewayJobOut.of(row) for row in list_schedules(self.principal.user)]})

    @Operation("Create a schedule", _JOB, body=JobBody, errors=[404, 409])
    def post(self, request: Request) -> Response:
        fields = self.body()
        plan = plans.Plan(fields["prompt"], fields["schedule"], time_zone=fields["tz"] or "UTC")
        name = slugify(fields["name"] or "")[:_LONGEST_NAME] or f"job-{new_id().hex[-12:]}"
        agent = access_agent(self.principal.user, fields["agent"])
        made = plans.create(name, plan, agent=agent, owner=self.principal.user, actor=self.principal.actor)
        return Response({"job": GatewayJobOut.of(made)})


class JobDetail(PlainView):
    @Operation("Change a schedule", _JOB, body=JobChanges)
    def patch(self, request: Request, task_id: str) -> Response:
        row = access_schedule_by_id(self.principal.user, task_id)
        plan = _changed(row, self.body())
        return Response({"job": GatewayJobOut.of(plans.change(row, plan, actor=self.principal.actor))})

    @Operation("Delete a schedule", record({"deleted": BOOLEAN}))
    def delete(self, request: Request, task_id: str) -> Response:
        plans.delete(access_schedule_by_id(self.principal.user, task_id), actor=self.principal.actor)
        return Response({"deleted": True})


class JobRuns(PlainView):
    @Operation("List the newest runs of a schedule", record({"runs": list_of(ref("GatewayJobRun"))}), query=RunsQuery)
    def get(self, request: Request, task_id: str) -> Response:
        row = access_schedule_by_id(self.principal.user, task_id)
        ticks = queries.list_ticks(row, self.query()["limit"])
        runs = [GatewayJobRunOut.of(tick, job_id=row.pk, answer=answer) for tick, answer in ticks]
        return Response({"runs": runs})


def _changed(row: Schedule, fields: dict[str, Any]) -> plans.Plan:
    """Return the plan of a schedule with the changes of a body. Raises InvalidInput for those that it cannot have."""
    if (fields.get("name") or row.task_id) != row.task_id:
        raise InvalidInput("A schedule keeps its name. Delete it, and create another.", code="name_is_fixed")
    if (fields.get("agent") or row.agent.agent_id) != row.agent.agent_id:
        raise InvalidInput("A schedule keeps its agent. Delete it, and create another.", code="agent_is_fixed")
    plan = plans.plan_of(row)
    if fields.get("schedule"):
        plan = replace(plan, cron=fields["schedule"], at=None)
    if fields.get("prompt"):
        plan = replace(plan, prompt=fields["prompt"])
    if fields.get("tz") or fields.get("clear_tz"):
        plan = replace(plan, time_zone=fields.get("tz") or "UTC")
    if fields.get("enabled") is not None:
        plan = replace(plan, is_paused=not fields["enabled"])
    if plan.at and plan.at <= timezone.now():
        raise InvalidInput("Its time is over. Give it a schedule.", code="bad_time")
    return plan
