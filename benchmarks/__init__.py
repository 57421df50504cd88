"""Benchmarks of a whole installation: `python -m benchmarks`, see docs/performance.md."""
