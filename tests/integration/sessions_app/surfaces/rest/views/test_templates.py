"""Prompt templates over REST: with versions, preview and rollback, by the rights that the admin uses."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User

from agents_app.models import PromptTemplate
from audit_app.models import AuditEntry
from tests.support.rest import RestCaller, make_agent, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

GREET = "---\ndescription: Greets.\nparameters: {name: null, tone: kind}\ntemperature: 0.5\n---\nHello {{ name }}."


def caller(*actions: str) -> RestCaller:
    user = make_user("-".join(actions) or "nobody")
    codenames = [f"{action}_prompttemplate" for action in actions]
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return RestCaller(User.objects.get(pk=user.pk))


@pytest.fixture
def author(settings: Any, tmp_path: Path) -> RestCaller:
    settings.KOMAND_PROMPTS_DIR = str(tmp_path)
    (tmp_path / "style.md").write_text("Be brief.")
    return caller("add", "change", "delete")


def test_a_template_is_created_and_read(author: RestCaller) -> None:
    made = author.post("templates", {"name": "greet", "text": GREET}).data
    assert made == author.get("templates/greet").data
    assert (made["version"], made["description"], made["text"], made["problem"]) == (1, "Greets.", GREET, None)
    assert made["parameters"] == {"name": None, "tone": "kind"}
    assert AuditEntry.objects.get(action="PromptTemplateSaved").actor == f"user:{author.user and author.user.pk}"
    assert author.post("templates", {"name": "greet", "text": "Hi."}).meta["code"] == "template_exists"
    assert author.post("templates", {"name": "Greet", "text": "Hi."}).meta["code"] == "invalid_template"


def test_files_are_listed_and_read_but_changed_only_as_stored_ones(author: RestCaller) -> None:
    author.post("templates", {"name": "greet", "text": GREET})
    assert [(row["name"], row["version"]) for row in author.get("templates").data] == [("greet", 1), ("style", None)]
    assert author.get("templates/style").data["text"] == "Be brief."
    for answer in (author.put("templates/style", {"text": "Be long."}), author.delete("templates/style")):
        assert (answer.status, answer.meta["code"]) == (404, "unknown_template")
    assert author.get("templates/style/versions").status == author.get("templates/nobody").status == 404
    assert author.post("templates", {"name": "style", "text": "Be long."}).data["version"] == 1


def test_each_changed_text_is_a_version_to_roll_back_to(author: RestCaller) -> None:
    author.post("templates", {"name": "greet", "text": "One."})
    assert author.put("templates/greet", {"text": "Two.", "note": "Better."}).data["version"] == 2
    versions = author.get("templates/greet/versions").data
    assert [(row["number"], row["note"]) for row in versions] == [(2, "Better."), (1, "")]
    assert author.get("templates/greet/versions/1").data["text"] == "One."
    assert author.post("templates/greet/versions/1/rollback").data["text"] == "One."
    assert author.post("templates/greet/versions/9/rollback").meta["code"] == "unknown_version"
    assert author.get("templates/greet/versions/9").meta["code"] == "unknown_version"


def test_a_text_is_previewed_before_it_is_stored(author: RestCaller) -> None:
    author.post("templates", {"name": "greet", "text": GREET})
    shown = author.post("templates/greet/preview", {"parameters": {"name": "Ada"}}).data
    assert shown == {"parts": [{"name": "template greet", "text": "Hello Ada."}], "settings": {"temperature": 0.5}}
    new = {"text": "---\nskills: [style]\n---\nBye."}
    assert [part["text"] for part in author.post("templates/bye/preview", new).data["parts"]] == ["Be brief.", "Bye."]
    refused = author.post("templates/greet/preview", {})
    assert refused.meta["code"] == "invalid_template" and "name" in refused.error
    assert author.put("templates/greet", {"text": "{{ nobody }}"}).status == 400
    assert PromptTemplate.objects.get().version == 1


def test_a_template_in_use_is_not_deleted(author: RestCaller) -> None:
    author.post("templates", {"name": "greet", "text": "Hi."})
    agent = make_agent(template="greet")
    assert author.delete("templates/greet").meta["code"] == "template_in_use"
    agent.template = ""
    agent.save()
    assert author.delete("templates/greet").status == 200 and author.get("templates/greet").status == 404


def test_each_action_takes_its_right(author: RestCaller) -> None:
    author.post("templates", {"name": "greet", "text": GREET})
    viewer, nobody = caller("view"), caller()
    assert viewer.get("templates/greet").status == viewer.get("templates/greet/versions/1").status == 200
    for path, right in [("templates", "view"), ("templates/greet", "view"), ("templates/greet/versions", "view")]:
        assert nobody.get(path).meta["right"] == f"agents_app.{right}_prompttemplate"
    refused = [
        (viewer.post("templates", {"name": "b", "text": "B"}), "add"),
        (viewer.put("templates/greet", {"text": "B"}), "change"),
        (viewer.post("templates/greet/preview"), "change"),
        (viewer.post("templates/greet/versions/1/rollback"), "change"),
        (viewer.delete("templates/greet"), "delete"),
    ]
    for answer, right in refused:
        assert (answer.status, answer.meta["right"]) == (403, f"agents_app.{right}_prompttemplate")
    assert PromptTemplate.objects.get().text == GREET
