"""Fuzz test: `python -m tests.fuzz [seed]`.

Starts Komand with sample data and runs schemathesis on every operation that does not stream, and on those whose streams
end with the answer of an agent, with valid and invalid requests. Fails on 5xx, and on a status or a shape that is not
in the document.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2

from tests.support.live_server import LiveKomand, start_komand
from tests.support.openapi_check import Document

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
SECONDS = 120  # time that the coverage phase leaves is used for random requests
EXAMPLES = 5
STREAMS = "/x-komand-streams == true"
# Run last: they stop all agents, and end the login of the requests.
LAST = ("/api/control/stop", "/api/auth/logout")
# Answered by agents, at once here; other streams end with their clients.
ANSWERED = (
    "/a2a/{agent_id}",
    "/a2a/{agent_id}/message:send",
    "/a2a/{agent_id}/message:stream",
    "/ag-ui/agents/{agent_id}",
    "/zeroclaw/webhook",
    "/zeroclaw/api/cron/{task_id}/run",
)
ANSWERED_SECONDS = 20
_MESSAGE = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "what is 2+2?"}]}
WAITING: dict[str, Any] = {
    "/api/webchat/message": {"senderId": "admin", "text": "what is 2+2?"},
    "/v1/chat/completions": {"model": "default", "messages": [{"role": "user", "content": "what is 2+2?"}]},
    "/v1/responses": {"model": "default", "input": "what is 2+2?"},
    "/v1/agent/ask": {"prompt": "what is 2+2?"},
    "/a2a/default/message:send": {"message": _MESSAGE},
    "/a2a/default": {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": _MESSAGE}},
    "/zeroclaw/webhook": {"message": "what is 2+2?"},
}
_DEFAULT_SEED = 20260301


def main() -> int:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else _DEFAULT_SEED
    print(f"seed {seed}; {random.randrange(10**8)} is another", flush=True)  # noqa: T201
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="komand-fuzz-") as folder:
        komand = start_komand(Path(folder))
        try:
            failed = fuzz(komand, seed)
            if failed:
                print("".join(line for line in komand.log.open() if " ERROR " in line))  # noqa: T201
            return failed or check_admission(komand.log.read_text())
        finally:
            komand.stop()


def fuzz(komand: LiveKomand, seed: int) -> int:
    client = httpx2.Client(base_url=komand.url, timeout=40)
    login = client.post("/api/auth/login", json={"email": "admin@localhost", "password": komand.password}).json()
    client.headers.update({"Authorization": f"Bearer {login['data']['token']}", "A2A-Version": "1.0"})
    check_waiting(client)
    environment = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "tests.fuzz.hooks",
        "KOMAND_FUZZ_IDS": json.dumps(create_objects(client)),
    }
    authorized = ["--header", f"Authorization: {client.headers['Authorization']}"]
    most = ["--exclude-by", STREAMS, *_each("--exclude-path", LAST), "--max-time", str(SECONDS)]
    answered = [*_each("--include-path", ANSWERED), "--max-time", str(ANSWERED_SECONDS)]
    last = [["--include-path", path] for path in LAST]
    return max(
        run_schemathesis(komand.url, seed, [*authorized, *options], environment) for options in (most, answered, *last)
    )


def _each(option: str, values: tuple[str, ...]) -> list[str]:
    return [part for value in values for part in (option, value)]


def check_waiting(client: httpx2.Client) -> None:
    """Call each operation that waits for an answer once, and check the answer."""
    document = Document(client.get("/api/schema").json())
    for path, body in WAITING.items():
        answer = client.post(path, json=body)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        document.check("POST", path, answer.status_code, answer.json())


def run_schemathesis(url: str, seed: int, options: list[str], environment: dict[str, str]) -> int:
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{url}/api/schema",
        *options,
        "--checks",
        CHECKS,
        "--phases",
        "coverage,fuzzing",
        "--seed",
        str(seed),
        "--continue-on-failure",
        "--no-color",
        "--max-examples",
        str(EXAMPLES),
        "--generation-database",
        "none",
        "--suppress-health-check",
        "all",
        "--warnings",
        "off",
        "--request-timeout",
        "20",
    ]
    return subprocess.run(command, env=environment, cwd=Path(__file__).parents[2]).returncode


def check_admission(log: str) -> int:
    """Return 1 if most requests were refused before they reached a view."""
    statuses = Counter(re.findall(r"komand\.access: .* (\d{3}) \d+ ms", log))
    print("answers by status:", dict(sorted(statuses.items())))  # noqa: T201
    is_locked_out = statuses["401"] > statuses.total() / 3 or statuses["200"] < statuses.total() / 20
    return 1 if is_locked_out else 0


def create_objects(client: httpx2.Client) -> dict[str, str]:
    """Create an object of each kind. Return their ids by the names of path parameters."""
    sent = client.post("/api/webchat/message", json={"senderId": "admin", "text": "what is 17*23?"}).json()
    session_id, run_id = sent["data"]["sessionId"], sent["meta"]["runId"]
    session = client.get(f"/api/sessions/{session_id}").json()["data"]
    started = client.post("/api/v1/agents", json={"interaction": "default", "data": {"task": "hello"}}).json()
    run = client.get(f"/api/runs/{run_id}").json()["data"]
    stored = client.post(f"/api/sessions/{session_id}/artifacts?path=files/a.txt", content=b"hello").json()["data"]
    client.post("/api/credentials", json={"name": "weather", "value": "a-secret-value", "hosts": ["a.example"]})
    client.post("/api/mcp/servers", json={"name": "nothing", "command": "/bin/false", "isEnabled": False})
    client.post("/api/agents", json={"agentId": "helper", "name": "Helper"})
    skill = {"skillId": "greeting", "name": "G", "version": "1.0.0", "publisherId": "us", "instruction": {"body": "Hi"}}
    client.post("/api/skills", json=skill)
    client.post("/api/agents/helper/skills/greeting", json={})
    text = {"type": "message", "role": "user", "content": "hello"}
    conversation = client.post("/v1/conversations", json={"items": [text]}).json()["id"]
    item = client.get(f"/v1/conversations/{conversation}/items").json()["data"][0]["id"]
    upload = {"file": ("a.txt", b"hello", "text/plain")}
    file = client.post("/v1/files", files=upload, data={"purpose": "user_data"}).json()["id"]
    asked = client.post("/a2a/helper/message:send", json={"message": _MESSAGE}).json()["task"]
    client.post("/zeroclaw/webhook", json={"message": "hello"}, headers={"X-Session-Id": "trip"})
    job = {"name": "daily", "agent": "helper", "schedule": "0 8 * * *", "prompt": "hello"}
    planned = client.post("/zeroclaw/api/cron", json=job).json()
    return {
        "session_id": session_id,
        "run_id": run_id,
        "execution_id": run["toolCallIds"][0],
        "name": "nothing",
        "artifact_id": stored["artifactId"],
        "agent_id": "helper",
        "skill_id": "greeting",
        "model": "helper",
        "response_id": f"resp_{run_id.replace('-', '')}",
        "thread_id": session["id"],
        "message_id": run_id,
        "workflow_id": f"agent-{session['id']}",
        "agent_run_id": started["id"],
        "path": "files/a.txt",
        "agent_workflow_id": started["workflow_id"],
        "signal": "UserInput",
        "query": "AgentPlan",
        "action": "cancel",
        "conversation_id": conversation,
        "item_id": item,
        "file_id": file,
        "a2a_task_id": asked["id"],
        "zeroclaw_task_id": planned["job"]["id"],
        "zeroclaw_session_id": "trip",
    }


if __name__ == "__main__":
    sys.exit(main())
