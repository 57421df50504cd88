"""Detection of dead processes: each executing process holds a lock that the system releases with it, and raises a
counter each second.

No timestamps are compared, so that clocks need not agree.
"""

from audit_app.kernel.liveness.failure_detector import Observer
from audit_app.kernel.liveness.heartbeat import (
    current,
    find_strangers,
    is_stuck,
    keep_pulse,
    list_processes,
    start,
    stop,
)
from audit_app.kernel.liveness.process_marks import ProcessView

__all__ = [
    "Observer",
    "ProcessView",
    "current",
    "find_strangers",
    "is_stuck",
    "keep_pulse",
    "list_processes",
    "start",
    "stop",
]
