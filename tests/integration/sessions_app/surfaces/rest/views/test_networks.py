"""Networks over REST: checked, stored in versions, changed and deleted by those who may."""

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User

from agents_app.models import Agent, Run, StoredNetwork
from audit_app.models import AuditEntry
from tests.support.rest import RestCaller, make_agent, make_run, make_session, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

NETWORK = "name: support\ndescription: Answers.\ntasks:\n- name: triage\n- name: reply\n  depends_on: [triage]\n"


@pytest.fixture
def ann(db: None) -> User:
    make_agent()
    user = make_user("ann")
    user.user_permissions.add(Permission.objects.get(codename="add_storednetwork"))
    return User.objects.get(pk=user.pk)


@pytest.fixture
def call(ann: User) -> RestCaller:
    return RestCaller(ann)


def create(call: RestCaller, definition: str = NETWORK, **more: Any) -> Any:
    return call.post("networks", {"definition": definition, **more})


def test_a_network_is_stored_and_read(call: RestCaller) -> None:
    made = create(call)
    assert made.status == 200
    found = call.get("networks/support").data
    assert (found["version"], found["definition"], found["description"]) == (1, NETWORK, "Answers.")
    assert found["mermaid"].startswith("flowchart TD") and "t0 --> t1" in found["mermaid"]
    assert [row["name"] for row in call.get("networks").data] == ["support"]
    assert AuditEntry.objects.filter(action="NetworkCreated").exists()


def test_a_change_is_a_new_version(call: RestCaller) -> None:
    create(call)
    text = NETWORK + "  retries: 2\n"
    assert call.put("networks/support", {"definition": text}).data["version"] == 2
    assert call.put("networks/support", {"definition": text}).data["version"] == 2, "the same again is no new version"
    versions = call.get("networks/support").data["versions"]
    assert [(one["number"], one["definition"]) for one in versions] == [(2, text), (1, NETWORK)]


def test_a_network_is_deleted(call: RestCaller) -> None:
    create(call)
    assert call.delete("networks/support").status == 200
    assert call.get("networks/support").meta["code"] == "unknown_network"


def test_a_name_is_taken_once_and_fixed(call: RestCaller) -> None:
    create(call)
    assert create(call).meta["code"] == "network_exists"
    renamed = call.put("networks/support", {"definition": NETWORK.replace("support", "other")})
    assert renamed.meta["code"] == "network_name_fixed"
    assert create(call, NETWORK.replace("support", "check")).status == 400


def test_a_check_names_all_problems_and_stores_nothing(call: RestCaller) -> None:
    text = "name: a\ntasks:\n- name: b\n  agent: nobody\n- name: c\n  tools: [fly]\n"
    answer = call.post("networks/check", {"definition": text})
    places = [(one["line"], one["place"]) for one in answer.data["problems"]]
    assert places == [(4, "tasks[0].agent"), (6, "tasks[1].tools")]
    assert answer.data["problems"][0]["message"] == "there is no agent 'nobody'"
    assert create(call, text).status == 400 and not StoredNetwork.objects.exists()
    assert call.post("networks/check", {"definition": NETWORK}).data["mermaid"]


def test_an_agent_of_others_cannot_be_used(call: RestCaller) -> None:
    make_agent("secret", is_shared_with_everyone=False)
    refused = create(call, "name: a\ntasks:\n- name: b\n  agent: secret\n")
    assert refused.status == 400 and "line 4: tasks[0].agent: there is no agent 'secret'" in refused.error
    create(call)
    changed = call.put("networks/support", {"definition": NETWORK + "  agent: secret\n"})
    assert changed.status == 400


def test_others_see_what_is_shared_and_change_nothing(call: RestCaller) -> None:
    ben = RestCaller(make_user("ben"))
    create(call)
    assert ben.get("networks/support").status == ben.put("networks/support", {}).status == 404
    assert ben.get("networks").data == [] and create(ben).meta["code"] == "missing_right"
    call.put("networks/support", {"isSharedWithEveryone": True})
    assert ben.get("networks/support").status == 200
    assert (
        ben.put("networks/support", {}).meta["code"] == ben.delete("networks/support").meta["code"] == "missing_right"
    )


def test_a_run_starts_with_the_definition_of_its_time(call: RestCaller, ann: User) -> None:
    create(call)
    started = call.post("networks/support/run", {"message": "Help", "context": {"language": "en"}})
    assert started.status == 202
    run = Run.objects.get(pk=started.data["runId"])
    assert run.options["network"] == {
        "name": "support",
        "version": 1,
        "definition": NETWORK,
        "context": {"language": "en"},
    }
    assert run.actor == f"user:{ann.pk}"
    shown = call.get(f"networks/runs/{run.pk}").data
    assert (shown["network"], shown["version"], shown["status"]) == ("support", 1, "queued")
    assert [(task["name"], task["status"]) for task in shown["tasks"]] == [("triage", "waiting"), ("reply", "waiting")]
    assert "class t0 waiting" in shown["mermaid"] and shown["attempts"] == []


def test_a_run_is_started_once_under_its_key(call: RestCaller) -> None:
    create(call)
    ids = {call.post("networks/support/run", {"message": "Help"}, Idempotency_Key="k").data["runId"] for _ in range(2)}
    assert len(ids) == 1


def test_a_network_runs_in_a_session_of_the_caller(call: RestCaller, ann: User) -> None:
    create(call)
    own, other = make_session(ann), make_session(make_user("ben"), key="WebChat:default:other")
    assert call.post("networks/support/run", {"message": "Help", "sessionId": own.key}).data["sessionId"] == own.key
    assert call.post("networks/support/run", {"message": "Help", "sessionId": other.key}).status == 404


def test_only_those_who_may_use_all_agents_run_a_network(call: RestCaller) -> None:
    create(call, isSharedWithEveryone=True)
    Agent.objects.update(is_shared_with_everyone=False)
    refused = RestCaller(make_user("ben")).post("networks/support/run", {"message": "Help"})
    assert refused.status == 400 and "there is no agent 'default'" in refused.error
    assert not Run.objects.exists()


def test_a_run_without_a_network_is_none(call: RestCaller, ann: User) -> None:
    run = make_run(make_session(ann))
    assert call.get(f"networks/runs/{run.pk}").meta["code"] == "not_a_network"
