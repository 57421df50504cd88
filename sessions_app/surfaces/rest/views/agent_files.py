"""Agents as YAML: the export of one, and the import of a file, which may be a dry run."""

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from agents_app.configuration import agent_files
from agents_app.rights import CHANGE_AGENTS, CREATE_AGENTS
from audit_app.fresh_login import GRANT_AUTONOMY
from sessions_app.access import access_agent
from sessions_app.surfaces.base.openapi.operations import Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import BINARY, BOOLEAN, record
from sessions_app.surfaces.rest.objects.agents import ImportedAgentOut, ImportQuery
from sessions_app.surfaces.rest.operations import envelope
from sessions_app.surfaces.rest.views.agent_versions import VersionView
from sessions_app.surfaces.rest.views.base import RestView, ok


class AgentExport(VersionView):
    @Operation(
        "Export an agent as YAML", answers={200: Answer("The file.", media_type="application/yaml")}, errors=[403]
    )
    def get(self, request: Request, agent_id: str) -> HttpResponse:
        """The agent's configuration as a YAML file, for those who see it."""
        agent = self.visible(agent_id)
        headers = {
            "Content-Disposition": f'attachment; filename="{agent.agent_id}.yaml"',
            "X-Content-Type-Options": "nosniff",
        }
        return HttpResponse(agent_files.export([agent]), content_type=agent_files.MEDIA_TYPE, headers=headers)


class AgentImport(RestView):
    @Operation(
        "Import agents from YAML",
        body=BINARY,
        media_type="application/yaml",
        query=ImportQuery,
        answers={200: Answer("The effect.", envelope([ImportedAgentOut], record({"dryRun": BOOLEAN})))},
        errors=[403, 404, 409],
        description="A file with faults changes nothing; `meta.problems` of the error has the line of each.",
    )
    def post(self, request: Request) -> Response:
        """Create and change the agents of a YAML file, all or none. New ones belong to the caller."""
        self.require(CREATE_AGENTS)
        user, is_dry_run = self.principal.user, self.query()["dry_run"]
        data, _ = self.file_body()
        planned = agent_files.plan(agent_files.read_upload(data))
        for one in planned:
            if one.agent is not None:
                access_agent(user, one.agent_id, needs=CHANGE_AGENTS)
        needs_fresh_login = agent_files.check_rights(user, planned)
        if not is_dry_run:
            if needs_fresh_login:
                self.principal.require_fresh_login(GRANT_AUTONOMY)
            agent_files.apply(planned, owner_id=user.pk)
        return ok([ImportedAgentOut.of(one) for one in planned], {"dryRun": is_dry_run})
