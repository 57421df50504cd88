"""The messages of a run, or of one of its child runs, as a JSON file that clients download as `conversation.json`."""

import json
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from audit_app.kernel.errors import NotFound
from sessions_app.access import access_run_and_session
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.agent_messages import agent_runs, child_runs, queries
from sessions_app.surfaces.agent_messages.agent_runs import AgentRun
from sessions_app.surfaces.agent_messages.wire_format import MAIN, Compact
from sessions_app.surfaces.base.timestamps import iso

NAME = "conversation.json"


def find_run(user: User, run_id: str) -> tuple[AgentRun, str]:
    """Return the run of this id, or of a child run of this id, and the workstream of the child. Raises NotFound."""
    try:
        return agent_runs.access_run(user, run_id), ""
    except NotFound:
        child, session = access_run_and_session(user, run_id.removeprefix(agent_runs.WORKFLOW))
        run = agent_runs.load(session)
        return run, child_runs.name_of(run, child.id)


def path_of(workstream: str) -> str:
    return f"workstreams/{workstream}/{NAME}" if workstream else NAME


def is_transcript(path: str) -> bool:
    """Return whether the path is that of a transcript. No stored file can have such a path."""
    return path == NAME or (path.startswith("workstreams/") and path.endswith(f"/{NAME}"))


def read(user: User, run: AgentRun, path: str) -> bytes:
    """Return the file, as the user's own login would read it."""
    workstream = path.removeprefix("workstreams/").removesuffix(NAME).removesuffix("/")
    found = [
        _long(run, message)
        for message in queries.read_history(Principal(user, "jwt"), run)
        if not workstream or message.get("w", MAIN) == workstream
    ]
    about = {"title": run.session.title, "agent_run_id": run.id, "message_count": len(found)}
    whole = {"metadata": {**about, "exported_at": iso(timezone.now())}, "messages": found}
    return json.dumps(whole, ensure_ascii=False, indent=1).encode()


def _long(run: AgentRun, message: Compact) -> dict[str, Any]:
    """Return a message with the names that it has in programs."""
    return {
        "timestamp": message["ts"],
        "workflow_run_id": run.id,
        "type": message["t"],
        "message": message.get("m", ""),
        "workstream_id": message.get("w", MAIN),
        **({"details": message["d"]} if message.get("d") else {}),
    }
