"""Agents and model providers in the admin: created, retired, with keys that are never shown."""

import re

import pytest
from django.contrib.admin.utils import flatten_fieldsets

from agents_app.admin.agents import AgentAdmin
from agents_app.configuration import agent_versions
from agents_app.models import Agent, ModelProvider
from audit_app.models import AuditEntry
from tools_app.registry import tools
from tools_app.secrets import vault

pytestmark = pytest.mark.one_database

AGENTS = "/admin/agents_app/agent/"
PROVIDERS = "/admin/agents_app/modelprovider/"
KEY = "sk-proj-THIS-IS-A-SECRET-0123456789"


def agent_form(agent: Agent, **changes):
    fields = {
        "agent_id": agent.agent_id,
        "name": agent.name,
        "description": "",
        "provider": agent.provider_id,
        "model_id": "",
        "system_prompt": agent.system_prompt,
        "max_context_tokens": 1000,
        "allowed_channels": "",
        "autonomy": "supervised",
        "enabled_skill_ids": "",
        "busy_policy": "queue",
        "queue_limit": 20,
        "max_tool_rounds": 10,
        "max_active_seconds": 120,
        "max_call_seconds": 300,
        "max_idle_seconds": 60,
        "max_tries": 2,
        "memory_budget_tokens": 400,
        "output_schema": "",
        "output_retries": 2,
        "retry_first_seconds": 2,
        "retry_max_seconds": 30,
        "all_tools": "on",
        "mcp_servers_mode": "inherit",
        "tool_profile": "all",
    }
    return {name: value for name, value in {**fields, **changes}.items() if value is not None}


def provider_form(**changes):
    fields = {"name": "acme", "kind": "openai", "base_url": "https://api.acme.test/v1", "default_model": "m"}
    prices = {"model_prices-TOTAL_FORMS": 0, "model_prices-INITIAL_FORMS": 0}
    return {**fields, **prices, "input_price": "", "output_price": "", **changes}


@pytest.fixture
def provider(db) -> ModelProvider:
    return ModelProvider.objects.create(
        name="acme", kind="openai", base_url="https://api.acme.test/v1", api_key_sealed=vault.seal(KEY)
    )


def test_parallel_tool_calls_are_chosen_in_the_form(pages, operator, agent):
    page = f"{AGENTS}{agent.pk}/change/"
    for value, stored in (("false", False), ("true", True), ("unknown", None)):
        assert pages.post(page, agent_form(agent, parallel_tool_calls=value)).status_code == 302
        agent.refresh_from_db()
        assert agent.parallel_tool_calls is stored
    assert 'name="parallel_tool_calls"' in pages.get(page).content.decode()


def test_an_agent_is_made_and_belongs_to_who_made_it(pages, operator, agent):
    response = pages.post(
        f"{AGENTS}add/", agent_form(agent, agent_id="sales", name="Sales", allowed_channels="WebChat, Slack")
    )
    made = Agent.objects.get(agent_id="sales")
    assert response.status_code == 302
    assert (made.owner_id, made.allowed_channels, made.enabled_tools) == (operator.pk, ["WebChat", "Slack"], None)
    assert AuditEntry.objects.get(action="AgentCreated").agent_id == "sales"


def test_every_column_of_an_agent_can_be_set():
    by_itself = {"id", "created_at", "updated_at", "retired_at", "owner_id", "version", "enabled_tools", "budgets"}
    fields = [*Agent._meta.concrete_fields, *Agent._meta.many_to_many]
    columns = {field.name for field in fields} - by_itself
    of_form = {"all_tools", "chosen_tools", "actions_per_hour", "cost_per_hour", "cost_per_day", "cost_per_month"}
    assert columns == set(flatten_fieldsets(AgentAdmin.fieldsets)) - of_form


def test_chosen_tools_are_kept_and_all_tools_means_also_later_ones(pages, agent):
    chosen = tools.names()[0]
    address = f"{AGENTS}{agent.pk}/change/"
    pages.post(address, agent_form(agent, all_tools=None, chosen_tools=[chosen]))
    agent.refresh_from_db()
    assert agent.enabled_tools == [chosen]
    pages.post(address, agent_form(agent))
    agent.refresh_from_db()
    assert agent.enabled_tools is None


def test_what_was_changed_is_audited(pages, operator, agent):
    pages.post(f"{AGENTS}{agent.pk}/change/", agent_form(agent, name="Another name"))
    entry = AuditEntry.objects.get(action="AgentUpdated")
    assert entry.actor == f"user:{operator.pk}"
    assert "Name" in entry.details["fields"]


def test_the_button_history_of_an_agent_leads_to_its_versions(pages, agent):
    page = pages.get(f"{AGENTS}{agent.pk}/change/").content.decode()
    assert f'href="{AGENTS}{agent.pk}/versions/"' in page and "/history/" not in page


def test_the_public_id_of_an_agent_stays(pages, agent):
    pages.post(f"{AGENTS}{agent.pk}/change/", agent_form(agent, agent_id="other"))
    agent.refresh_from_db()
    assert agent.agent_id == "default"


def test_an_agent_is_reached_by_its_public_id_and_tried_on_the_chat_page(pages, agent):
    html = pages.get(f"{AGENTS}default/change/").content.decode()
    assert "Try it" in html
    assert pages.get(f"{AGENTS}default/try/")["Location"] == "/chat/new?agent=default"
    assert pages.get(f"{AGENTS}nobody/try/").status_code == 404


def test_an_agent_is_retired_and_restored_never_deleted(pages, operator, agent):
    other = Agent.objects.create(agent_id="sales", name="Sales", provider=agent.provider)
    pages.post(f"{AGENTS}{other.pk}/retire/", {"_form_submitted": "True"})
    other.refresh_from_db()
    assert other.retired_at is not None
    pages.post(f"{AGENTS}{other.pk}/restore/", {"_form_submitted": "True"})
    other.refresh_from_db()
    assert other.retired_at is None
    assert pages.post(f"{AGENTS}{other.pk}/delete/", {"post": "yes"}).status_code == 403
    actions = AuditEntry.objects.filter(agent_id="sales").order_by("id").values_list("action", "actor")
    assert list(actions) == [("AgentRetired", f"user:{operator.pk}"), ("AgentRestored", f"user:{operator.pk}")]


def test_the_default_agent_cannot_be_retired(pages, agent):
    response = pages.post(f"{AGENTS}{agent.pk}/retire/", {"_form_submitted": "True"}, follow=True)
    agent.refresh_from_db()
    assert agent.retired_at is None
    assert "default agent" in response.content.decode()


def test_a_key_is_encrypted_and_audited_without_its_value(pages, operator):
    pages.post(f"{PROVIDERS}add/", provider_form(new_key=KEY, is_enabled="on"))
    made = ModelProvider.objects.get(name="acme")
    assert vault.unseal(made.api_key_sealed) == KEY
    entry = AuditEntry.objects.get(action="CredentialStored")
    assert entry.actor == f"user:{operator.pk}"
    assert set(entry.details) == {"provider", "fingerprint"}
    assert KEY not in str(list(AuditEntry.objects.values()))


def test_a_stored_key_is_on_no_page(pages, provider):
    for address in (PROVIDERS, f"{PROVIDERS}{provider.pk}/change/", f"{PROVIDERS}{provider.pk}/history/"):
        html = pages.get(address).content.decode()
        assert KEY not in html and provider.api_key_sealed not in html
    assert "set, fingerprint" in pages.get(f"{PROVIDERS}{provider.pk}/change/").content.decode()


def test_a_key_typed_into_a_form_that_is_refused_is_not_sent_back(pages):
    response = pages.post(f"{PROVIDERS}add/", provider_form(name="not a slug!", new_key=KEY))
    assert response.status_code == 200 and KEY not in response.content.decode()


def test_saving_without_a_key_keeps_it_and_removing_it_is_audited(pages, provider):
    address = f"{PROVIDERS}{provider.pk}/change/"
    pages.post(address, provider_form(default_model="other"))
    provider.refresh_from_db()
    assert vault.unseal(provider.api_key_sealed) == KEY
    pages.post(address, provider_form(remove_key="on"))
    provider.refresh_from_db()
    assert provider.api_key_sealed == ""
    assert AuditEntry.objects.get(action="CredentialDeleted").details == {"provider": "acme"}


def test_a_stored_key_is_not_sent_to_another_address(pages, provider):
    address = f"{PROVIDERS}{provider.pk}/change/"
    response = pages.post(address, provider_form(base_url="https://evil.test/v1"))
    provider.refresh_from_db()
    assert "The address has changed" in response.content.decode()
    assert provider.base_url == "https://api.acme.test/v1"
    pages.post(address, provider_form(base_url="https://new.test/v1", new_key="another key"))
    provider.refresh_from_db()
    assert (provider.base_url, vault.unseal(provider.api_key_sealed)) == ("https://new.test/v1", "another key")


def test_a_key_of_another_vault_is_shown_as_unreadable(pages, provider):
    ModelProvider.objects.filter(pk=provider.pk).update(api_key_sealed="gAAAAAbroken")
    assert "enter it again" in pages.get(f"{PROVIDERS}{provider.pk}/change/").content.decode()


def test_only_who_may_change_credentials_names_one_of_the_installation(staff):
    rights = ["agents_app.add_modelprovider", "agents_app.view_modelprovider"]
    named = provider_form(new_key="{{credential:BOSS}}", base_url="https://evil.test/v1", is_enabled="on")
    refused = staff(*rights).post(f"{PROVIDERS}add/", named).content.decode()
    assert "takes the right tools_app.change_credential" in refused
    assert not ModelProvider.objects.filter(name="acme").exists()
    staff(*rights, "tools_app.change_credential", name="trusted").post(f"{PROVIDERS}add/", named)
    assert ModelProvider.objects.filter(name="acme").exists()


def test_a_schema_that_cannot_be_used_is_refused_with_the_place(pages, operator, agent):
    page = pages.post(f"{AGENTS}{agent.pk}/change/", agent_form(agent, output_schema='{"type": "objekt"}'))
    assert "/type: &#x27;objekt&#x27; is not valid" in page.content.decode()
    pages.post(f"{AGENTS}{agent.pk}/change/", agent_form(agent, output_schema='{"type": "object"}', output_retries=0))
    agent.refresh_from_db()
    assert (agent.output_schema, agent.output_retries) == ({"type": "object"}, 0)


def test_prices_of_models_and_the_fallback_chain_are_set_in_the_admin(pages, provider, agent):
    rows = {"TOTAL_FORMS": 1, "0-model": "m*", "0-input_price": "0.002", "0-output_price": "0.01"}
    prices = {f"model_prices-{name}": value for name, value in rows.items()}
    assert (
        pages.post(
            f"{PROVIDERS}{provider.pk}/change/", provider_form(name=provider.name, is_enabled="on", **prices)
        ).status_code
        == 302
    )
    assert [str(price) for price in provider.model_prices.all()] == ["m*: 0.002 in, 0.01 out"]
    page = f"{AGENTS}{agent.pk}/change/"
    assert (
        "fallbacks[0]: there is no model provider"
        in pages.post(page, agent_form(agent, fallbacks="no/x")).content.decode()
    )
    chain = f"{provider.name}/m2\n{provider.name}/m/3"
    assert pages.post(page, agent_form(agent, fallbacks=chain)).status_code == 302
    agent.refresh_from_db()
    assert [entry["model"] for entry in agent.fallbacks] == ["m2", "m/3"]
    assert chain in pages.get(page).content.decode()


def test_a_draft_is_saved_edited_and_published_on_the_pages(pages, operator, agent):
    agent_versions.record_missing()
    change, history = f"{AGENTS}{agent.pk}/change/", f"{AGENTS}{agent.pk}/versions/"
    button = re.search(r'<button[^>]* name="(\w+)"[^>]*>\s*Save as draft', pages.get(change).content.decode())
    assert button
    pages.post(change, {**agent_form(agent, name="Drafted"), button[1]: ""})
    agent.refresh_from_db()
    assert agent.name != "Drafted" and 'value="Drafted"' in pages.get(f"{change}?draft=1").content.decode()
    shown = pages.get(history).content.decode()
    assert "Try the draft" in shown and "Drafted" in shown
    pages.post(history, {"action": "publish"})
    agent.refresh_from_db()
    assert (agent.name, agent.version) == ("Drafted", 2)
    pages.post(history, {"action": "roll_back", "number": "1"})
    assert Agent.objects.get(pk=agent.pk).name != "Drafted"
    page = pages.post(history, {"action": "publish"}, follow=True)
    assert "has no draft" in page.content.decode()


def test_a_saved_form_stores_a_version(pages, operator, agent):
    pages.post(f"{AGENTS}{agent.pk}/change/", agent_form(agent, name="Changed"))
    assert [version.configuration["name"] for version in agent_versions.list_versions(agent)] == ["Changed", agent.name]


def test_the_list_shows_the_model_of_each_agent(pages, agent):
    Agent.objects.update(model_id="model-of-the-list")
    row = pages.get("/admin/agents_app/agent/").content.decode()
    assert 'data-label="Model"' in row and "model-of-the-list" in row


def test_a_page_that_may_only_be_viewed_compares_no_fields(staff, pages, agent):
    page = f"{AGENTS}{agent.pk}/change/"
    viewed = staff("agents_app.view_agent", name="viewer").get(page)
    assert viewed.status_code == 200 and "all_tools == false" not in viewed.content.decode()
    assert "all_tools == false" in pages.get(page).content.decode()
