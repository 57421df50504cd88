"""`run_network` on channels: with the rights of the user behind the sender, else with what is shared with everyone."""

import json

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents_app.models import Agent, Run
from agents_app.network_runs import library
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from sessions_app.models import ChannelAccount, Pairing, SenderLink
from sessions_app.services import NewMessage, receive
from tests.support.engine import EngineRig
from tests.support.team_script import TeamScript
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

NETWORKS = ("private", "shared", "mixed")


def call(tool: str, **arguments: str) -> Reply:
    return Reply(tool_calls=(ToolCall(tool, tool, json.dumps(arguments)),))


def networks_run(rig: EngineRig, sender: str) -> tuple[set[str], str]:
    """Let a sender's agent start each network. Return those that ran, and what its model has read."""
    starts = tuple(ToolCall(name, "run_network", json.dumps({"name": name, "message": "Sum up"})) for name in NETWORKS)
    main = [Reply(tool_calls=starts), call("wait_workstreams"), Reply(("Done.",))]
    script = ScriptedProvider.scripts["script"] = TeamScript(main, {"only": [Reply(("short.",))]})
    accepted = receive(NewMessage("Telegram", "main", sender, "Zoë", "go"), owner=None)
    assert rig.wait(accepted.run_id).answer == "Done."
    ran = Run.objects.filter(parent_id=accepted.run_id, status="completed").values_list("workstream", flat=True)
    return {name.split("_")[1] for name in ran}, str(script.requests_of("main")[-1].messages)


@pytest.fixture
def owner(rig: EngineRig) -> User:
    """Return the user who owns a network, an agent, and a network shared with everyone that uses that agent."""
    rig.agent(Reply(), tool_profile="teams")
    Agent.objects.create(
        agent_id="own", name="Own", provider=Agent.objects.get().provider, model_id="script", owner_id=rig.owner.pk
    )
    for name, agent in zip(NETWORKS, ("own", "default", "own"), strict=True):
        definition = f"name: {name}\ntasks:\n- {{name: only, agent: {agent}}}\n"
        library.create(definition, Agent.objects.all(), owner_id=rig.owner.pk, is_shared=name != "private")
    ChannelAccount.objects.create(channel="telegram", account_id="main")
    return rig.owner


def test_a_sender_who_is_no_user_runs_what_is_shared_with_everyone(rig: EngineRig, owner: User) -> None:
    ran, read = networks_run(rig, "501")
    assert ran == {"shared"}
    assert "There is no such network. Networks that you may run: mixed, shared." in read and "'own'" in read


@pytest.mark.parametrize("how", ["paired", "linked"])
def test_a_sender_runs_what_the_user_behind_it_may_run(rig: EngineRig, owner: User, how: str) -> None:
    account, now = ChannelAccount.objects.get(), timezone.now()
    if how == "paired":
        Pairing.objects.create(account=account, sender_id="501", user=owner)
    else:
        SenderLink.objects.create(account=account, sender_id="501", user=owner, linked_at=now)
    assert networks_run(rig, "501")[0] == set(NETWORKS)
    assert networks_run(rig, "502")[0] == {"shared"}
    User.objects.update(is_active=False)
    assert networks_run(rig, "501")[0] == set()
