"""Instruction skills: texts for the model to read when a task requires them."""

from dataclasses import replace
from typing import Any

from tools_app.skills.installed import Installed, check_permissions, spec_of
from tools_app.types import Effect, Reads, Tool, ToolContext, ToolError


class InstructionSkill(Tool):
    """Returns the instructions, or one of their files."""

    def __init__(self, installed: Installed) -> None:
        self._installed = installed
        manifest = installed.manifest
        spec = spec_of(installed)
        summary = " ".join(spec.description.split())
        self.spec = replace(
            spec,
            description=f"Read the instructions {manifest.name!r}: {summary}",
            parameters=_parameters(sorted(manifest.files or {})),
            effect=Effect.READ,
            reads=Reads.NOTHING,
            sends=(),
            risk=manifest.risk,  # not raised for unverified skills: reading has no effect
            prompt_line=f"- {spec.name}: {summary}",
        )

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"name", "instructions", "files": names of their files}, or {"file", "text"} of one file."""
        check_permissions(self._installed)
        manifest = self._installed.manifest
        files = manifest.files or {}
        wanted = arguments.get("file")
        if wanted is None:
            return {"name": manifest.name, "instructions": manifest.instructions, "files": sorted(files)}
        if wanted not in files:
            raise ToolError(f"There is no file {wanted!r} in these instructions.")
        return {"file": wanted, "text": files[wanted]}


def _parameters(files: list[str]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    if files:
        properties["file"] = {
            "type": "string",
            "enum": files,
            "description": "A file that the instructions mention, instead of them.",
        }
    return {"type": "object", "properties": properties, "additionalProperties": False}
