"""The operations of schedules, networks, shared memory and prompt templates for the OpenAPI document."""

from sessions_app.surfaces.base.openapi.operations import IDEMPOTENCY_KEY, Operation
from sessions_app.surfaces.base.openapi.schemas import NULL
from sessions_app.surfaces.rest.objects import networks, schedules, templates
from sessions_app.surfaces.rest.objects import shared_memory as shared
from sessions_app.surfaces.rest.objects.messages import AcceptedOut
from sessions_app.surfaces.rest.openapi_answers import page_of

_SCHEDULES = {
    "GET /api/cron": page_of("List your schedules", schedules.ScheduleOut),
    "POST /api/cron": Operation(
        "Create a schedule", schedules.ScheduleInFullOut, body=schedules.NewScheduleBody, errors=[404, 409]
    ),
    "GET /api/cron/{agent_id}/{task_id}": Operation("Read a schedule", schedules.ScheduleInFullOut),
    "PUT /api/cron/{agent_id}/{task_id}": Operation(
        "Change a schedule", schedules.ScheduleInFullOut, body=schedules.ScheduleBody, partial=True
    ),
    "DELETE /api/cron/{agent_id}/{task_id}": Operation("Delete a schedule", NULL),
    "POST /api/cron/{agent_id}/{task_id}/run": Operation(
        "Send the message of a schedule now", schedules.StartedRunOut, errors=[409]
    ),
}

_NETWORKS = {
    "GET /api/networks": page_of("List the networks that you may see", networks.NetworkOut),
    "POST /api/networks": Operation(
        "Create a network", networks.NetworkInFullOut, body=networks.NetworkBody, errors=[404, 409]
    ),
    "POST /api/networks/check": Operation(
        "Check the definition of a network", networks.DefinitionCheckOut, body=networks.DefinitionBody
    ),
    "GET /api/networks/{name}": Operation("Read a network", networks.NetworkInFullOut),
    "PUT /api/networks/{name}": Operation(
        "Change a network", networks.NetworkInFullOut, body=networks.NetworkBody, partial=True
    ),
    "DELETE /api/networks/{name}": Operation("Delete a network", NULL),
    "POST /api/networks/{name}/run": Operation(
        "Run a network",
        AcceptedOut,
        body=networks.RunNetworkBody,
        parameters=[IDEMPOTENCY_KEY],
        status=202,
        errors=[409],
    ),
    "GET /api/networks/runs/{run_id}": Operation("Read a run of a network", networks.NetworkRunOut),
}

_SHARED_MEMORY = {
    "GET /api/sessions/{session_id}/shared-memory": page_of(
        "List the shared memory of a session", shared.SharedValueOut, shared.PatternQuery
    ),
    "GET /api/sessions/{session_id}/shared-memory/{key}": Operation("Read a shared value", shared.SharedValueOut),
    "PUT /api/sessions/{session_id}/shared-memory/{key}": Operation(
        "Store a shared value", shared.SharedValueOut, body=shared.SharedValueBody, errors=[409]
    ),
    "DELETE /api/sessions/{session_id}/shared-memory/{key}": Operation("Delete a shared value", NULL),
    "GET /api/runs/{run_id}/shared-memory": page_of(
        "List the shared memory of a run", shared.SharedValueOut, shared.SpacePatternQuery
    ),
    "GET /api/runs/{run_id}/shared-memory/{key}": Operation(
        "Read a value of a run", shared.SharedValueOut, query=shared.SpaceQuery
    ),
    "PUT /api/runs/{run_id}/shared-memory/{key}": Operation(
        "Store a value for a run",
        shared.SharedValueOut,
        body=shared.SharedValueBody,
        query=shared.SpaceQuery,
        errors=[409],
    ),
    "DELETE /api/runs/{run_id}/shared-memory/{key}": Operation(
        "Delete a value of a run", NULL, query=shared.SpaceQuery
    ),
}

_TEMPLATES = {
    "GET /api/templates": page_of("List prompt templates", templates.PromptTemplateOut, errors=[403]),
    "POST /api/templates": Operation(
        "Create a prompt template",
        templates.PromptTemplateInFullOut,
        body=templates.NewPromptTemplateBody,
        errors=[409],
    ),
    "GET /api/templates/{name}": Operation("Read a prompt template", templates.PromptTemplateInFullOut, errors=[403]),
    "PUT /api/templates/{name}": Operation(
        "Change a prompt template", templates.PromptTemplateInFullOut, body=templates.PromptTemplateBody
    ),
    "DELETE /api/templates/{name}": Operation("Delete a prompt template", NULL, errors=[409]),
    "POST /api/templates/{name}/preview": Operation(
        "Render a prompt template", templates.RenderedTemplateOut, body=templates.PreviewBody
    ),
    "GET /api/templates/{name}/versions": page_of(
        "List the versions of a prompt template", templates.PromptTemplateVersionOut, errors=[403]
    ),
    "GET /api/templates/{name}/versions/{number}": Operation(
        "Read a version of a prompt template", templates.PromptTemplateVersionInFullOut, errors=[403]
    ),
    "POST /api/templates/{name}/versions/{number}/rollback": Operation(
        "Roll a prompt template back", templates.PromptTemplateInFullOut
    ),
}

OPERATIONS = {**_SCHEDULES, **_NETWORKS, **_SHARED_MEMORY, **_TEMPLATES}
