"""Instruction skills of the registry as prompts: the text that an agent would read."""

from collections.abc import Sequence
from typing import Any

from audit_app.kernel.database import in_db
from audit_app.kernel.errors import InvalidInput, NotFound
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.mcp.calls import Call
from sessions_app.surfaces.mcp.registry import Argument, Page, Prompt, PromptKind, prompts, sliced
from tools_app.skills import registry
from tools_app.skills.manifest import Kind, Manifest
from tools_app.skills.registry import SkillView

_PREFIX, _FILE = "skill/", "file"


def _list_page(principal: Principal, cursor: str) -> Page:
    def rows(offset: int, limit: int) -> tuple[SkillView, ...]:
        return registry.list_skills(offset=offset, limit=limit)[0]

    found, following = sliced(rows, cursor)
    return Page([_prompt(row.manifest) for row in found if row.manifest.kind is Kind.INSTRUCTION], following)


def _prompt(manifest: Manifest) -> Prompt:
    files = sorted(manifest.files or {})
    chosen = Argument(_FILE, "A file that the instructions mention, instead of them.", complete=lambda principal: files)
    arguments = (chosen,) if files else ()
    return Prompt(f"{_PREFIX}{manifest.skill_id}", manifest.name, manifest.description, arguments)


def _manifest(name: str) -> Manifest:
    manifest = registry.get_skill(name.removeprefix(_PREFIX)).manifest
    if manifest.kind is not Kind.INSTRUCTION:
        raise NotFound("There is no such prompt.")
    return manifest


def _find(principal: Principal, name: str) -> Prompt:
    return _prompt(_manifest(name))


async def _get(call: Call, name: str, arguments: dict[str, str]) -> Sequence[Any]:
    manifest = await in_db(_manifest, name)
    wanted, files = arguments.get(_FILE), manifest.files or {}
    if wanted is None:
        return [manifest.instructions]
    if wanted not in files:
        raise InvalidInput("These instructions have no such file.", code="unknown_file")
    return [files[wanted]]


prompts.register(PromptKind(_PREFIX, _list_page, _find, _get))
