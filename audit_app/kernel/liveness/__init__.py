"""Detection of dead processes: each executing process holds a lock that the system releases with it, and raises a
counter each second.

No timestamps are compared, so that clocks need not agree.
"""

from audit_app.kernel.liveness.failure_detector import Observer, has_blind_process
from audit_app.kernel.liveness.heartbeat import (
    current,
    find_strangers,
    is_stuck,
    keep_pulse,
    list_processes,
    set_blind,
    set_sweeping,
    start,
    stop,
)
from audit_app.kernel.liveness.process_marks import ProcessView

__all__ = [
    "Observer",
    "ProcessView",
    "current",
    "find_strangers",
    "has_blind_process",
    "is_stuck",
    "keep_pulse",
    "list_processes",
    "set_blind",
    "set_sweeping",
    "start",
    "stop",
]
