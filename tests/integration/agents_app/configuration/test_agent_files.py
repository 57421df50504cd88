"""Agents as YAML files: the same after a round trip, all faults at once with their lines, all or nothing."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from agents_app import services
from agents_app.configuration import agent_files, agent_versions
from agents_app.models import Agent, ModelProvider
from agents_app.yaml_documents import UnusableFile
from tests.support.rest import make_agent

pytestmark = pytest.mark.one_database

PROMPT = "Be brief.\nAnswer in French: \"oui\", 'non' # always\n"


@pytest.fixture
def agent(db: None) -> Agent:
    agent = make_agent("helper")
    services.update_agent(
        agent, system_prompt=PROMPT, always_ask=["web_fetch"], output_schema={"type": "object"}, max_tries=5
    )
    return agent


def test_an_export_reads_well_and_gives_the_same_agent(agent: Agent) -> None:
    text = agent_files.export([agent])
    assert "- id: helper\n" in text and "  provider: demo\n" in text and "    Be brief.\n" in text
    assert "max_active_seconds" not in text and "api_key" not in text
    assert [one.changes for one in agent_files.plan(text)] == [()]
    before = agent_versions.configuration_of(agent)
    [planned] = agent_files.plan(text.replace("id: helper", "id: copy"))
    assert planned.agent is None
    agent_files.apply([planned])
    copy = Agent.objects.get(agent_id="copy")
    assert agent_versions.configuration_of(copy) == before and copy.version == 1 and not copy.is_shared_with_everyone


def test_an_import_changes_what_differs_and_stores_a_version(agent: Agent) -> None:
    text = (
        agent_files.export([agent])
        .replace("max_tries: 5", "max_tries: 6")
        .replace("  always_ask:\n  - web_fetch\n", "")
    )
    planned = agent_files.plan(text)
    agent_files.apply(planned)
    agent.refresh_from_db()
    assert (agent.max_tries, agent.always_ask, agent.version) == (6, [], 3)
    assert agent_versions.get_version(agent, 3).note == "Imported from a file."


def test_all_faults_are_named_at_once_with_their_lines_and_nothing_changes(agent: Agent) -> None:
    text = """format: 1
agents:
- id: helper
  provider: nowhere
  max_tries: many
  enabled_tools: [calculator, teleport]
  enabled_skill_ids: [nothing]
  mcp_servers: [gone]
  colour: red
- id: other
  provider: demo
  denied_tools: ["((("]
  autonomy: wild
  allowed_hosts: no-list
- id: other
  provider: demo
"""
    with pytest.raises(UnusableFile) as refused:
        agent_files.plan(text)
    found = [str(problem) for problem in refused.value.problems]
    for expected in (
        "line 4: agents[0].provider: there is no model provider 'nowhere'",
        "line 5: agents[0].max_tries: ",
        "line 6: agents[0].enabled_tools: there is no tool 'teleport'",
        "line 7: agents[0].enabled_skill_ids: there is no skill 'nothing'",
        "line 8: agents[0].mcp_servers: there is no MCP server 'gone'",
        "line 9: agents[0].colour: there is no such field",
        "line 12: agents[1].denied_tools: ",
        "line 13: agents[1].autonomy: ",
        "line 14: agents[1].allowed_hosts: it must be a list of texts",
        "line 15: agents[2].id: 'other' is in the file twice",
    ):
        assert any(problem.startswith(expected) for problem in found), (expected, found)
    assert Agent.objects.count() == 1


@pytest.mark.parametrize(
    "text", ["", "[1, 2", "agents: 7", "just text", "format: 1\nagents: [7]", "&a [*a]", "a: !!python/name:os"]
)
def test_odd_files_are_refused(agent: Agent, text: str) -> None:
    with pytest.raises(UnusableFile, match="Nothing was imported"):
        agent_files.plan(text)


def test_the_command_shows_the_changes_of_a_dry_run(agent: Agent, tmp_path: Path) -> None:
    out = StringIO()
    call_command("agents", "export", "helper", stdout=out)
    file = tmp_path / "agents.yaml"
    file.write_text(out.getvalue().replace("max_tries: 5", "max_tries: 9").replace("Be brief.", "Be long."))
    shown = StringIO()
    call_command("agents", "import", str(file), "--dry-run", stdout=shown)
    assert "max_tries: 5 → 9" in shown.getvalue() and "+Be long." in shown.getvalue()
    assert Agent.objects.get(agent_id="helper").max_tries == 5
    call_command("agents", "import", str(file), stdout=shown)
    assert Agent.objects.get(agent_id="helper").max_tries == 9
    for arguments in (["export", "nobody"], ["import", str(tmp_path / "none.yaml")]):
        with pytest.raises(CommandError):
            call_command("agents", *arguments)
    ModelProvider.objects.filter(name="demo").update(is_enabled=False)
    with pytest.raises(CommandError, match="no model provider 'demo'"):
        call_command("agents", "import", str(file))


def test_the_example_of_the_documentation_can_be_imported(agent: Agent) -> None:
    example = Path(__file__).parents[4] / "docs" / "examples" / "agents.yaml"
    agent_files.apply(agent_files.plan(example.read_text()))
    created = Agent.objects.exclude(agent_id="helper")
    assert agent_files.export(list(created)) == agent_files.export([*created][::-1])
    assert created.get(agent_id="ticket-reader").autonomy == "readonly"
    assert created.get(agent_id="translator").enabled_tools == []
