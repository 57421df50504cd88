"""Nudges of the workers that send deliveries and fetch files. A lost one costs a second: the workers also poll."""

from audit_app.kernel.nudges import WorkerNudge

_QUEUE = "runs"

deliveries = WorkerNudge("sessions.send_deliveries", _QUEUE)
files = WorkerNudge("sessions.fetch_files", _QUEUE)
