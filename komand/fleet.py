"""The processes of an installation that no supervisor of ours runs, but units of systemd or containers.

`manage.py status` imports it by path: the supervisor and its commands run without Django.
"""

import socket
import struct
import time
from dataclasses import replace
from uuid import UUID

import django

from audit_app.kernel import liveness
from komand.settings import env
from komand.supervisor.status import OTHER_FOLDER, Part, life_of, memory_of

_NEEDED = ("web", "runs", "tools")
_CONNECT_SECONDS = 1.0
_CREDENTIALS = struct.Struct("3i")  # process, user and group


def collect() -> list[Part]:
    """Return the living processes of all hosts, and a part that is down for each kind that is missing; [] if none runs.

    The process `sockets` writes no mark: the one of this host is found by its socket.
    """
    django.setup()
    alive = [process for process in liveness.list_processes() if process.alive]
    strangers = {process.id for process in liveness.find_strangers()}
    parts = [_part(process.name, process.host, process.pid, _age(process.id)) for process in alive]
    parts = [
        replace(part, health=OTHER_FOLDER) if process.id in strangers and part.health == "ok" else part
        for process, part in zip(alive, parts, strict=True)
    ]
    if pid := _find_sockets():
        parts.append(_part("sockets", socket.gethostname(), pid, 0))
    names = {process.name for process in alive}
    missing = [Part(name, None, "down", 0, 0, 0) for name in _NEEDED if name not in names]
    return [*parts, *missing] if parts else []


def _part(name: str, host: str, pid: int, seconds: int) -> Part:
    is_here = host == socket.gethostname()
    health, memory = (life_of(pid), memory_of(pid)) if is_here else ("ok", 0)
    return Part(f"{name}@{host}", pid, health, memory, 0, seconds)


def _age(life_id: UUID) -> int:
    """Return the seconds since a process began to live, which its id encodes."""
    return max(int(time.time() - (life_id.int >> 80) / 1000), 0)


def _find_sockets() -> int | None:
    """Return the process that serves the socket of this host, None if none does."""
    with socket.socket(socket.AF_UNIX) as found:
        found.settimeout(_CONNECT_SECONDS)
        try:
            found.connect(str(env.sockets_path()))
            given = found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except (OSError, AttributeError):  # SO_PEERCRED is Linux's
            return None
    return int(_CREDENTIALS.unpack(given)[0])
