"""Options of `manage.py up`: each flag has an environment variable; the flag takes precedence."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from komand.settings import env

SERVERS = ("daphne", "uvicorn")
_ROOT = Path(__file__).parents[2]


# Of Komand's environment, what its Valkey gets: no settings, no secrets.
_SYSTEM_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")


def provider_keys() -> dict[str, str]:
    """Return the keys of model providers in the environment: every variable whose name ends in `_API_KEY`."""
    return {name: value for name, value in os.environ.items() if name.endswith("_API_KEY")}


def system_environment() -> dict[str, str]:
    """Return the environment of a child process that is not ours."""
    return {name: os.environ[name] for name in _SYSTEM_VARIABLES if name in os.environ}


@dataclass(frozen=True)
class Options:
    """The parsed options.

    run_workers: processes that execute runs.
    tool_workers: tools that may run concurrently.
    """

    host: str
    port: int
    data_dir: Path
    server: str
    run_workers: int
    tool_workers: int

    def url(self, port: int) -> str:
        """Return the URL for a browser, given the port that was bound."""
        public = env.text("KOMAND_PUBLIC_URL").rstrip("/")
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)  # noqa: S104 - compared, not bound
        return public or f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{port}"

    def child_environment(self) -> dict[str, str]:
        """Return the environment of every child process, without the keys of model providers.

        `prepare` alone gets those: it seals them into the database at the first start.
        """
        return {
            **{name: value for name, value in os.environ.items() if name not in provider_keys()},
            "KOMAND_DATA_DIR": str(self.data_dir),
            "KOMAND_HOST": self.host,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH", "")])),
            "PYTHONUNBUFFERED": "1",
        }


def up_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="manage.py up", description="Start Komand and keep it running until Ctrl-C.")
    option = parser.add_argument
    option(
        "--host", default=env.text("KOMAND_HOST", "127.0.0.1"), help="address to listen on (KOMAND_HOST, %(default)s)"
    )
    option(
        "--port",
        type=int,
        default=env.integer("KOMAND_PORT", 8000),
        help="port to listen on; 0: any free one (KOMAND_PORT, %(default)s)",
    )
    option("--data-dir", type=Path, default=env.data_dir(), help="folder of all data (KOMAND_DATA_DIR, ./var)")
    option(
        "--server",
        choices=SERVERS,
        default=env.text("KOMAND_SERVER", "daphne"),
        help="web server (KOMAND_SERVER, %(default)s)",
    )
    option(
        "--run-workers",
        type=int,
        default=env.integer("KOMAND_RUN_WORKERS", 1, least=1),
        help="processes that execute runs, 200 each; one resumes those of another (KOMAND_RUN_WORKERS, %(default)s)",
    )
    option(
        "--tool-workers",
        type=int,
        default=env.integer("KOMAND_TOOL_WORKERS", 4, least=1),
        help="tools that may run concurrently; one process waits idle (KOMAND_TOOL_WORKERS, %(default)s)",
    )
    return parser


def parse_up(argv: Sequence[str]) -> Options:
    """Parse the options of `up`. Exits with a usage message if a flag is invalid, with one line if a variable is."""
    parser = up_parser()
    given = parser.parse_args(argv)
    if not 0 <= given.port <= 65535:
        parser.error(f"--port must be between 0 and 65535, not {given.port}")
    if given.server not in SERVERS:  # argparse does not check a default
        parser.error(f"KOMAND_SERVER must be daphne or uvicorn, not {given.server!r}")
    if not given.host:  # to the system, that is every address
        parser.error("--host must be an address, 127.0.0.1 or 0.0.0.0 for instance")
    if min(given.run_workers, given.tool_workers) < 1:
        parser.error("--run-workers and --tool-workers must be at least 1")
    data_dir = given.data_dir.expanduser().resolve()
    return Options(given.host, given.port, data_dir, given.server, given.run_workers, given.tool_workers)
