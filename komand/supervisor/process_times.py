"""The time in which a process wanted to run and got no processor, as Linux counts it."""

from pathlib import Path


def waited_seconds(pid: int) -> float:
    """Return how long the main thread of a process has waited for a processor since it began; 0 if nothing counts it.

    The main thread runs the event loop; a thread that sleeps, hangs or is stopped does not wait.
    """
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):  # the process has ended, or another system than Linux
        return 0.0
