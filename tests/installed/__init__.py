"""Tests against an installation as a user has it: its processes, its defaults, its log."""
