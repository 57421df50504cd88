"""`manage.py network`: checks, stores and runs networks; names the place of what is wrong."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from agents_app.models import Agent, Run, StoredNetwork
from agents_app.network_runs import library
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from tests.support.engine import EngineRig
from tests.support.rest import make_session, make_user
from tests.support.team_script import TeamScript

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

NETWORK = """name: greeting
tasks:
- name: draft
  prompt: "Greet {{ context.name }}: {{ message }}"
- name: reply
  depends_on: [draft]
"""


@pytest.fixture(autouse=True)
def _script(rig: EngineRig) -> None:
    rig.agent(Reply())
    replies = {"draft": [Reply(("Hi Ada",))], "reply": [Reply(("Hello, Ada.",))]}
    ScriptedProvider.scripts["script"] = TeamScript([Reply()], replies)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "greeting.yaml"
    path.write_text(NETWORK)
    return path


def network(*arguments: Any) -> tuple[str, str]:
    out, errors = StringIO(), StringIO()
    call_command("network", *map(str, arguments), stdout=out, stderr=errors)
    return out.getvalue(), errors.getvalue()


def run(name: Any, **options: str) -> tuple[str, str]:
    given = {"user": "alice", "context": json.dumps({"name": "Ada"}), **options}
    return network("run", name, "friendly", *(f"--{option}={value}" for option, value in given.items()))


def test_a_file_is_stored_and_the_stored_network_is_run(rig: EngineRig, file: Path) -> None:
    assert network("import", file)[0] == "greeting: version 1\n"
    file.write_text(NETWORK + "  retries: 1\n")
    assert network("import", file)[0] == "greeting: version 2\n"
    library.change(StoredNetwork.objects.get(), Agent.objects.all(), is_shared=True)
    assert run("greeting") == ("Hello, Ada.\n", "draft: succeeded\nreply: succeeded\n")
    assert ScriptedProvider.scripts["script"].requests[0].messages[-1].content == "Greet Ada: friendly"


def test_a_file_is_run_without_being_stored(rig: EngineRig, file: Path) -> None:
    assert run(file)[0] == "Hello, Ada.\n"
    assert not StoredNetwork.objects.exists()


def test_it_runs_in_a_session_of_the_user(rig: EngineRig, file: Path) -> None:
    session, other = make_session(rig.owner), make_session(make_user("ben"), key="WebChat:default:ben")
    run(file, session=session.key)
    assert Run.objects.get(parent_id=None).conversation_id == session.pk
    with pytest.raises(CommandError, match="There is no such session"):
        run(file, session=other.key)


def test_a_network_that_fails_names_the_task(rig: EngineRig, file: Path) -> None:
    with pytest.raises(CommandError, match=r"The task draft failed: .*context\.name"):
        run(file, context="{}")


def test_problems_of_a_file_have_their_places(rig: EngineRig, file: Path) -> None:
    assert network("check", file)[0] == "The network greeting has no problems.\n"
    file.write_text(NETWORK.replace("[draft]", "[nobody]") + "  tools: [fly]\n")
    for arguments in (["check", file], ["import", file], ["run", file, "hi", "--user=alice"]):
        with pytest.raises(CommandError, match=r"line 6: tasks\[1\]\.depends_on\[0\]"):
            network(*arguments)
    assert not StoredNetwork.objects.exists() and not Run.objects.exists()


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("greeting", {}, "There is no such network"),
        ("missing.yaml", {}, "missing.yaml"),
        ("greeting", {"user": "nobody"}, "--user: there is no active user 'nobody'"),
        ("greeting", {"context": "{"}, "--context is not valid JSON"),
        ("greeting", {"context": "[]"}, "--context must be a JSON object"),
    ],
)
def test_wrong_arguments_are_named(rig: EngineRig, name: str, options: dict[str, str], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        run(name, **options)
    assert not Run.objects.exists()


def test_only_networks_and_agents_that_the_user_may_use(rig: EngineRig, file: Path) -> None:
    network("import", file)
    with pytest.raises(CommandError, match="There is no such network"):
        run("greeting")
    Agent.objects.update(is_shared_with_everyone=False)
    with pytest.raises(CommandError, match=r"line 3: tasks\[0\]\.agent: there is no agent 'default'"):
        run(file)
