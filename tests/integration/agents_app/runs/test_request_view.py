"""A view of what the model sees: the same request as that of the run, in parts with their tokens."""

from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents_app.models import Agent
from agents_app.providers.kinds.scripted import Reply
from agents_app.rights import VIEW_AGENTS
from agents_app.runs.request_view import PartKind, RequestView, view_first_request, view_request
from agents_app.types import RunOptions, Usage
from audit_app.kernel.errors import NotFound
from tests.support.engine import EngineRig
from tests.support.rest import RestCaller
from tests.support.rights import grant
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

SECRET = "sk-abcdefghijklmnop1234"


def names(view: RequestView, kind: PartKind) -> list[str]:
    return [part.name for part in view.parts if part.kind is kind]


def texts(view: RequestView, kind: PartKind) -> list[str]:
    return [part.text for part in view.parts if part.kind is kind]


def test_the_view_of_a_step_is_the_request_that_was_sent(idle: EngineRig) -> None:
    calls = (ToolCall("1", "echo", '{"text": "hi"}'),)
    done = Reply(("Done.",), usage=Usage(321, 5))
    script = idle.agent(Reply(("Hello.",)), Reply(("Wait.",), tool_calls=calls), done, tool_profile="chat")
    idle.start()
    idle.wait(idle.send("first").run_id)
    run_id = idle.wait(idle.send("second", run=RunOptions(instructions="Be brief.")).run_id).run.id
    for step in (0, 1):
        sent, view = script.requests[step + 1], view_request(run_id, step)
        assert "\n\n".join(texts(view, PartKind.SYSTEM)) == sent.messages[0].content
        assert names(view, PartKind.TOOL) == [spec.name for spec in sent.tools]
        assert texts(view, PartKind.HISTORY) == ["first", "Hello."]
        assert texts(view, PartKind.MESSAGE) == ["second"]
        assert len(view.parts) == len(sent.messages) - 1 + len(sent.tools) + len(names(view, PartKind.SYSTEM))
    assert names(view, PartKind.SYSTEM) == ["agent's prompt", "rules", "citations", "instructions of the message"]
    assert [text.splitlines()[0] for text in texts(view, PartKind.STEP)][0] == "Wait."
    assert names(view, PartKind.STEP) == ["assistant", "tool"] and '{"text": "hi"}' in texts(view, PartKind.STEP)[1]
    assert view_request(run_id) == view and view.reported_tokens == 321
    assert "echo" in names(view, PartKind.TOOL) and "echo" not in view.hidden_tools  # called, so listed
    following = view_request(run_id, 2)
    assert following.reported_tokens is None and len(names(following, PartKind.STEP)) == 3
    assert view.total_tokens == sum(map(view.tokens_of, PartKind)) < view.limit_tokens
    for unknown in ((run_id, 3), (uuid4(), None)):
        with pytest.raises(NotFound):
            view_request(*unknown)


def test_the_first_request_of_an_agent_masks_secrets_and_stores_nothing(idle: EngineRig) -> None:
    idle.agent(system_prompt=f"The key is {SECRET}.", tool_profile="chat", max_context_tokens=5000)
    view = view_first_request(Agent.objects.select_related("provider").get(), f"token={SECRET}")
    assert SECRET not in str(view) and texts(view, PartKind.SYSTEM)[0] == "The key is •••."
    assert view.limit_tokens == 5000 and not names(view, PartKind.HISTORY)
    assert "write_artifact" in view.hidden_tools and "find_tools" in names(view, PartKind.TOOL)


def test_who_may_see_the_configuration_reads_it_over_rest(idle: EngineRig) -> None:
    idle.agent(Reply(("Hello.",)), tool_profile="chat")
    idle.start()
    run_id = idle.wait(idle.send("hi").run_id).run.id
    paths = "agents/default/prompt?text=hi", f"runs/{run_id}/prompt?step=0"
    for path in paths:
        assert RestCaller(idle.owner).get(path).meta["right"] == VIEW_AGENTS.permission
    idle.owner = grant(idle.owner, VIEW_AGENTS)
    shown = [RestCaller(idle.owner).get(path).data for path in paths]
    for data in shown:
        assert data["totalTokens"] == sum(part["tokens"] for part in data["parts"]) > 400
        assert data["parts"][-1] == {"kind": "message", "name": "user", "text": "hi", "tokens": 5}
    assert [part["name"] for part in shown[0]["parts"]] == [part["name"] for part in shown[1]["parts"]]
    stranger = grant(User.objects.create_user("stranger"), VIEW_AGENTS)
    assert RestCaller(stranger).get(paths[1]).status == 404
    assert RestCaller(idle.owner).get(f"runs/{run_id}/prompt?step=7").status == 404


def test_the_pages_show_the_parts(idle: EngineRig) -> None:
    idle.agent(Reply(("Hello.",)), system_prompt="Be <b>kind</b>.", tool_profile="chat")
    idle.start()
    run_id = idle.wait(idle.send("hi there").run_id).run.id
    pages = Client()
    pages.force_login(User.objects.create_superuser("op"), "django.contrib.auth.backends.ModelBackend")
    of_agent = pages.get("/admin/agents_app/agent/default/prompt/?text=Good+day").content.decode()
    assert "Be &lt;b&gt;kind&lt;/b&gt;." in of_agent and "Good day" in of_agent and "find_tools" in of_agent
    of_run = pages.get(f"/admin/agents_app/run/{run_id}/prompt/?step=0").content.decode()
    assert "hi there" in of_run and "What the model saw at step 1" in of_run
    assert (
        f"/admin/agents_app/run/{run_id}/prompt/?step=0"
        in pages.get(f"/admin/agents_app/run/{run_id}/change/").content.decode()
    )
    assert pages.get(f"/admin/agents_app/run/{run_id}/prompt/?step=9").status_code == 404
