"""The processes of an installation, each with its command and readiness probe."""

import asyncio
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from komand.supervisor import embedded, probes
from komand.supervisor.options import Options, provider_keys, system_environment
from komand.supervisor.processes import Child, Spec

_WORKER_SETTINGS = {"DJANGO_SETTINGS_MODULE": "komand.settings.worker"}
_FEWER_MESSAGES = ("--without-gossip", "--without-mingle", "--without-heartbeat")
_OF_SOCKETS = (
    *("KOMAND_SOCKETS", "KOMAND_LOG_FORMAT", "KOMAND_LOG_LEVEL", "NOTIFY_SOCKET", "WATCHDOG_USEC"),
    "KOMAND_SUPERVISOR_PID",
    *("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)
_TASKS_PER_CHILD = 500  # then a tool child is replaced, so that what a tool leaks does not stay
_PROBE_SECONDS = 5.0
_PAUSE_SECONDS = 1.0
FORK_SERVER = "forkserver"


async def _is_reported_ready(child: Child) -> bool:
    return child.is_reported_ready


def valkey(options: Options, binary: Path, socket: Path) -> Spec:
    async def is_ready(child: Child) -> bool:
        return await embedded.answers(options.data_dir, socket)

    async def adopt() -> int | None:
        return await embedded.find_running(options.data_dir, socket)

    async def shows_life() -> bool:
        return await embedded.answers(options.data_dir, socket)

    def mend(lines: Iterable[str]) -> str:
        return embedded.set_aside_unreadable(options.data_dir, lines)

    command = embedded.command(binary, options.data_dir, socket)
    environment = system_environment()
    return Spec(
        "valkey", command, environment, is_ready, shows_life, adopt, mend, death_signal=signal.SIGTERM, quiet=True
    )


def web(options: Options, descriptor: int, port: int, environment: dict[str, str]) -> Spec:
    async def is_ready(child: Child) -> bool:
        if not child.is_reported_ready:  # the answer would be that of a process which this one is to replace
            return False
        status = await probes.http_status(options.host, port, "/health/ready", _PROBE_SECONDS)
        if status != 200:
            await asyncio.sleep(_PAUSE_SECONDS)  # it logs what it lacks: once a second can be read
        return status == 200

    arguments = {
        "daphne": ("-m", "komand.server", "--fd", str(descriptor)),
        "uvicorn": (
            "-m",
            "uvicorn",
            "komand.asgi:application",
            "--fd",
            str(descriptor),
            "--timeout-graceful-shutdown",
            "1",
            "--no-access-log",
            "--log-level",
            "warning",
        ),
    }[options.server]
    return Spec("web", (sys.executable, *arguments), environment, is_ready, pass_fds=(descriptor,))


def fork_server(environment: dict[str, str], socket: Path) -> Spec:
    """The process that forks workers. If it cannot do that, it ends with code 0, and workers are executed."""
    command = (sys.executable, "-m", "komand.fork_server", str(socket))
    return Spec(FORK_SERVER, command, {**environment, **_WORKER_SETTINGS}, _is_reported_ready, on_demand=True)


def workers(options: Options, environment: dict[str, str], fork_server: Path | None) -> list[Spec]:
    """fork_server: its socket, if there is one."""
    environment = {**environment, **_WORKER_SETTINGS}
    # The name and the queue come first: `ps` shows only the beginning for a forked worker.
    python = (sys.executable, "-m", "komand.worker")
    specs = []
    for number in range(1, options.run_workers + 1):
        name = f"runs-{number}"
        command = (*python, "-n", f"{name}@%h", "-Q", "runs", "-P", "solo", *_FEWER_MESSAGES)
        specs.append(Spec(name, command, environment, _is_reported_ready, fork_server=fork_server))
    scale = ("--autoscale", f"{options.tool_workers},1", "--max-tasks-per-child", str(_TASKS_PER_CHILD))
    tools = (*python, "-n", "tools@%h", "-Q", "tools", "-P", "prefork", *scale, *_FEWER_MESSAGES)
    specs.append(Spec("tools", tools, environment, _is_reported_ready, fork_server=fork_server))
    return specs


def sockets(environment: dict[str, str]) -> Spec:
    """The process that holds connections to platforms. It costs nothing until an account needs it.

    It talks to foreign servers all day: it gets no address of the database, and no keys.
    """
    kept = {name: environment[name] for name in _OF_SOCKETS if name in environment}
    command = (sys.executable, "-m", "komand.sockets", "--on-demand")
    return Spec("sockets", command, {**system_environment(), **kept}, _is_reported_ready, on_demand=True)


async def run_prepare(environment: dict[str, str], *, makes_link: bool) -> asyncio.subprocess.Process:
    """Run `manage.py prepare`. Its lines of output are JSON, the last one its result; errors go to the error stream.

    makes_link: it makes a login link.
    """
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "django",
        "prepare",
        "--parts",
        *(["--login-link"] if makes_link else []),
        env={**environment, **provider_keys(), "DJANGO_SETTINGS_MODULE": "komand.settings.web"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
