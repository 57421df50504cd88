"""Measures a whole installation from outside: `python -m benchmarks`, see docs/performance.md."""
