"""Results of the checks of an installation, and the severities of those about security."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

CRITICAL, HIGH, MEDIUM, LOW = LEVELS = ("critical", "high", "medium", "low")
UNEXAMINED = "unexamined"
# By the id of a problem, which stays the same in all releases. docs/security.md has a table of them.
SEVERITIES: Mapping[str, str] = {
    "komand.E001": CRITICAL,
    "login.guessable": CRITICAL,
    "agents.egress": HIGH,
    "channels.exposed": HIGH,
    "channels.forgeable": HIGH,
    "files.modes": HIGH,
    "files.secrets": HIGH,
    "komand.E002": HIGH,
    "komand.E003": HIGH,
    "komand.E004": HIGH,
    "komand.W001": HIGH,
    "login.second_factor": HIGH,
    "tools.unisolated": HIGH,
    UNEXAMINED: HIGH,
    "approvals.owners": MEDIUM,
    "cors.any": MEDIUM,
    "costs.uncapped": MEDIUM,
    "runs.unlimited": MEDIUM,
    "channels.open": LOW,
    "channels.unverified": LOW,
    "python.html": LOW,
}


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    mend: the remedy; empty if the check passed.
    id: of a problem of security, a key of SEVERITIES; else empty.
    """

    name: str
    ok: bool
    detail: str
    mend: str = ""
    id: str = ""

    @property
    def severity(self) -> str:
        return SEVERITIES.get(self.id, "")

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "severity": self.severity}
