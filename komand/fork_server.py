"""`python -m komand.fork_server PATH`: a process that has loaded what workers need, and forks them.

A forked worker is ready after 0.1 s of CPU time; a worker that is executed takes 2.5 s. Most of the memory is shared.
Only the supervisor of `manage.py up` uses it, on Linux: it connects to the socket at PATH, sends the worker's command
line with the descriptor of its output, receives the worker's process id, and sends a byte, without which it ends.

It has one thread and no open connection, since a fork copies neither threads nor what they hold.
"""

import ctypes
import gc
import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import django
from django.db import connections
from django.db.utils import Error as DatabaseError

from audit_app.kernel import compile_ahead
from komand import schema_check, sd_notify, worker

_BEAT_SECONDS = 1.0
_REQUEST_SECONDS = 5.0
_REQUEST_BYTES = 1 << 16
# What Celery and kombu load only when a worker starts.
_LATE_MODULES = (
    "billiard.synchronize",
    "celery.app.amqp",
    "celery.apps.worker",
    "celery.backends.base",
    "celery.concurrency.solo",
    "celery.worker.autoscale",
    "celery.worker.consumer",
    "celery.events.receiver",
    "celery.worker.control",
    "celery.worker.strategy",
    "kombu.transport.redis",
    "psutil",
)
_NAME_BYTES = 15  # of a thread, by which `top` lists processes


def main(path: Path) -> None:
    """Serve until SIGTERM or the end of the supervisor. In each forked worker, run it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    _load()
    command = _serve(path)
    sys.argv = [worker.__file__, *command[3:]]
    worker.main(command[3:])


def _load() -> None:
    """Load everything, and what can be had from the database in advance: workers do that too, if it is away now."""
    django.setup()
    for name in _LATE_MODULES:
        import_module(name)
    load_providers = import_module("agents_app.runs.worker").load_providers
    try:
        schema_check.require()
        load_providers()
        compile_ahead.compile_all()
    except DatabaseError:
        pass
    finally:
        connections.close_all()
    if len(os.listdir("/proc/self/task")) > 1:
        sys.stderr.write(
            "a package has started a thread when it was loaded: workers cannot be forked, they are executed\n"
        )
        sys.exit(0)
    gc.collect()
    gc.freeze()  # a worker's garbage collector does not write to the pages that are shared


def _serve(path: Path) -> list[str]:
    """Fork a worker at each request. Returns in the workers alone: the command line."""
    with socket.socket(socket.AF_UNIX) as listener:
        draft = path.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        listener.bind(str(draft))
        listener.listen()
        draft.rename(path)  # in a rolling restart, from that of the predecessor
        listener.settimeout(_BEAT_SECONDS)
        sd_notify.notify_ready()
        while os.getppid() == sd_notify.STARTED_BY:
            sd_notify.notify_alive()
            with suppress(OSError, ValueError):  # a time-out, or a supervisor that has gone
                link, _ = listener.accept()
                with link:
                    command = _answer(link)
                if command:
                    return command
    sys.exit(1)


def _answer(link: socket.socket) -> list[str]:
    """Fork the worker of a request. Returns its command line in the worker, and nothing in this process."""
    link.settimeout(_REQUEST_SECONDS)
    request, [descriptor], _, _ = socket.recv_fds(link, _REQUEST_BYTES, 1)
    command: list[str] = json.loads(request)
    with os.fdopen(descriptor, "wb", 0) as output:
        helper = os.fork()
        if helper:
            os.waitpid(helper, 0)
            return []
        try:
            helper = os.getpid()
            if os.fork():
                os._exit(0)  # so that the supervisor becomes the parent of the worker
            _become_worker(command, link, output.fileno(), helper)
        except BaseException:
            os._exit(1)
    return command


def _become_worker(command: list[str], link: socket.socket, output: int, helper: int) -> None:
    """helper: the parent, which ends now."""
    os.setsid()
    while os.getppid() == helper:
        time.sleep(0.001)
    if os.getppid() != sd_notify.STARTED_BY:
        raise ChildProcessError("the supervisor has ended")
    sd_notify.die_with_parent()
    link.settimeout(None)
    link.sendall(str(os.getpid()).encode())
    if not link.recv(1):
        raise ChildProcessError("the supervisor has given up this worker")
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _show_command(command)


def _show_command(command: list[str]) -> None:
    """Have `ps` show the command line of the worker, as far as there is room, and `top` its name."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end of proc(5)
    text = "\0".join(command).encode()[: end - start - 1]
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, text, len(text))
    name = command[command.index("-n") + 1].partition("@")[0]
    Path("/proc/self/comm").write_text(name[:_NAME_BYTES])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
