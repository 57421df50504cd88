"""CPU time and memory of processes, as the system accounts for them."""

import os
from collections.abc import Mapping

import psutil


def load_average() -> float:
    """Return the load average of the last minute."""
    return os.getloadavg()[0]


def resident_bytes(pid: int) -> int:
    """Return the memory of the process with shared pages counted in full (RSS)."""
    return int(psutil.Process(pid).memory_info().rss)


def proportional_bytes(pids: Mapping[str, int]) -> int:
    """Return the memory of the processes with shared pages counted once (PSS), if the system reports it."""
    return sum(getattr(psutil.Process(pid).memory_full_info(), "pss", 0) for pid in pids.values())


class CpuMeter:
    """CPU seconds of named processes since it was made. A process that has ended counts no further."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}
        self._begun = {name: _cpu_seconds(process) for name, process in self._processes.items()}

    def read(self) -> dict[str, float]:
        return {name: max(0.0, _cpu_seconds(process) - self._begun[name]) for name, process in self._processes.items()}


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
