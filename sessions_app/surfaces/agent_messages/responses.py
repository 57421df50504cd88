"""Agent runs as the protocol shows them: whole, as search hits, and their insides. Knows no requests."""

from typing import Any

from sessions_app.surfaces.agent_messages.agent_runs import ACCOUNT, PROJECT, WORKFLOW, AgentRun
from sessions_app.surfaces.base.timestamps import iso

_KINDS = {"run_kind": "agent", "run_type": "autonomous"}


def agent_run(run: AgentRun) -> dict[str, Any]:
    session, kept = run.session, run.kept
    return _told(
        {
            **kept.get("request", {}),
            "id": run.id,
            **_KINDS,
            "account": ACCOUNT,
            "project": PROJECT,
            "interaction": run.interaction,
            "interaction_name": session.agent.name,
            "interactionRef": _reference(run),
            "interactive": run.is_interactive,
            "status": run.status,
            "activity_state": "working" if run.is_working else "idle",
            "workflow_id": f"{WORKFLOW}{run.id}",
            "first_workflow_run_id": run.id,
            "artifacts_path": f"agents/{run.id}",
            "started_by": _starter(run),
            "started_at": iso(session.created_at),
            "completed_at": run.completed_at,
            "created_at": iso(session.created_at),
            "updated_at": iso(session.last_active_at),
            "title": session.title or None,
            "topic": kept.get("topic"),
            "forked_from": kept.get("forked_from"),
        }
    )


def search_hit(run: AgentRun, score: float) -> dict[str, Any]:
    whole = agent_run(run)
    names = (
        "id",
        "interaction",
        "run_kind",
        "run_type",
        "interaction_name",
        "status",
        "activity_state",
        "started_at",
        "completed_at",
        "started_by",
        "title",
        "topic",
        "tags",
        "categories",
        "interactive",
        "collection_id",
        "tool_names",
        "source_type",
        "created_at",
        "updated_at",
    )
    return {**{name: whole[name] for name in names if name in whole}, "score": score}


def internals(run: AgentRun) -> dict[str, Any]:
    whole = agent_run(run)
    names = (
        "id",
        "workflow_id",
        "first_workflow_run_id",
        "artifacts_path",
        "status",
        "run_kind",
        "run_type",
        "interaction",
        "interaction_name",
        "config",
        "interactive",
        "started_at",
        "completed_at",
        "started_by",
        "created_at",
        "updated_at",
    )
    return {name: whole[name] for name in names if name in whole}


def _reference(run: AgentRun) -> dict[str, Any]:
    agent = run.session.agent
    return {
        "id": agent.agent_id,
        "name": agent.name,
        "endpoint": agent.agent_id,
        "status": "published",
        "version": 1,
        "tags": [],
        "updated_at": iso(agent.updated_at),
    }


def _starter(run: AgentRun) -> str:
    return f"user:{run.session.owner_id}"


def _told(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
