"""The life of a tool call: planned, asked about, run, cancelled, swept up; its rows, rings and facts."""
