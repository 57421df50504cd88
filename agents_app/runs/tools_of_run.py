"""The tools of a run, for its model calls and for `find_tools`. Reads only."""

from collections.abc import Sequence
from uuid import UUID

from django.conf import settings

from agents_app.configuration.agent_versions import use_version
from agents_app.models import Run
from agents_app.prompt import offered_tools
from agents_app.prompt.offered_tools import OfferedTools
from agents_app.runs.run_policy import policy_of, session_policy_of
from tools_app import profiles
from tools_app import services as tools
from tools_app.types import ToolSpec


def tools_of_run(run: Run) -> OfferedTools:
    """Return the tools that the run may use by its present policy. run: with its agent."""
    profile, permitted = run.agent.tool_profile, tools.specs_for(policy_of(run), session_policy_of(run))
    offered = [spec for spec in permitted if profiles.is_offered(profile, spec.name)]
    return offered_tools.choose(offered, profile=profile, budget_tokens=settings.KOMAND_TOOL_TOKENS)


def list_hidden(run_id: UUID) -> Sequence[ToolSpec]:
    """Return the tools that the run may use and has to find; none if it was deleted."""
    run = Run.objects.select_related("agent").filter(pk=run_id).first()
    return tools_of_run(use_version(run)).hidden if run else ()
