"""Runs the real `vertesia-client`: `python_client.py '{"url": …, "key": …}'`. Its models check each answer.

Prints what each call has answered, by name.
"""

import json
import sys
import time
import urllib.request
from typing import Any

from vertesia_client import Client  # type: ignore[import-not-found, unused-ignore]
from vertesia_client.openapi.models import (  # type: ignore[import-not-found, unused-ignore]
    CreateRunPayload,
    PostAgentRunUpdatePayload,
    UpdateAgentArtifactContentPayload,
)

IDLE = 10
NAME = "files/note.txt"


def main() -> None:
    given = json.loads(sys.argv[1])
    url = given["url"]
    client = Client(server_url=url, store_url=url, token_server_url=url, api_key=given["key"])
    sys.stdout.write(f"{json.dumps(called(client.agent_runs))}\n")


def plain(answer: Any) -> Any:
    """Return the model that an answer of several possible ones has turned out to be."""
    return getattr(answer, "actual_instance", None) or answer


def wait_idle(runs: Any, run_id: str, *, times: int) -> list[Any]:
    """Return the messages of a run that has been idle so often."""
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        found: list[Any] = runs.list_agent_run_updates(run_id).messages
        if sum(message.t == IDLE for message in found) >= times:
            return found
        time.sleep(0.1)
    raise TimeoutError(f"the run did not become idle: {found}")


def called(runs: Any) -> dict[str, Any]:
    text = json.dumps({"interaction": "default", "interactive": True, "data": {"task": "what is 17*23?"}})
    created = plain(runs.create_agent_run(CreateRunPayload.from_json(text)))
    first = wait_idle(runs, created.id, times=1)
    signalled = runs.signal_agent_run(created.id, "UserInput", {"message": "echo more", "client_message_id": "m-2"})
    second = wait_idle(runs, created.id, times=2)
    runs.post_agent_run_update(created.id, PostAgentRunUpdatePayload.from_dict({"type": 1, "message": "half way"}))
    history = [message.m for message in runs.list_agent_run_updates(created.id).messages]
    files = with_files(runs, created.id)
    details = runs.get_agent_run_details(created.id, include_history=True)
    forked = runs.fork_agent_run(created.id)
    terminated = runs.terminate_agent_run(created.id)
    stream = runs.stream_agent_run(created.id)
    restarted = runs.restart_agent_run(created.id)
    return {
        "created": created.status,
        "texts": [message.m for message in first],
        "signalled": signalled.status,
        "more": [message.m for message in second if message.m and "more" in message.m],
        "posted": "half way" in history,
        **files,
        "got": plain(runs.get_agent_run(created.id)).id == created.id,
        "details": bool(details.history),
        "listed": created.id in {plain(run).id for run in runs.list_agent_runs(limit=5).items},
        "found": bool(runs.search_agent_runs(query="17*23").hits),
        "children": len(runs.list_agent_run_children(created.id).runs),
        "plan": runs.query_agent_run(created.id, "AgentPlan"),
        "forked": forked.forked_from == created.id,
        "terminated": terminated.model_dump(mode="json"),
        "stream": stream.count("data: "),
        "restarted": restarted.id == created.id,
    }


def with_files(runs: Any, run_id: str) -> dict[str, Any]:
    """Return what the calls of files have answered."""
    uploaded = runs.create_agent_run_artifact_upload_url(run_id, NAME, "text/plain")
    put = urllib.request.Request(uploaded.url, b"first", {"Content-Type": "text/plain"}, method="PUT")
    urllib.request.urlopen(put, timeout=30).close()
    content = runs.get_agent_run_artifact_content(run_id, NAME)
    change = UpdateAgentArtifactContentPayload(content="second", generation=content.generation)
    runs.update_agent_run_artifact_content(run_id, NAME, change)
    with urllib.request.urlopen(runs.get_agent_run_artifact(run_id, NAME, url=True).url, timeout=30) as answer:
        changed = answer.read().decode()
    return {"files": runs.list_agent_run_artifacts(run_id), "content": [content.content, changed]}


if __name__ == "__main__":
    main()
