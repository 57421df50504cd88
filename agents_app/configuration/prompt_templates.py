"""Prompt templates: in the database, with versions, and in the folder KOMAND_PROMPTS_DIR.

A template of the database is used instead of the file of the same name. `name@number` names one version of it.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agents_app.models import Agent, PromptTemplate, Run
from agents_app.models.templates import PromptTemplateVersion
from agents_app.prompt import template_sandbox
from agents_app.prompt.template_format import NAME, REQUIRED, Template, UnusableTemplate, parse
from agents_app.prompt.template_sandbox import Rendered as Rendered
from audit_app import services as audit
from audit_app.kernel import context
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound

_SUFFIX = ".md"


@dataclass(frozen=True)
class TemplateView:
    """A template for people.

    version, updated_at: None of a file.
    problem: why it cannot be used, else empty.
    parameters: defaults of its own parameters, None for those that are required; none if it cannot be used.
    """

    name: str
    description: str
    version: int | None
    updated_at: datetime | None
    problem: str
    text: str
    parameters: Mapping[str, Any]


def get_template(reference: str) -> Template:
    """Return the template of a name or of `name@number`. Raises InvalidInput (unknown_template, invalid_template)."""
    name, _, number = reference.partition("@")
    if not NAME.fullmatch(name) or (number and not number.isdecimal()) or reference.endswith("@"):
        raise _unknown(reference)
    if number:
        versions = PromptTemplateVersion.objects.filter(template__name=name, number=int(number[:9]))
        text = versions.values_list("text", flat=True).first()
    else:
        text = PromptTemplate.objects.filter(name=name).values_list("text", flat=True).first()
        text = _file_text(name) if text is None else text
    if text is None:
        raise _unknown(reference)
    return parse(name, text)


def list_templates() -> tuple[TemplateView, ...]:
    """Return all templates by name, those of the folder too. A file that a stored template replaces is left out."""
    stored = {row.name: row for row in PromptTemplate.objects.all()}
    names = {path.stem for path in _folder().glob(f"*{_SUFFIX}") if NAME.fullmatch(path.stem)} | stored.keys()
    return tuple(_view(name, stored.get(name)) for name in sorted(names))


def get_view(name: str) -> TemplateView:
    """Return a template, stored or of the folder. Raises NotFound (unknown_template)."""
    row = PromptTemplate.objects.filter(name=name).first()
    if row is None and (not NAME.fullmatch(name) or _file_text(name) is None):
        raise NotFound("There is no such template.", code="unknown_template")
    return _view(name, row)


def get_stored(name: str) -> PromptTemplate:
    """Return a template of the database. Raises NotFound (unknown_template)."""
    row = PromptTemplate.objects.filter(name=name).first()
    if row is None:
        raise NotFound("There is no such stored template.", code="unknown_template")
    return row


def render(reference: str, parameters: Mapping[str, Any]) -> Rendered:
    """Return the prompt of a template. Raises InvalidInput (unknown_template, invalid_template)."""
    return template_sandbox.render(get_template(reference), get_template, parameters)


def preview(name: str, text: str, parameters: Mapping[str, Any]) -> Rendered:
    """Return the prompt of a text that is not stored yet. Raises InvalidInput."""
    return template_sandbox.render(parse(name, text), get_template, parameters)


def check_text(name: str, text: str) -> Template:
    """Return the template of a text that is to be stored under this name. Raises InvalidInput for one that cannot work.

    Its skills have to exist, and may not include it.
    """
    template = parse(name, text)
    template_sandbox.check(template)
    template_sandbox.expand(template, lambda skill: template if skill == name else get_template(skill))
    return template


def check_agent(agent: Agent) -> None:
    """Raise InvalidInput unless the agent's template exists and can be rendered with its parameters."""
    if agent.template:
        render(agent.template, agent.template_parameters)
    elif agent.template_parameters:
        raise InvalidInput("There are template parameters, but no template.", code="invalid_template")


def use_template(run: Run) -> Run:
    """Let a run see its agent with the text and the settings of the agent's template. Return the run.

    Settings of the agent and of the message win. Raises InvalidInput (unknown_template, invalid_template).
    """
    if run.agent.template:
        rendered = render(run.agent.template, run.agent.template_parameters)
        agent = copy.copy(run.agent)  # for reading, as `agent_versions.applied`
        agent.template_parts = rendered.parts
        agent.model_id = agent.model_id or rendered.settings.model
        run.agent = agent
        run.options = {**rendered.settings.to_options(), **run.options}
    return run


def save(name: str, text: str, note: str = "") -> PromptTemplate:
    """Store a template, or a new version of it if its text differs. Owns its transaction. Raises InvalidInput."""
    check_text(name, text)
    with transaction.atomic():
        row, is_new = PromptTemplate.objects.select_for_update(no_key=True).get_or_create(
            name=name, defaults={"text": text}
        )
        if is_new or row.text != text:
            row.text, row.version = text, 1 if is_new else row.version + 1
            row.save()
            row.versions.create(
                number=row.version, text=text, note=note[:300], actor=context.actor.get(), created_at=timezone.now()
            )
            audit.record("PromptTemplateSaved", details={"name": name, "version": row.version})
        return row


def create(name: str, text: str, note: str = "") -> PromptTemplate:
    """Store a new template. Owns its transaction. Raises InvalidInput and Conflict (template_exists)."""
    if PromptTemplate.objects.filter(name=name).exists():
        raise Conflict(f"The template {name!r} already exists. Change it instead.", code="template_exists")
    return save(name, text, note)


def roll_back(name: str, number: int) -> PromptTemplate:
    """Make the text of an earlier version the present one, as a new version. Raises NotFound, InvalidInput."""
    version = PromptTemplateVersion.objects.filter(template__name=name, number=number).first()
    if version is None:
        raise NotFound(f"The template {name} has no version {number}.", code="unknown_version")
    return save(name, version.text, f"Rolled back to version {number}.")


def users_of(row: PromptTemplate) -> list[str]:
    """Return the agents and templates that need a stored template: a file of its name would replace it for others."""
    name, only_versions = row.name, _file_text(row.name) is not None

    def uses(reference: str) -> bool:
        used, _, version = reference.partition("@")
        return used == name and bool(version or not only_versions)

    agents = Agent.objects.filter(retired_at=None).exclude(template="").values_list("agent_id", "template")
    found = [f"the agent {agent_id}" for agent_id, reference in agents if uses(reference)]
    for row in PromptTemplate.objects.exclude(name=name):
        try:
            skills = parse(row.name, row.text).skills
        except UnusableTemplate:
            continue
        found += [f"the template {row.name}"] * any(map(uses, skills))
    return found


def delete(row: PromptTemplate) -> None:
    """Delete a template with its versions. Raises Conflict (template_in_use) while agents or templates need it."""
    if users := users_of(row):
        message = f"The template {row.name} is used by {', '.join(users)}. Change them first."
        raise Conflict(message, code="template_in_use")
    with transaction.atomic():
        audit.record("PromptTemplateDeleted", details={"name": row.name})
        row.delete()


def _view(name: str, row: PromptTemplate | None) -> TemplateView:
    text, description, problem, parameters = "", "", "", dict[str, Any]()
    try:
        text = row.text if row else _file_text(name) or ""
        found = check_text(name, text)
        description = found.description
        parameters = {key: None if value is REQUIRED else value for key, value in found.parameters.items()}
    except InvalidInput as error:
        problem = error.message
    version, updated_at = (row.version, row.updated_at) if row else (None, None)
    return TemplateView(name, description, version, updated_at, problem, text, parameters)


def _folder() -> Path:
    return Path(settings.KOMAND_PROMPTS_DIR)


def _file_text(name: str) -> str | None:
    try:
        return (_folder() / f"{name}{_SUFFIX}").read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableTemplate(name, f"its file cannot be read: {error}") from None


def _unknown(reference: str) -> InvalidInput:
    message = f"There is no template {reference[:120]!r}, neither stored nor in the folder {_folder()}."
    return InvalidInput(message, code="unknown_template")
