"""Which processes are alive: each executing process holds a lock that dies with it and counts up each second.

No time stamps are compared, so no two clocks need to agree. Knows nothing of what the processes do.
"""

from audit_app.liveness.failure_detector import Observer
from audit_app.liveness.heartbeat import current, is_stuck, keep_pulse, list_processes, start, stop
from audit_app.liveness.process_marks import ProcessView

__all__ = ["Observer", "ProcessView", "current", "is_stuck", "keep_pulse", "list_processes", "start", "stop"]
