"""Prompt templates of the database and of the folder: versions, use by agents, and what the model gets."""

from pathlib import Path
from typing import Any

import pytest

from agents_app import services, yaml_documents
from agents_app.configuration import agent_files, agent_versions, prompt_templates
from agents_app.models import Agent, PromptTemplate
from agents_app.prompt.template_format import UnusableTemplate
from agents_app.providers.kinds.scripted import Reply
from agents_app.runs.request_view import view_first_request
from agents_app.types import RunOptions, RunStatus
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound
from audit_app.models import AuditEntry
from tests.support.engine import EngineRig

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

SUPPORT = """---
description: Answers customers.
parameters: {company: null, tone: friendly}
skills: [style]
model: script
temperature: 0.2
max_tokens: 300
top_p: 0.5
---
You answer for {{ company }}.
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.KOMAND_PROMPTS_DIR = str(tmp_path)
    (tmp_path / "style.md").write_text("Be {{ tone }}.".join(["---\nparameters: {tone: brief}\n---\n", ""]))
    return tmp_path


def test_the_models_request_has_skills_template_prompt_and_rules_in_this_order(idle: EngineRig) -> None:
    prompt_templates.save("support", SUPPORT)
    given = {"template": "support", "template_parameters": {"company": "ACME"}, "system_prompt": "Sign with A."}
    script = idle.agent(Reply(("Hello.",)), model_id="", **given)
    idle.start()
    idle.wait(idle.send("hi", run=RunOptions(temperature=0.9)).run_id)
    request = script.requests[0]
    assert request.messages[0].content.startswith("Be brief.\n\nYou answer for ACME.\n\nSign with A.\n\nYour name is")
    assert (request.options.temperature, request.options.max_output_tokens) == (
        0.9,
        300,
    )  # the message's, the template's
    assert request.options.sampling == {"top_p": 0.5} and request.model == "script"
    agent = Agent.objects.select_related("provider").get()
    view = view_first_request(agent)
    system = [part.name for part in view.parts if part.kind == "system"]
    assert system == ["skill style", "template support", "agent's prompt", "rules", "citations"]
    assert agent.model_id == "" and view.model == "script"  # the row itself is not changed


def test_a_run_whose_template_became_unusable_fails_with_the_reason(idle: EngineRig, folder: Path) -> None:
    (folder / "hello.md").write_text("Hello.")
    idle.agent(Reply(("Hi.",)), template="hello")
    (folder / "hello.md").write_text("{{ name }}")
    idle.start()
    run = idle.wait(idle.send("hi").run_id).run
    assert (run.status, run.error_code) == (RunStatus.FAILED, "invalid_template")
    assert run.error_message == "Template hello: it uses 'name', which is not one of its parameters."


def test_each_changed_text_is_a_version_to_compare_and_roll_back_to() -> None:
    prompt_templates.save("greet", "One.")
    prompt_templates.save("greet", "Two.", "Better.")
    assert prompt_templates.save("greet", "Two.").version == 2  # nothing changed
    assert prompt_templates.get_template("greet").body == "Two."
    assert prompt_templates.get_template("greet@1").body == "One."
    row = prompt_templates.roll_back("greet", 1)
    assert (row.version, row.text) == (3, "One.")
    assert [version.note for version in row.versions.order_by("number")] == ["", "Better.", "Rolled back to version 1."]
    assert AuditEntry.objects.filter(action="PromptTemplateSaved").count() == 3
    with pytest.raises(NotFound):
        prompt_templates.roll_back("greet", 9)
    for unknown in ("greet@9", "greet@", "greet@x", "../greet", "nobody"):
        with pytest.raises(InvalidInput, match="There is no template"):
            prompt_templates.get_template(unknown)


def test_a_stored_template_replaces_the_file_of_its_name(folder: Path) -> None:
    prompt_templates.save("style", "---\ndescription: Ours.\n---\nBe stored.")
    (folder / "broken.md").write_text("{% if %}")
    (folder / "Not A Name.md").write_text("x")
    views = prompt_templates.list_templates()
    assert [(view.name, view.version, view.description) for view in views] == [
        ("broken", None, ""),
        ("style", 1, "Ours."),
    ]
    assert views[0].problem.startswith("Template broken: line 1 of its text:") and not views[1].problem
    assert prompt_templates.render("style", {}).parts[0].text == "Be stored."
    prompt_templates.delete(PromptTemplate.objects.get())
    assert prompt_templates.render("style", {}).parts[0].text == "Be brief."


def test_a_text_that_cannot_work_is_not_stored() -> None:
    prompt_templates.save("inner", "---\nskills: [style]\n---\nInner.")
    for text in ("---\nskills: [nobody]\n---\n", "---\nskills: [inner]\n---\n{{ name }}", "---\nbad"):
        with pytest.raises(InvalidInput):
            prompt_templates.save("outer", text)
    with pytest.raises(UnusableTemplate, match="in a circle: outer → inner → outer"):
        prompt_templates.save("outer", "Outer.")
        prompt_templates.save("inner", "---\nskills: [outer]\n---\n")
        prompt_templates.save("outer", "---\nskills: [inner]\n---\n")
    assert prompt_templates.get_template("outer").body == "Outer."


def test_a_template_in_use_is_not_deleted(idle: EngineRig) -> None:
    row = prompt_templates.save("base", "Base.")
    prompt_templates.save("outer", "---\nskills: [base]\n---\n")
    idle.agent(template="base@1")
    with pytest.raises(Conflict, match="used by the agent default, the template outer"):
        prompt_templates.delete(row)


def test_an_agent_is_stored_only_with_a_template_that_renders(idle: EngineRig) -> None:
    prompt_templates.save("support", SUPPORT)
    idle.agent()
    agent = Agent.objects.get()
    for wrong in ({"template": "nobody"}, {"template": "support"}, {"template_parameters": {"a": 1}}):
        with pytest.raises(InvalidInput):
            services.update_agent(Agent.objects.get(), **wrong)
    services.update_agent(agent, template="support", template_parameters={"company": "ACME"})
    assert agent_versions.configuration_of(agent)["template_parameters"] == {"company": "ACME"}
    text = agent_files.export([agent])
    assert "template: support" in text and not agent_files.plan(text)[0].changes
    with pytest.raises(yaml_documents.UnusableFile, match="agents\\[0\\].template: There is no template 'gone'"):
        agent_files.plan(text.replace("template: support", "template: gone"))
