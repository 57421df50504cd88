"""Commands of operators on a whole installation: what they say is so."""

import json
import subprocess

from tests.installed.installation import Installation
from tests.installed.platforms.base import SECONDS
from tests.support.live_server import wait_for

_KINDS = {"web", "runs", "tools"}


def test_status_names_the_processes_that_run(installation: Installation) -> None:
    def well() -> "subprocess.CompletedProcess[str] | None":
        found = installation.manage("status", "--json")
        return found if found.returncode == 0 else None

    # A process that has just begun to serve is not in the table yet.
    report = json.loads(wait_for(well, SECONDS, "a status without a problem").stdout)
    kinds = {part["name"].partition("@")[0].partition("-")[0] for part in report["processes"]}
    assert report["running"] and kinds >= _KINDS, report
    assert "is not running" not in installation.manage("status").stdout
