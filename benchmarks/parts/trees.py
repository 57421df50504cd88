"""The cost of child runs: CPU time of each in process, and a tree and a network in a whole installation.

The CPU times are measured in a separate program, on a database of its own, so that they are valid on a busy machine.
"""

import asyncio
import json
import time
from pathlib import Path

from benchmarks.databases import Database, Databases
from benchmarks.figures import Figure
from benchmarks.installation import NotFinished
from benchmarks.processes import Gateway
from benchmarks.scale import Scale
from benchmarks.wire import Refused, post_json

PART = "trees"
_MOST_CPU_MS, _MOST_START_SECONDS = 30.0, 1.0
_SECONDS = 120
_POLL_SECONDS = 0.05


def measure(folder: Path, model_url: str, scale: Scale, databases: Databases) -> list[Figure]:
    data_dir = folder / "trees"
    database = databases.make(data_dir)
    gateway = Gateway(data_dir, model_url, **database.environment)
    gateway.prepare()
    width, rounds = ("50", "5") if scale.starts > 1 else ("5", "1")
    output = gateway.run(["-m", "benchmarks.tree_cost", width, rounds], seconds=600)
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    figures = [
        Figure(PART, f"a workstream of {width}: CPU", found["child_cpu"], "ms", _MOST_CPU_MS),
        Figure(PART, "to a message of its own, ratio", found["child_cpu"] / found["message_cpu"], "×"),
        Figure(PART, "statements of a workstream", found["child_statements"]),
        Figure(PART, "write transactions of a workstream", found["child_transactions"]),
        Figure(PART, f"a task of a network of {width}: CPU", found["task_cpu"], "ms", _MOST_CPU_MS),
        Figure(PART, "to a message of its own, ratio", found["task_cpu"] / found["message_cpu"], "×"),
        Figure(PART, "statements of a task", found["task_statements"]),
    ]
    gateway.run(["-m", "benchmarks.tree_cost", "prepare"])
    new_key = ["create_api_key", "--user", "bench", "--name", "benchmark", "--scope", "all", "--scope", "rights"]
    api_key = gateway.run(["manage.py", *new_key]).strip()
    with gateway:
        started, network = asyncio.run(_in_installation(gateway, database, api_key, int(width)))
    return [
        *figures,
        Figure(PART, f"last of {width} workstreams starts after the message", started, "s", _MOST_START_SECONDS),
        Figure(PART, f"a network of {width} tasks, from the request to its end", network, "s"),
    ]


async def _in_installation(gateway: Gateway, database: Database, api_key: str, width: int) -> tuple[float, float]:
    """Return the seconds from a message to the start of its last workstream, and those of a network."""
    headers = {"authorization": f"Bearer {api_key}"}
    launches = [["launch_workstream", {"id": f"w{at}", "instruction": "[[tokens=5 rate=0]]"}] for at in range(width)]
    message = {"senderId": "bench", "text": f"[[tools={json.dumps(launches)} rate=0]]"}
    tasks = "\n".join(f"- {{name: t{at}, prompt: '[[tokens=5 rate=0]]'}}" for at in range(width))
    network = {"name": "net", "definition": f"name: net\ntasks:\n{tasks}\n"}
    await _post(gateway, "/api/webchat/message?wait=0", headers, {"senderId": "bench", "text": "[[tokens=5 rate=0]]"})
    await _all_ended(database)  # the first message compiles statements
    await _post(gateway, "/api/webchat/message?wait=0", headers, message)
    await _all_ended(database)
    times = ", ".join(database.unix(column) for column in ("c.started_at", "r.created_at"))
    rows = database.read(f"SELECT {times} FROM komand_run c JOIN komand_run r ON r.id = c.root_id")
    if len(rows) != width:
        raise NotFinished(f"{len(rows)} of {width} workstreams were launched")
    await _post(gateway, "/api/networks", headers, network)
    begun = time.time()
    await _post(gateway, "/api/networks/net/run", headers, {"message": "Go."})
    return max(float(child) - float(root) for child, root in rows), await _all_ended(database) - begun


async def _post(gateway: Gateway, path: str, headers: dict[str, str], body: object) -> None:
    answer = await post_json(gateway.address, path, headers, body)
    if answer.status >= 400:
        raise Refused(f"POST {path}: {answer.status} {answer.body[:300]!r}")


async def _all_ended(database: Database) -> float:
    """Wait until no run is open. Return the time at which the last one ended. Raises NotFinished."""
    deadline = time.monotonic() + _SECONDS
    while database.number("SELECT count(*) FROM komand_run WHERE ended_at IS NULL"):
        if time.monotonic() > deadline:
            raise NotFinished(f"runs have not ended after {_SECONDS} s")
        await asyncio.sleep(_POLL_SECONDS)
    if failed := database.number("SELECT count(*) FROM komand_run WHERE status <> 'completed'"):
        raise NotFinished(f"{failed:.0f} runs failed")
    return database.number(f"SELECT max({database.unix('ended_at')}) FROM komand_run")
