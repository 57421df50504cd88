"""The small shared kernel: what every layer may use. Knows no model, no run, no channel."""
