"""The size of the default agent's first request, and tools that a run finds by a search."""

import json
from typing import Any

import pytest
from django.db.models.functions import Now

from agents_app.models import Agent, Run
from agents_app.prompt import tokens
from agents_app.prompt.offered_tools import tokens_of
from agents_app.providers.kinds.scripted import Reply
from agents_app.runs import lease
from agents_app.runs.model_call import build_request
from agents_app.types import ModelRequest, RunOptions
from audit_app.kernel.ids import new_id
from komand import seed
from tests.support.engine import EngineRig
from tools_app import run_tools
from tools_app.policy.scope import Scope, ScopeMode
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.fixture(autouse=True)
def _seeded(transactional_db: None) -> None:
    seed.seed()


def names(request: ModelRequest) -> list[str]:
    return [spec.name for spec in request.tools]


def search(query: str) -> Reply:
    return Reply(tool_calls=(ToolCall("1", "find_tools", json.dumps({"query": query})),))


def test_hello_to_the_default_agent_takes_800_tokens(idle: EngineRig) -> None:
    """Count by `tokens`. Tokenizers count less in JSON: see docs/performance.md."""
    script = idle.agent(Reply(("Hello.",)))
    idle.start()
    idle.wait(idle.send("hello").run_id)
    (request,) = script.requests
    assert {"web_fetch", "memory_store", "find_tools"} < {*names(request)}
    for family in ("o200k", "cl100k", "general"):
        size = tokens.count_messages(request.messages, family)
        assert size + sum(tokens_of(spec, family) for spec in request.tools) <= 800


def test_a_run_finds_a_tool_and_calls_it(idle: EngineRig) -> None:
    writing = ToolCall("2", "write_artifact", '{"path": "out/a.txt", "content": "x"}')
    script = idle.agent(search("write a file"), Reply(tool_calls=(writing,)), Reply(("Done.",)), Reply(("Again.",)))
    idle.start()
    transcript = idle.wait(idle.send("Write a file.").run_id)
    found, written = transcript.executions
    assert found.output and json.loads(found.output)["tools"][0]["name"] == "write_artifact"
    assert written.output and "out/a.txt" in written.output
    first, second, third = map(names, script.requests)
    assert "write_artifact" not in first and second[: len(first)] == first and "write_artifact" in second
    assert third == second
    idle.wait(idle.send("And again.").run_id)  # what the conversation has called stays listed
    assert names(script.requests[3]) == [*first, "write_artifact"]


def test_the_next_claim_lists_what_was_found_before_a_crash(idle: EngineRig) -> None:
    idle.agent(search("echo"), Reply(("Done.",)))
    idle.start()
    run_id = idle.wait(idle.send().run_id).run.id
    Run.objects.filter(pk=run_id).update(status="queued", ended_at=None, ready_at=Now())
    claim = lease.claim(new_id(), run_id)
    assert claim and names(build_request(claim, claim.snapshot, may_call_tools=True))[-1] == "echo"


def test_a_search_finds_nothing_that_the_policy_denies(idle: EngineRig) -> None:
    idle.agent(denied_tools=["write_artifact"])
    hidden = [spec.name for spec in run_tools.list_hidden(idle.send().run_id)]
    assert "echo" in hidden and "write_artifact" not in hidden and "web_fetch" not in hidden
    narrow = RunOptions(tools=Scope(ScopeMode.LIST, ("echo", "write_artifact")))
    assert not run_tools.list_hidden(idle.send(run=narrow).run_id)


def test_new_agents_list_all_tools(idle: EngineRig, settings: Any) -> None:
    idle.agent(tool_profile="all")
    run_id = idle.send().run_id
    assert Agent().tool_profile == "all" and not run_tools.list_hidden(run_id)
    settings.KOMAND_TOOL_TOKENS = 0
    assert "echo" in [spec.name for spec in run_tools.list_hidden(run_id)]
