"""The recall of memories and the search in messages, in a database with many of both.

On SQLite in CPU time of one thread, which is also valid on a busy machine.
"""

import json
import sys
from pathlib import Path

from benchmarks.databases import Databases
from benchmarks.figures import Figure
from benchmarks.processes import Gateway
from benchmarks.scale import Scale

PART = "retrieval"
_FILL_SECONDS = 3600
_MOST_MS = 50.0
_MEMORIES_SHARE = 10  # turns for each memory


def measure(folder: Path, model_url: str, scale: Scale, databases: Databases) -> list[Figure]:
    _, turns, rounds = scale.growth
    remembered = turns // _MEMORIES_SHARE
    data_dir = folder / "retrieval"
    gateway = Gateway(data_dir, model_url, **databases.make(data_dir).environment)
    gateway.prepare()
    sys.stderr.write(f"filling a database with {turns:,} messages and {remembered:,} memories …\n")
    given = [str(number) for number in (turns, remembered, 4 * rounds)]
    output = gateway.run(["-m", "benchmarks.retrieval_cost", *given], seconds=_FILL_SECONDS)
    found: dict[str, dict[str, float]] = json.loads(output.splitlines()[-1])
    titles = {
        "search_one": f"search for a word in {turns:,} messages",
        "search_two": f"search for two words in {turns:,} messages",
        "recall": f"recall in {remembered:,} memories",
    }
    figures = []
    for name, title in titles.items():
        figures.append(Figure(PART, f"{title}, median", found[name]["median"], "ms", _MOST_MS))
        figures.append(Figure(PART, f"{title}, 95 %", found[name]["p95"], "ms"))
    return figures
