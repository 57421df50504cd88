"""The right to see prompt templates, which it takes to name one in an agent and to read it in a prompt."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents_app.configuration import agent_files, prompt_templates
from agents_app.configuration.agent_access import check_version
from agents_app.models import Agent
from agents_app.rights import CHANGE_AGENTS, CHANGE_TEMPLATES, CREATE_AGENTS, VIEW_AGENTS, VIEW_TEMPLATES
from audit_app.models import AuditEntry
from audit_app.rights import MissingRight
from tests.integration.agents_app.admin.test_agents import agent_form
from tests.support.rest import RestCaller, make_agent, make_user
from tests.support.rights import grant, make_operator
from tools_app.registry import tools

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]
TEXT = "Sell at twice the price."


@pytest.fixture(autouse=True)
def stored() -> None:
    for text in (f"{TEXT} 1", f"{TEXT} 2"):
        prompt_templates.save("shop", text)


@pytest.fixture
def ada() -> User:
    return make_operator("ada", CREATE_AGENTS)


def owned(user: User, **fields: Any) -> Agent:
    agent = make_agent("helper", **fields)
    agent.owner_id = user.pk
    agent.save()
    return agent


def test_naming_a_template_takes_the_right_to_see_it(ada: User) -> None:
    owned(ada)
    api, refusals = RestCaller(ada), []
    refusals.append(api.post("agents", {"agentId": "new", "name": "New", "modelProvider": "demo", "template": "shop"}))
    refusals += [api.put(f"agents/helper{path}", {"template": "shop"}) for path in ("", "/draft")]
    text = "format: 1\nagents:\n- id: new\n  provider: demo\n  template: shop\n"
    refusals.append(api("POST", "agents/import?dryRun=true", text.encode(), Content_Type="application/yaml"))
    found = [(refusal.status, refusal.meta.get("right")) for refusal in refusals]
    assert found == [(403, VIEW_TEMPLATES.permission)] * 4
    assert AuditEntry.objects.filter(action="RightRefused", actor=f"user:{ada.pk}").count() == 4
    assert Agent.objects.get().template == ""
    for right in (VIEW_TEMPLATES, CHANGE_TEMPLATES):
        able = make_operator(f"bob-{right.permission[-25:]}", CREATE_AGENTS, CHANGE_AGENTS, right)
        assert RestCaller(able).put("agents/helper", {"template": "shop"}).status == 200
        Agent.objects.update(template="")


def test_an_agent_that_has_a_template_keeps_it_in_the_hands_of_an_owner_who_may_not_see_it(ada: User) -> None:
    agent = owned(ada, template="shop")
    api = RestCaller(ada)
    assert api.put("agents/helper", {"template": "shop", "systemPrompt": "Be kind."}).status == 200
    assert api.put("agents/helper", {"template": "shop@1"}).status == 403
    agent.refresh_from_db()
    exported = agent_files.export([agent]).replace("Be kind.", "Be polite.")
    assert api("POST", "agents/import", exported.encode(), Content_Type="application/yaml").status == 200
    assert api.put("agents/helper", {"template": ""}).status == 200
    assert api.post("agents/helper/versions/1/rollback").meta["right"] == VIEW_TEMPLATES.permission


def test_a_draft_with_a_template_is_published_and_tried_by_those_who_may_see_it(ada: User) -> None:
    owned(ada)
    admin = make_operator("root", CHANGE_AGENTS, VIEW_TEMPLATES)
    assert RestCaller(admin).put("agents/helper/draft", {"template": "shop"}).status == 200
    assert RestCaller(ada).post("agents/helper/draft/publish").meta["right"] == VIEW_TEMPLATES.permission
    assert RestCaller(admin).post("agents/helper/draft/publish").status == 200


def test_the_prompt_shows_the_text_of_a_template_to_those_who_may_see_it(ada: User) -> None:
    owned(ada, template="shop", system_prompt="Be kind.")
    path = "agents/helper/prompt"
    hidden = RestCaller(ada).get(path)
    names = {part["name"]: part for part in hidden.data["parts"]}
    assert VIEW_TEMPLATES.permission in names["template shop"]["text"] and names["template shop"]["tokens"] > 3
    assert names["agent's prompt"]["text"] == "Be kind." and TEXT not in str(hidden.data)
    shown = RestCaller(grant(ada, VIEW_TEMPLATES)).get(path).data["parts"][0]
    assert shown["text"] == f"{TEXT} 2" and shown["tokens"] == names["template shop"]["tokens"]


def test_the_admin_asks_for_the_right_too(client: Client) -> None:
    agent = owned(make_user("owner"))
    page = f"/admin/agents_app/agent/{agent.pk}/"
    editor = make_operator("editor", VIEW_AGENTS, CHANGE_AGENTS, is_staff=True)
    client.force_login(editor, "django.contrib.auth.backends.ModelBackend")
    fields = agent_form(agent, all_tools=None, chosen_tools=tools.names())
    assert 'value="shop"' not in client.get(f"{page}change/").content.decode()
    refused = client.post(f"{page}change/", {**fields, "template": "shop"})
    assert refused.status_code == 200 and VIEW_TEMPLATES.permission in refused.content.decode()
    agent.refresh_from_db()
    assert agent.template == ""
    Agent.objects.update(template="shop")
    assert TEXT not in client.get(f"{page}prompt/").content.decode()
    assert 'value="shop" selected' in client.get(f"{page}change/").content.decode()
    assert client.post(f"{page}change/", {**fields, "template": "shop", "name": "Renamed"}).status_code == 302
    grant(editor, VIEW_TEMPLATES)
    assert TEXT in client.get(f"{page}prompt/").content.decode()


def test_a_version_with_another_template_is_chosen_by_those_who_may_see_it(ada: User) -> None:
    agent = owned(ada, template="shop")
    assert RestCaller(ada).put("agents/helper", {"template": ""}).status == 200
    agent.refresh_from_db()
    with pytest.raises(MissingRight, match="see prompt templates"):
        check_version(ada, agent, 1)
    check_version(grant(ada, VIEW_TEMPLATES), agent, 1)
