"""An installed skill, as data, and what every kind of it does around a call. Reads no rows."""

from dataclasses import dataclass
from typing import Any

from tools_app import schema
from tools_app.skills.manifest import Manifest
from tools_app.skills.permissions import Permission, missing
from tools_app.types import Risk, ToolError, ToolSpec

PREFIX = "skill__"
_RANK = [Risk.LOW, Risk.MEDIUM, Risk.HIGH]


@dataclass(frozen=True)
class Installed:
    """owner_id: the user whose credentials it uses, None for the installation's; is_verified: see `registry`."""

    manifest: Manifest
    granted: tuple[Permission, ...]
    owner_id: int | None
    is_verified: bool


def spec_of(installed: Installed) -> ToolSpec:
    """What the model and the policy are told of it. Nobody has vouched for an unverified skill's own word that its risk
    is low."""
    manifest = installed.manifest
    risk = manifest.risk if installed.is_verified else at_least(manifest.risk, Risk.MEDIUM)
    return ToolSpec(
        name=PREFIX + manifest.skill_id,
        description=manifest.description or manifest.name,
        parameters=manifest.input_schema,
        effect=manifest.effect,
        risk=risk,
        timeout_seconds=manifest.timeout_seconds,
    )


def at_least(risk: Risk, least: Risk) -> Risk:
    return max(risk, least, key=_RANK.index)


def check_permissions(installed: Installed) -> None:
    """Raises ToolError that names the permissions which were not granted for this agent, or were taken back."""
    lacking = missing(installed.manifest.required, installed.granted)
    if lacking:
        names = ", ".join(map(str, lacking))
        raise ToolError(f"The skill {installed.manifest.skill_id} was not granted what it needs: {names}.")


def checked_output(installed: Installed, value: Any) -> Any:
    """The value, when it is what the manifest promises. Raises ToolError."""
    promised = installed.manifest.output_schema
    problems = schema.find_problems(value, promised) if promised is not None else ""
    if problems:
        raise ToolError(f"The skill {installed.manifest.skill_id} returned what its manifest rules out: {problems}.")
    return value
