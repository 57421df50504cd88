"""CPU time beside the answers themselves, each against a baseline of the same run.

A model call after a burst against one before it, and an idle pass of the reaper against one that builds its statements
anew. Both in separate programs, on one thread, so that the figures are also valid on a busy machine.
"""

import json

from benchmarks.figures import Figure
from benchmarks.installation import Installation
from benchmarks.scale import Scale

PART = "overhead"
_MOST_AFTER_BURST, _MOST_OF_ANEW = 1.5, 0.5


async def measure(installation: Installation, scale: Scale) -> list[Figure]:
    calls = _run(installation, "model_call_cost", installation.model.url, "60" if scale.starts > 1 else "10")
    passes = _run(installation, "idle_cost", "50" if scale.starts > 1 else "5")
    after, share = calls["after"] / calls["before"], passes["compiled"] / passes["anew"]
    return [
        Figure(PART, "a model call: CPU", calls["before"], "ms"),
        Figure(PART, "after a burst of 200 calls: CPU, ratio", after, "×", _MOST_AFTER_BURST),
        Figure(PART, "an idle pass of the reaper: CPU", passes["compiled"], "ms"),
        Figure(PART, "to a pass that builds its statements anew, ratio", share, "×", _MOST_OF_ANEW),
    ]


def _run(installation: Installation, program: str, *arguments: str) -> dict[str, float]:
    output = installation.gateway.run(["-m", f"benchmarks.{program}", *arguments])
    measured: dict[str, float] = json.loads(output.splitlines()[-1])
    return measured
