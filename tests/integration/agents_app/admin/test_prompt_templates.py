"""Prompt templates in the admin: stored with versions, previewed, rolled back, and chosen for an agent."""

import pytest

from agents_app.configuration import prompt_templates
from agents_app.models import PromptTemplate
from audit_app.models import AuditEntry
from tests.integration.agents_app.admin.test_agents import AGENTS, agent_form

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

TEMPLATES = "/admin/agents_app/prompttemplate/"
GREET = "---\ndescription: Greets.\nparameters: {name: null}\ntemperature: 0.5\n---\nHello {{ name }}, <b>welcome</b>."


def text_of(response) -> str:
    return response.content.decode()


def test_a_template_is_stored_with_a_version_for_each_text(pages, operator):
    assert pages.post(f"{TEMPLATES}add/", {"name": "greet", "text": GREET.replace("\n", "\r\n")}).status_code == 302
    row = PromptTemplate.objects.get()
    assert (row.text, row.version) == (GREET, 1)
    page = f"{TEMPLATES}{row.pk}/change/"
    assert pages.post(page, {"text": "Hello.", "note": "Shorter."}).status_code == 302
    row.refresh_from_db()
    assert (row.name, row.text, row.version) == ("greet", "Hello.", 2)
    assert AuditEntry.objects.filter(action="PromptTemplateSaved", actor=f"user:{operator.pk}").count() == 2
    refused = pages.post(page, {"text": "{{ name.upper() }}"})
    assert "`call` is not available" in text_of(refused) and PromptTemplate.objects.get().version == 2
    assert "greet" in text_of(pages.get(TEMPLATES))


def test_the_history_compares_versions_and_rolls_back(pages):
    row = prompt_templates.save("greet", "One.\nSame.")
    prompt_templates.save("greet", "Two.\nSame.", "Better.")
    page = f"{TEMPLATES}{row.pk}/versions/"
    assert f'href="{page}"' in text_of(pages.get(f"{TEMPLATES}{row.pk}/change/"))
    assert (
        "-One." in text_of(pages.get(page))
        and "+Two." in text_of(pages.get(page))
        and "Better." in text_of(pages.get(page))
    )
    assert "+One." in text_of(pages.get(f"{page}?from=2&to=1"))
    assert pages.post(page, {"number": "1"}).status_code == 302
    assert prompt_templates.get_template("greet").body == "One.\nSame."
    assert "no version 9" in text_of(pages.post(page, {"number": "9"}, follow=True))


def test_the_preview_renders_what_stands_in_the_form_and_stores_nothing(pages):
    row = prompt_templates.save("greet", GREET)
    page = f"{TEMPLATES}{row.pk}/preview/"
    assert "Hello {{ name }}" in text_of(pages.get(page))
    shown = text_of(pages.post(page, {"text": f"{GREET} Bye.", "parameters": '{"name": "Ada"}'}))
    assert "Hello Ada, &lt;b&gt;welcome&lt;/b&gt;. Bye." in shown and "0.5" in shown and "template greet" in shown
    assert "it needs the parameter" in text_of(pages.post(page, {"text": GREET, "parameters": "{}"}))
    assert "Enter a JSON object" in text_of(pages.post(page, {"text": GREET, "parameters": "[1]"}))
    assert PromptTemplate.objects.get().text == GREET


def test_an_agent_gets_a_template_in_the_form_and_its_page_shows_the_order(pages, agent):
    prompt_templates.save("greet", GREET)
    page = f"{AGENTS}{agent.pk}/change/"
    refused = pages.post(page, agent_form(agent, template="greet"))
    assert "it needs the parameter" in text_of(refused)
    assert "Enter a system prompt, or choose a template" in text_of(
        pages.post(page, agent_form(agent, system_prompt=""))
    )
    given = {"template": "greet", "template_parameters": '{"name": "Ada"}', "system_prompt": ""}
    assert pages.post(page, agent_form(agent, **given)).status_code == 302
    agent.refresh_from_db()
    assert (agent.template, agent.template_parameters, agent.system_prompt) == ("greet", {"name": "Ada"}, "")
    assert "template greet" in text_of(pages.get(f"{AGENTS}{agent.pk}/prompt/"))
    PromptTemplate.objects.all().delete()
    assert "There is no template" in text_of(pages.get(f"{AGENTS}{agent.pk}/prompt/", follow=True))


def test_a_template_in_use_is_not_deleted(pages, agent):
    row = prompt_templates.save("greet", "Hello.")
    agent.template = "greet"
    agent.save()
    page = f"{TEMPLATES}{row.pk}/delete/"
    assert "used by the agent default" in text_of(pages.post(page, {"post": "yes"}, follow=True))
    agent.template = ""
    agent.save()
    assert pages.post(page, {"post": "yes"}).status_code == 302 and not PromptTemplate.objects.exists()
    assert AuditEntry.objects.filter(action="PromptTemplateDeleted").exists()
