"""Agents as YAML over REST and in the admin: who may export and import, dry runs, and faults."""

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from agents_app import services
from agents_app.configuration import agent_files
from agents_app.models import Agent
from agents_app.rights import CHANGE_AGENTS, CREATE_AGENTS
from agents_app.yaml_documents import LARGEST_UPLOAD
from tests.support.rest import Answer, RestCaller, make_agent, make_user
from tests.support.rights import make_operator

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

PAGE = "/admin/agents_app/agent/import/"
NEW = "format: 1\nagents:\n- id: poet\n  provider: demo\n  system_prompt: Rhyme.\n"


def owned(user: User | None, agent_id: str = "helper") -> Agent:
    agent = make_agent(agent_id)
    Agent.objects.filter(pk=agent.pk).update(owner_id=user.pk if user else None, is_shared_with_everyone=False)
    agent.refresh_from_db()
    services.update_agent(agent, system_prompt="Be brief.\nBe kind.")
    return agent


def send(api: RestCaller, text: str | bytes, query: str = "") -> Answer:
    data = text.encode() if isinstance(text, str) else text
    return api("POST", f"agents/import{query}", data, Content_Type="application/yaml")


def test_an_export_is_the_file_of_the_command_for_those_who_see_the_configuration() -> None:
    ada = make_user("ada")
    agent = owned(ada)
    answer = RestCaller(ada).get("agents/helper/export")
    assert answer.data.decode() == agent_files.export([agent])
    assert answer.headers["Content-Type"] == "application/yaml"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="helper.yaml"'
    assert RestCaller(make_user("eve")).get("agents/helper/export").status == 404
    Agent.objects.update(is_shared_with_everyone=True)
    assert RestCaller(make_user("bob")).get("agents/helper/export").status == 403


def test_a_dry_run_shows_the_changes_and_an_import_makes_them() -> None:
    ada = make_operator("ada", CREATE_AGENTS)
    text = agent_files.export([owned(ada)]).replace("Be kind.", "Be polite.") + NEW.partition("agents:\n")[2]
    api = RestCaller(ada)
    shown = send(api, text, "?dryRun=true")
    assert shown.meta == {"dryRun": True}
    first, second = shown.data
    assert (first["agentId"], first["isNew"]) == ("helper", False)
    assert [change["field"] for change in first["changes"]] == ["system_prompt"]
    assert "-Be kind.\n+Be polite." in first["changes"][0]["diff"]
    assert (second["agentId"], second["isNew"]) == ("poet", True)
    assert Agent.objects.count() == 1 and "Be kind." in Agent.objects.get().system_prompt
    assert send(api, text).data == shown.data
    created = Agent.objects.get(agent_id="poet")
    assert (created.owner_id, created.is_shared_with_everyone, created.version) == (ada.pk, False, 1)
    assert "Be polite." in Agent.objects.get(agent_id="helper").system_prompt
    assert [one["changes"] for one in send(api, text).data] == [[], []]


def test_every_fault_is_named_with_its_line_and_nothing_is_imported() -> None:
    api = RestCaller(make_operator("ada", CREATE_AGENTS))
    make_agent("helper")
    text = NEW + (
        "  enabled_tools: [teleport]\n  max_tool_rounds: 100000\n  budgets: {costPerHour: lots}\n"
        '  description: "\\0"\n  mcp_servers: [gone]\n  max_context_tokens: 5\n'
    )
    refused = send(api, text)
    assert (refused.status, refused.meta["code"]) == (400, "unusable_file")
    found = {problem["place"]: (problem["line"], problem["message"]) for problem in refused.meta["problems"]}
    assert found["agents[0].enabled_tools"] == (6, "there is no tool 'teleport'")
    assert found["agents[0].max_tool_rounds"][0] == 7 and "100" in found["agents[0].max_tool_rounds"][1]
    assert "numbers from 0" in found["agents[0].budgets"][1]
    assert "cannot be stored" in found["agents[0].description"][1]
    assert found["agents[0].mcp_servers"][1] == "there is no MCP server 'gone'"
    assert "1000" in found["agents[0].max_context_tokens"][1] and len(found) == 6
    assert "line 6: agents[0].enabled_tools: there is no tool 'teleport'" in (refused.error or "")
    assert not Agent.objects.filter(agent_id="poet").exists()
    for odd in (b"", b"\xff\xfe\x00", b"x" * (LARGEST_UPLOAD + 1), b"agents: .nan"):
        assert send(api, odd).meta["code"] == "unusable_file"


def test_an_import_takes_the_rights_that_each_change_takes() -> None:
    agent = owned(make_user("owner"))
    changed = agent_files.export([agent]).replace("Be kind.", "Be polite.")
    assert send(RestCaller(make_user("bob")), NEW).meta["right"] == CREATE_AGENTS.permission
    creator = RestCaller(make_operator("cleo", CREATE_AGENTS))
    assert send(creator, changed, "?dryRun=true").status == 404
    autonomous = send(creator, NEW + "  autonomy: full\n", "?dryRun=true")
    assert autonomous.meta["right"] == "agents_app.grant_autonomy"
    both = make_operator("dan", CREATE_AGENTS, CHANGE_AGENTS)
    assert send(RestCaller(both), changed).status == 200
    agent.refresh_from_db()
    assert "Be polite." in agent.system_prompt and agent.owner_id != both.pk


def test_the_admin_shows_the_changes_before_it_imports(client: Client) -> None:
    admin = User.objects.create_superuser("op")
    client.force_login(admin, "django.contrib.auth.backends.ModelBackend")
    agent = owned(None)
    exported = client.get(f"/admin/agents_app/agent/{agent.pk}/export/")
    text = exported.content.decode()
    assert text == agent_files.export([agent]) and "helper.yaml" in exported["Content-Disposition"]
    assert PAGE in client.get("/admin/agents_app/agent/").content.decode()
    changed = text.replace("Be kind.", "Be <b>polite</b>.").encode()
    preview = client.post(PAGE, {"file": SimpleUploadedFile("a.yaml", changed), "preview": ""}).content.decode()
    assert "+Be &lt;b&gt;polite&lt;/b&gt;." in preview and 'name="import"' in preview
    assert "Be kind." in Agent.objects.get().system_prompt
    done = client.post(PAGE, {"text": changed.decode() + NEW.partition("agents:\n")[2], "import": ""}, follow=True)
    assert "Imported: 1 new, 1 changed, 0 as they were." in done.content.decode()
    assert "polite" in Agent.objects.get(agent_id="helper").system_prompt
    assert Agent.objects.get(agent_id="poet").owner_id == admin.pk
    for given in ({"text": "agents: 7"}, {"text": ""}, {"file": SimpleUploadedFile("a.yaml", b"\xff")}):
        page = client.post(PAGE, {**given, "import": ""}).content.decode()
        assert "Nothing was imported" in page or "Choose a file" in page


def test_staff_import_and_see_in_the_admin_what_their_rights_allow(client: Client) -> None:
    agent = owned(make_user("owner"))
    user = make_operator("staff", CREATE_AGENTS, is_staff=True)
    client.force_login(user, "django.contrib.auth.backends.ModelBackend")
    changed = agent_files.export([agent]).replace("Be kind.", "Be polite.")
    page = client.post(PAGE, {"text": changed, "import": ""}).content.decode()
    assert "You may not" in page and "-Be kind." not in page and "Be kind." in Agent.objects.get().system_prompt
    page = client.post(PAGE, {"text": NEW + "  autonomy: full\n", "import": ""}).content.decode()
    assert "grant_autonomy" in page and Agent.objects.count() == 1
    other = make_user("reader", is_staff=True)
    client.force_login(other, "django.contrib.auth.backends.ModelBackend")
    assert client.get(PAGE).status_code in (302, 403, 404)
