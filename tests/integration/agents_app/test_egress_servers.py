"""MCP servers that get data without approval: what the migration gives to the agents that there are."""

from importlib import import_module

import pytest
from django.apps import apps

from agents_app.models import Agent, ModelProvider
from agents_app.runs.run_policy import policy_of_agent

migration = import_module("agents_app.migrations.0031_egress_servers")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("autonomy", "mode", "kept"),
    [
        ("supervised", "list", ("wiki",)),
        ("readonly", "list", ("wiki",)),
        ("full", "list", ()),
        ("readonly", "none", ()),
    ],
)
def test_agents_keep_the_servers_that_they_list_unless_they_have_full_autonomy(autonomy, mode, kept):
    provider = ModelProvider.objects.create(name="demo-of-lists", kind="demo")
    given = {"autonomy": autonomy, "mcp_servers_mode": mode, "mcp_servers": ["wiki"]}
    agent = Agent.objects.create(agent_id="a", name="A", provider=provider, **given)
    assert policy_of_agent(agent).egress_servers == ()
    migration.keep_listed(apps, None)
    agent.refresh_from_db()
    assert policy_of_agent(agent).egress_servers == kept
