"""Stand-ins for the outside world that tests and benchmarks share."""
