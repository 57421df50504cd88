"""The cost of a message and of the page in a session of 5,000 turns, against one of 50 in the same run.

In a separate program, on one thread, so that the ratios are also valid on a busy machine.
"""

import json

from benchmarks.figures import Figure
from benchmarks.installation import Installation
from benchmarks.scale import Scale

PART = "long-sessions"
_MOST = 1.2


async def measure(installation: Installation, scale: Scale) -> list[Figure]:
    messages = "60" if scale.starts > 1 else "10"
    output = installation.gateway.run(["-m", "benchmarks.long_session_cost", messages])
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return [
        Figure(PART, "a message in a session of 5,000 turns: CPU", found["message_long"], "ms"),
        Figure(PART, "to one of 50 turns, ratio", found["message_long"] / found["message_short"], "×", _MOST),
        Figure(PART, "the newest turns for the page: CPU", found["page_long"], "ms"),
        Figure(PART, "to a session of 50 turns, ratio", found["page_long"] / found["page_short"], "×", _MOST),
    ]
