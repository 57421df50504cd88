"""The virtualenvs of the peers, in a cache folder. Their versions are pinned here and nowhere else."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PACKAGES: dict[str, tuple[str, ...]] = {
    "chainlit": ("chainlit==2.12.0",),
    "dbos": ("dbos==3.4.0", "httpx==0.28.1", "psycopg[binary]==3.3.9", "websockets==17.4"),
    "langgraph": ("langgraph-cli[inmem]==0.4.40", "langgraph-api==0.16.7"),
}


class NotInstalled(Exception):
    """A peer could not be installed; the message has the reason."""


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "komand-peers"


def programs_of(peer: str, cache: Path) -> Path:
    """Return the folder of a peer's programs. Installs it at the first call for these versions. Raises NotInstalled."""
    packages = PACKAGES[peer]
    digest = hashlib.sha256("\n".join((sys.version, *packages)).encode()).hexdigest()[:12]
    folder = cache / f"{peer}-{digest}"
    marker = folder / "installed"
    if not marker.exists():
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages])
        marker.touch()
    return folder / "bin"


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()[-1:]
        raise NotInstalled(" ".join(lines)[:300] or f"exit code {done.returncode}")
