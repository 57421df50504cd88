"""The last message of an agent run, its end by a client, and repeated starts."""

from typing import Any

import pytest

from sessions_app.models import Turn
from sessions_app.surfaces.agent_messages import run_files
from sessions_app.surfaces.agent_messages.wire_format import AgentMessageType
from tests.support.agents import AgentCaller

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "default_agent"), pytest.mark.one_database]


@pytest.mark.parametrize("at_work", [True, False])
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("completed", AgentMessageType.COMPLETE),
        ("failed", AgentMessageType.COMPLETE),
        ("cancelled", AgentMessageType.TERMINATED),
    ],
)
def test_the_last_message_of_an_ended_run_is_the_one_that_closes_it(
    caller: AgentCaller, status: str, kind: AgentMessageType, at_work: bool
) -> None:
    more: dict[str, Any] = {} if at_work else {"data": {}}
    run = caller.start("go", **more)
    assert run["activity_state"] == ("working" if at_work else "idle")
    ended = caller("POST", f"agents/{run['id']}/status", {"status": status}).data
    assert (ended["status"], ended["activity_state"]) == (status, "idle")
    kinds = [message["t"] for message in caller.messages(run["id"])]
    assert kinds[-1] == kind and kinds.count(kind) == 1


def test_a_key_is_good_for_one_request(caller: AgentCaller) -> None:
    body = {"interaction": "default", "data": {"task": "go"}, "interactive": True}
    first = caller("POST", "agents", body, Idempotency_Key="k")
    assert caller("POST", "agents", dict(reversed(body.items())), Idempotency_Key="k").data["id"] == first.data["id"]
    other = caller("POST", "agents", {**body, "data": {"task": "stay"}}, Idempotency_Key="k")
    assert (other.status, other.data["code"]) == (422, "idempotency_mismatch")


@pytest.mark.parametrize("signal", ["FileBatchClosed", "UserInput"])
def test_the_notice_of_files_is_stored_with_the_message_or_neither_is(
    caller: AgentCaller, monkeypatch: pytest.MonkeyPatch, signal: str
) -> None:
    """Otherwise it could follow the message that ends the turn, and clients would show the agent as busy."""
    run = caller.start("", data={})["id"]
    caller("PUT", caller("PUT", f"agents/{run}/artifacts/files/a.txt").data["url"], b"x", Content_Type="text/plain")
    file = {"id": "f1", "name": "a.txt", "artifact_path": "files/a.txt"}
    assert caller("POST", f"agents/{run}/signal/FileUploaded", file).data["message"] == "The file is ready."
    body = {"batch_id": "b1", "file_ids": ["f1"]} if signal == "FileBatchClosed" else {"message": "look"}
    with monkeypatch.context() as patch:
        patch.setattr(run_files, "_store", lambda *_: 1 / 0)
        assert caller("POST", f"agents/{run}/signal/{signal}", body).status == 500
    assert not Turn.objects.exists()
    assert caller("POST", f"agents/{run}/signal/{signal}", body).data["status"] == "success"
    last = caller.messages(run)[-1]
    assert Turn.objects.count() == 1 and "consumed_at" in last["d"]["files"][0]
