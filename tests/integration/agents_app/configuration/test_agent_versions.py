"""Versions of agents: stored with each change, compared, rolled back; drafts, which only those try who may publish."""

import pytest
from django.contrib.auth.models import User

from agents_app import services
from agents_app.configuration import agent_skills, agent_versions
from agents_app.configuration.agent_versions import DRAFT, configuration_of
from agents_app.models import Agent, AgentVersion, ModelProvider, Run
from agents_app.providers.kinds.scripted import Reply
from agents_app.types import RunOptions
from audit_app.kernel.errors import Forbidden, InvalidInput, NotFound
from audit_app.rights import MissingRight
from sessions_app.services import NewMessage, ReceiveOptions, open_draft_session, receive
from tests.support.engine import EngineRig
from tests.support.rest import RestCaller, make_agent, make_user
from tools_app.skills import registry

pytestmark = pytest.mark.one_database

GREET = {"skillId": "greet", "name": "G", "version": "1.0.0", "publisherId": "us", "instruction": {"body": "Hi"}}


@pytest.fixture
def agent(db: None) -> Agent:
    return make_agent("helper")


def test_each_change_stores_the_whole_configuration(agent: Agent) -> None:
    services.update_agent(agent, name="Helper", note="A better name.")
    services.update_agent(agent, name="Helper")
    registry.register(GREET)
    agent_skills.install_skill(agent, "greet", owner_id=None)
    newest, second, first = agent_versions.list_versions(agent)
    assert [newest.number, second.number, first.number, Agent.objects.get(pk=agent.pk).version] == [3, 2, 1, 3]
    assert (first.note, second.note) == (agent_versions.BASELINE, "A better name.")
    assert newest.configuration["enabled_skill_ids"] == ["greet"]
    assert second.configuration["provider"] == agent.provider.name


def test_every_field_is_configuration_or_named_as_something_else() -> None:
    """A new field is a part of versions by itself; this names those that are not."""
    names = {field.name for field in agent_versions.fields()}
    declared = {field.name for field in [*Agent._meta.concrete_fields, *Agent._meta.many_to_many]}
    assert declared - names == agent_versions.NOT_CONFIGURATION
    assert {"system_prompt", "provider", "autonomy", "output_schema"} <= names


def test_versions_are_compared_and_rolled_back_to(agent: Agent) -> None:
    other = ModelProvider.objects.create(name="other", kind="demo")
    old = configuration_of(agent)
    prompt = "Be brief.\n" + "Answer in French.\n" * 5
    services.update_agent(agent, provider="other", system_prompt=prompt, max_tries=5)
    changes = {change.field_name: change for change in agent_versions.compare(old, configuration_of(agent))}
    assert set(changes) == {"provider", "system_prompt", "max_tries"}
    assert (changes["max_tries"].before, changes["max_tries"].after, changes["max_tries"].diff) == (2, 5, "")
    assert "+Be brief." in changes["system_prompt"].diff
    services.roll_back(agent, agent_versions.get_version(agent, 1))
    agent.refresh_from_db()
    assert configuration_of(agent) == old and agent.version == 3 and agent.provider != other
    assert agent_versions.get_version(agent, 3).note == "Rolled back to version 1."


def test_a_rollback_to_what_no_longer_exists_changes_nothing(agent: Agent) -> None:
    other = ModelProvider.objects.create(name="other", kind="demo")
    services.update_agent(agent, provider="other")
    services.update_agent(agent, provider="demo", name="Changed")
    other.delete()
    with pytest.raises(InvalidInput, match="no model provider 'other'"):
        services.roll_back(agent, agent_versions.get_version(agent, 2))
    assert Agent.objects.get(pk=agent.pk).name == "Changed"
    with pytest.raises(NotFound, match="no version 9"):
        agent_versions.get_version(agent, 9)


def test_a_draft_begins_as_the_agent_is_and_changes_no_run(agent: Agent) -> None:
    services.save_draft(agent, {"name": "New name"})
    services.save_draft(agent, {"max_tries": 7})
    draft = agent_versions.get_version(agent, DRAFT)
    assert (draft.configuration["name"], draft.configuration["max_tries"]) == ("New name", 7)
    assert Agent.objects.get(pk=agent.pk).name != "New name"
    services.publish_draft(agent, draft)
    assert Agent.objects.get(pk=agent.pk).name == "New name" and agent_versions.find_draft(agent) is None
    services.save_draft(agent, {"name": "Another"})
    agent_versions.discard_draft(agent)
    assert not AgentVersion.objects.filter(number=DRAFT).exists()
    with pytest.raises(NotFound, match="no draft"):
        agent_versions.get_version(agent, DRAFT)
    with pytest.raises(InvalidInput, match="is not part of a draft"):
        services.save_draft(agent, {"sharing": None})
    with pytest.raises(InvalidInput, match="no model provider"):
        services.save_draft(agent, {"provider": "none"})


def test_what_is_published_is_the_draft_that_was_checked(agent: Agent) -> None:
    services.save_draft(agent, {"name": "Checked"})
    checked = agent_versions.get_version(agent, DRAFT)
    services.save_draft(agent, {"autonomy": "full"})
    services.publish_draft(agent, checked)
    published = Agent.objects.get(pk=agent.pk)
    assert (published.name, published.autonomy) == ("Checked", "supervised")
    assert agent_versions.get_version(agent, DRAFT).configuration["autonomy"] == "full"


def test_no_agent_has_the_id_of_another_address(agent: Agent) -> None:
    with pytest.raises(InvalidInput, match="'import' is reserved"):
        services.create_agent(agent_id="import", name="Import")


def test_a_first_start_stores_the_first_version(agent: Agent) -> None:
    agent_versions.record_missing()
    agent_versions.record_missing()
    assert [version.number for version in agent_versions.list_versions(agent)] == [1]


@pytest.mark.django_db(transaction=True)
def test_runs_use_the_published_version_unless_they_try_another(rig: EngineRig) -> None:
    script = rig.agent(Reply(("Hi.",)), system_prompt="Be brief.")
    agent = Agent.objects.get()
    Agent.objects.update(owner_id=rig.owner.pk)
    agent.refresh_from_db()
    services.update_agent(agent, system_prompt="Be kind.")
    services.save_draft(agent, {"system_prompt": "Be a poet.", "output_schema": {"type": "array"}, "output_retries": 0})
    session = open_draft_session(owner=rig.owner, agent_id="default", thread_id="t1")
    assert open_draft_session(owner=rig.owner, agent_id="default", thread_id="t1").pk == session.pk
    plain, old = rig.send(), rig.send(run=RunOptions(agent_version=1))
    tried = receive(NewMessage.into(session, "Hi"), owner=rig.owner, session=session)
    for accepted, version, prompt in ((plain, 2, "Be kind."), (old, 1, "Be brief."), (tried, 0, "Be a poet.")):
        ended = rig.wait(accepted.run_id)
        assert ended.run.agent_version == version
        assert any(request.messages[0].content.startswith(prompt) for request in script.requests)
    assert ended.run.error_code == "invalid_output" and ended.is_structured
    services.publish_draft(agent, agent_versions.get_version(agent, DRAFT))
    assert (
        rig.wait(receive(NewMessage.into(session, "Hi"), owner=rig.owner, session=session).run_id).run.agent_version
        == 3
    )


def test_a_version_takes_the_rights_of_publishing_it(agent: Agent) -> None:
    alice, bob = make_user("alice"), make_user("bob")
    Agent.objects.filter(pk=agent.pk).update(owner_id=alice.pk, is_shared_with_everyone=True, autonomy="supervised")
    agent.refresh_from_db()
    agent_versions.save_draft(agent, {"autonomy": "full"})
    agent_versions.record_version(agent)
    with pytest.raises(MissingRight):
        _choose(alice, agent, DRAFT)
    with pytest.raises(Forbidden, match="may choose a version"):
        _choose(bob, agent, 1)
    assert _choose(alice, agent, 1)
    with pytest.raises(NotFound):
        _choose(alice, agent, 5)


def test_rest_shows_and_restores_versions(agent: Agent) -> None:
    alice, bob = make_user("alice"), make_user("bob")
    Agent.objects.filter(pk=agent.pk).update(owner_id=alice.pk, is_shared_with_everyone=True)
    caller = RestCaller(alice)
    assert caller.put("agents/helper", {"name": "Second"}).data["version"] == 2
    assert [version["number"] for version in caller.get("agents/helper/versions").data] == [2, 1]
    found = caller.get("agents/helper/versions/1").data
    assert found["configuration"]["provider"] == "demo"
    [change] = caller.get("agents/helper/versions/1/diff").data
    assert (change["field"], change["after"]) == ("name", "Second")
    assert caller.put("agents/helper/draft", {"name": "Third", "modelProvider": "demo"}).data["number"] == 0
    assert [change["after"] for change in caller.get("agents/helper/versions/2/diff?to=0").data] == ["Third"]
    assert caller.post("agents/helper/draft/publish").data["name"] == "Third"
    assert caller.get("agents/helper/draft").status == 404
    assert caller.post("agents/helper/versions/1/rollback").data["name"] == found["configuration"]["name"]
    assert caller.put("agents/helper/draft", {"autonomy": "full"}).status == 403
    for answer in (RestCaller(bob).get("agents/helper/versions"), RestCaller(bob).put("agents/helper/draft", {})):
        assert answer.status == 403
    assert caller.get("agents/helper/versions/8").status == 404


def _choose(user: User, agent: Agent, number: int) -> Run:
    message = NewMessage("WebChat", "default", user.username, user.username, "Hi")
    options = ReceiveOptions(run=RunOptions(agent_version=number))
    return Run.objects.get(pk=receive(message, owner=user, agent_id=agent.agent_id, options=options).run_id)
