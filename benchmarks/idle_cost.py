"""Times a pass of the reaper with nothing to do, and one that builds its statements anew. Prints JSON: milliseconds.

A separate program, because it needs Django: `python -m benchmarks.idle_cost PASSES` beside a running gateway, on its
data folder.
"""

import json
import os
import statistics
import sys
import time

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "komand.settings.worker"
django.setup()

# Only after Django is set up: these modules name models.
from agents_app.runs.reaper import Reaper  # noqa: E402
from audit_app.kernel import compile_ahead  # noqa: E402


def _pass_ms(reaper: Reaper) -> float:
    begun = time.thread_time()
    reaper.sweep()
    return (time.thread_time() - begun) * 1000


def measure(passes: int) -> dict[str, float]:
    """Return the medians of passes that take turns."""
    reaper, compiled, anew = Reaper(), [], []
    for _ in range(20):  # each applies one more rule of retention, then none for ten minutes
        reaper.sweep()
    for _ in range(passes):
        compiled.append(_pass_ms(reaper))
        compile_ahead.forget_all()
        anew.append(_pass_ms(Reaper()))
    return {"compiled": statistics.median(compiled), "anew": statistics.median(anew)}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
