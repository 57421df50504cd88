"""The parts of the benchmark, one module each, whose `measure` returns figures."""
