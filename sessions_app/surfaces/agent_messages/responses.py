"""Agent runs as JSON objects of the protocol."""

from typing import Any

from sessions_app.surfaces.agent_messages.agent_runs import ACCOUNT, PROJECT, AgentRun
from sessions_app.surfaces.agent_messages.wire_format import without_none
from sessions_app.surfaces.base.timestamps import iso

_SUMMARY = ("id", "interaction", "interaction_name", "run_kind", "run_type", "interactive", "status")
_TIMES = ("started_at", "completed_at", "started_by", "created_at", "updated_at")
_LABELS = ("activity_state", "title", "topic", "tags", "categories", "collection_id", "tool_names", "source_type")
_SEARCH_HIT = (*_SUMMARY, *_LABELS, *_TIMES)
_INTERNALS = (*_SUMMARY, "workflow_id", "first_workflow_run_id", "artifacts_path", "config", *_TIMES)


def agent_run(run: AgentRun) -> dict[str, Any]:
    session, agent = run.session, run.session.agent
    return without_none(
        {
            **run.request,
            "id": run.id,
            "run_kind": "agent",
            "run_type": "autonomous",
            "account": ACCOUNT,
            "project": PROJECT,
            "interaction": run.interaction,
            "interaction_name": agent.name,
            "interactionRef": {
                "id": agent.agent_id,
                "name": agent.name,
                "endpoint": agent.agent_id,
                "status": "published",
                "version": 1,
                "tags": [],
                "updated_at": iso(agent.updated_at),
            },
            "interactive": run.is_interactive,
            "status": run.status,
            "activity_state": run.activity,
            "workflow_id": run.workflow_id,
            "first_workflow_run_id": run.id,
            "artifacts_path": f"agents/{run.id}",
            "started_by": f"user:{session.owner_id}",
            "started_at": iso(session.created_at),
            "completed_at": run.completed_at,
            "created_at": iso(session.created_at),
            "updated_at": iso(session.last_active_at),
            "title": session.title or None,
            "topic": run.metadata.get("topic"),
            "forked_from": run.metadata.get("forked_from"),
        }
    )


def search_hit(run: AgentRun, score: float) -> dict[str, Any]:
    whole = agent_run(run)
    return {**{name: whole[name] for name in _SEARCH_HIT if name in whole}, "score": score}


def internals(run: AgentRun) -> dict[str, Any]:
    whole = agent_run(run)
    return {name: whole[name] for name in _INTERNALS if name in whole}
