"""The page that connects a model: its models, the test, the use, errors, and who may."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents_app.models import Agent, ModelProvider
from agents_app.providers.connection import RIGHTS
from audit_app.models import AuditEntry
from tests.fakes.model_server import ModelServer
from tests.support.rest import make_agent, make_user
from tests.support.rights import make_operator
from tools_app.secrets import vault

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

PAGE = "/connect-model"
KEY, WRONG = "sk-test-0123456789abcdefghij", "sk-wrong-0123456789abcdef"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(api_key=KEY) as running:
        yield running


@pytest.fixture
def agent() -> Agent:
    return make_agent()


@pytest.fixture
def browser(agent: Agent) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root", "root@example.org", "x"))
    return client


def press(client: Client, button: str, server: ModelServer | str, **given: Any) -> Any:
    address = server if isinstance(server, str) else server.base_url
    return client.post(PAGE, {"do": button, "base_url": address, "key": KEY, **given})


def test_a_model_is_listed_tested_and_used(browser: Client, agent: Agent, server: ModelServer) -> None:
    listed = press(browser, "list", server).content.decode()
    assert '<option value="fake"' in listed and KEY not in listed
    server.script("text=All_is_well")
    tested = press(browser, "test", server, model="fake").content.decode()
    assert "fake answered in" in tested and "All_is_well" in tested and KEY not in tested
    assert server.requests[-1].body["tools"] and not ModelProvider.objects.filter(kind="openai").exists()
    used = press(browser, "use", server, model="fake", next="/chat/new?agent=default")
    assert (used.status_code, used.headers["Location"]) == (302, "/chat/new?agent=default")
    agent.refresh_from_db()
    row = agent.provider
    assert (row.kind, row.base_url, row.default_model, agent.model_id) == ("openai", server.base_url, "fake", "")
    assert vault.unseal(row.api_key_sealed) == KEY and KEY not in row.api_key_sealed
    stored = AuditEntry.objects.get(action="CredentialStored")
    assert stored.actor.startswith("user:") and KEY not in str(stored.details)
    assert {"ModelProviderCreated", "AgentUpdated"} <= set(AuditEntry.objects.values_list("action", flat=True))


def test_all_agents_that_use_the_demo_use_the_model(browser: Client, agent: Agent, server: ModelServer) -> None:
    team, retired = make_agent("team", model_id="demo-slow"), make_agent("old", retired_at=timezone.now())
    other = make_agent("other", provider=ModelProvider.objects.create(name="mine", kind="anthropic"))
    assert f': <span dir="auto">{agent.name}, team</span>' in browser.get(PAGE).content.decode()
    press(browser, "use", server, model="fake")
    providers = dict(Agent.objects.values_list("agent_id", "provider__kind"))
    assert providers == {
        agent.agent_id: "openai",
        "team": "openai",
        retired.agent_id: "demo",
        other.agent_id: "anthropic",
    }
    team.refresh_from_db()
    assert (team.model_id, team.version) == ("", 2)
    press(browser, "use", server, model="second")
    assert dict(Agent.objects.filter(provider__kind="openai").values_list("agent_id", "model_id")) == {
        agent.agent_id: "second",
        "team": "",
    }


def test_the_same_address_keeps_its_provider_and_its_key(browser: Client, agent: Agent, server: ModelServer) -> None:
    press(browser, "use", server, model="fake")
    again = press(browser, "use", f"{server.base_url}/", model="other", key="")
    agent.refresh_from_db()
    assert again.status_code == 302 and ModelProvider.objects.filter(kind="openai").count() == 1
    assert (agent.provider.default_model, agent.model_id) == ("fake", "other")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"key": WRONG}, "refused the API key"),
        ({"key": ""}, "requires an API key"),
        ({"base_url": "http://127.0.0.1:1/v1"}, "cannot be reached"),
        ({"base_url": "ftp://example.org"}, "must begin with http"),
        ({"base_url": ""}, "Enter the address"),
        ({"model": ""}, "Choose a model first"),
        ({"key": "{{credential:openai}}" * 300}, "longer than"),
    ],
)
@pytest.mark.parametrize("button", ["test", "use"])
def test_an_error_is_shown_and_nothing_is_stored(
    browser: Client, server: ModelServer, button: str, given: dict[str, str], problem: str
) -> None:
    shown = press(browser, button, server, **{"model": "fake", **given})
    text = shown.content.decode()
    assert shown.status_code >= 400 and problem in text
    assert KEY not in text and WRONG not in text and not ModelProvider.objects.filter(kind="openai").exists()
    fragment = browser.post(
        PAGE,
        {"do": button, "base_url": server.base_url, "key": KEY, "model": "fake", **given},
        headers={"HX-Request": "true"},
    )
    assert fragment.status_code == 200 and problem in fragment.content.decode() and b"<html" not in fragment.content


def test_a_server_that_refuses_tools_is_not_used(browser: Client, agent: Agent, server: ModelServer) -> None:
    server.script("status=400", "status=400", "text=OK")
    refused = press(browser, "use", server, model="fake").content.decode()
    assert "refuses tools" in refused and "tools" not in server.requests[-1].body
    agent.refresh_from_db()
    assert agent.provider.kind == "demo"


def test_a_server_without_models(browser: Client, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents_app.providers.connection.trial.list_models", lambda row: ())
    assert "lists no models" in press(browser, "list", server).content.decode()


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "javascript:alert(1)"])
def test_it_leads_nowhere_else(browser: Client, server: ModelServer, target: str) -> None:
    assert press(browser, "use", server, model="fake", next=target).headers["Location"] == "/"


def test_it_takes_the_rights_to_change_providers_and_agents(agent: Agent, server: ModelServer) -> None:
    for number, lacking in enumerate(RIGHTS):
        client = Client()
        client.force_login(make_operator(f"op{number}", *(right for right in RIGHTS if right != lacking)))
        refused = press(client, "list", server)
        assert refused.status_code == 403 and lacking.permission in refused.content.decode()
    assert not server.requests
    client.force_login(make_operator("able", *RIGHTS))
    assert press(client, "list", server).status_code == 200
    refused = press(client, "list", server, key="{{credential:openai}}")
    assert refused.status_code == 403 and "tools_app." in refused.content.decode()


def test_the_start_page_leads_there_while_the_demo_is_the_only_model(browser: Client, server: ModelServer) -> None:
    link = "/connect-model?next=%2Fchat%2Fnew"
    assert link in browser.get("/chat/new").content.decode()
    someone = Client()
    someone.force_login(make_user("ada"))
    assert link not in someone.get("/chat/new").content.decode()
    press(browser, "use", server, model="fake")
    assert link not in browser.get("/chat/new").content.decode()


def test_the_list_in_the_admin_leads_there(browser: Client) -> None:
    page = browser.get("/admin/agents_app/modelprovider/").content.decode()
    button = re.search(r'href="([^"]+/connect/?)"', page)
    assert button and "Connect a model" in page
    assert browser.get(button[1]).headers["Location"] == "/connect-model?next=%2Fadmin%2Fagents_app%2Fmodelprovider%2F"
