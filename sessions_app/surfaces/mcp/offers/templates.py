"""Prompt templates as prompts, rendered with the arguments, for users who may see templates."""

from collections.abc import Sequence
from typing import Any

from agents_app.configuration import prompt_templates
from agents_app.configuration.prompt_templates import TemplateView
from agents_app.configuration.required_rights import may_view_templates, require_templates
from audit_app.kernel.database import in_db
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.mcp.calls import Call
from sessions_app.surfaces.mcp.registry import Argument, Page, Prompt, PromptKind, prompts, sliced

_PREFIX = "template/"


def _list_page(principal: Principal, cursor: str) -> Page:
    if not may_view_templates(principal.user):
        return Page(())

    def rows(offset: int, limit: int) -> tuple[TemplateView, ...]:
        return prompt_templates.list_templates()[offset : offset + limit]

    found, following = sliced(rows, cursor)
    return Page([_prompt(row) for row in found if not row.problem], following)


def _prompt(row: TemplateView) -> Prompt:
    arguments = tuple(Argument(name, is_required=default is None) for name, default in row.parameters.items())
    return Prompt(f"{_PREFIX}{row.name}", row.name, row.description, arguments)


def _find(principal: Principal, name: str) -> Prompt:
    require_templates(principal.user)
    return _prompt(prompt_templates.get_view(name.removeprefix(_PREFIX)))


async def _get(call: Call, name: str, arguments: dict[str, str]) -> Sequence[Any]:
    return await in_db(_render, call.principal, name, arguments)


def _render(principal: Principal, name: str, arguments: dict[str, str]) -> list[str]:
    found = _find(principal, name)
    rendered = prompt_templates.render(found.name.removeprefix(_PREFIX), arguments)
    return [part.text for part in rendered.parts]


prompts.register(PromptKind(_PREFIX, _list_page, _find, _get))
