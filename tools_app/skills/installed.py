"""An installed skill as plain data, and the checks that all kinds of skills share. Reads no rows."""

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
    """An installed skill.

    owner_id: the user whose credentials it uses; None for the installation's.
    is_verified: see `registry.is_verified`.
    """

    manifest: Manifest
    granted: tuple[Permission, ...]
    owner_id: int | None
    is_verified: bool


def spec_of(installed: Installed) -> ToolSpec:
    """Return the skill's tool spec. The risk of an unverified skill is at least medium."""
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
    """Raise ToolError, naming the required permissions that are not granted for this agent."""
    lacking = missing(installed.manifest.required, installed.granted)
    if lacking:
        names = ", ".join(map(str, lacking))
        raise ToolError(f"The skill {installed.manifest.skill_id} lacks required permissions: {names}.")


def checked_output(installed: Installed, value: Any) -> Any:
    """Return the value if it matches the manifest's output schema. Raises ToolError."""
    promised = installed.manifest.output_schema
    problems = schema.find_problems(value, promised) if promised is not None else ""
    if problems:
        raise ToolError(f"The skill {installed.manifest.skill_id} returned an invalid result: {problems}.")
    return value
