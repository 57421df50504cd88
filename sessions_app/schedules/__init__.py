"""Schedules: prompts that are sent to a session at times. Each due time sends its message exactly once."""
