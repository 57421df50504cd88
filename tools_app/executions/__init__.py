"""Tool executions: planned, approved, run, cancelled and swept, with their rows, nudges and events."""
