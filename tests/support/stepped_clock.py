"""A wall clock that is stepped in running processes: a preloaded library adds an offset that it reads from a file.

The monotonic clock and the kernel's waits stay as they are, as when an operator sets the machine's clock.
"""

import shutil
import subprocess
from pathlib import Path

COMPILER = shutil.which("cc")

_SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *offset;

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("CLOCK_OFFSET_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) offset = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += *offset;
    return failed;
}

int gettimeofday(struct timeval *restrict value, void *restrict zone) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    value->tv_sec = time.tv_sec;
    value->tv_usec = time.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
"""


class SteppedClock:
    """The clock of the processes that are started with `environment`."""

    def __init__(self, folder: Path) -> None:
        """Compile the library into the folder."""
        source, library, self._offset = folder / "clock.c", folder / "clock.so", folder / "offset"
        source.write_text(_SOURCE)
        subprocess.run([str(COMPILER), "-shared", "-fPIC", "-O2", "-o", library, source], check=True)
        self._offset.write_bytes(bytes(8))
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_OFFSET_FILE": str(self._offset)}

    def step(self, seconds: int) -> None:
        """Set the offset to the real clock."""
        with self._offset.open("r+b", buffering=0) as file:
            file.write(seconds.to_bytes(8, "little", signed=True))
