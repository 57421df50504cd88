"""The fallback chain: another model answers when the agent's own cannot, and everyone can see it."""

from typing import Any

import pytest

from agents_app import selectors, services
from agents_app.models import Agent, DailyUsage, ModelPrice, ModelProvider, Run, Step
from agents_app.providers.kinds.scripted import Reply, Script, ScriptedProvider
from agents_app.types import RunStatus, RunTranscript, Usage
from audit_app.kernel.errors import InvalidInput
from audit_app.models import AuditEntry, Event
from tests.support.engine import EngineRig
from tests.support.rest import RestCaller
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]
ECHO = ToolCall("c", "echo", '{"text": "x"}')
FAILED = Reply(("Half",), error="model_auth")
BACKUP = {"provider": "backup", "model": "second"}


@pytest.fixture
def backup(db: None) -> Script:
    provider = ModelProvider.objects.create(name="backup", kind="scripted")
    ModelPrice.objects.create(provider=provider, model="*", input_price=1, output_price=1)
    return ScriptedProvider.play("second", Reply(("From the other.",), usage=Usage(1000, 0)))


def ask(rig: EngineRig, *replies: Reply, chain: Any = (BACKUP,), **fields: Any) -> RunTranscript:
    rig.agent(*replies, fallbacks=list(chain), **fields)
    return rig.wait(rig.send().run_id)


def test_a_failed_model_is_followed_by_the_next_and_nothing_hides_it(rig: EngineRig, backup: Script) -> None:
    ended = ask(rig, FAILED)
    assert (ended.run.status, ended.answer) == (RunStatus.COMPLETED, "From the other.")
    [event] = Event.objects.filter(type="model.fallback")
    reason = "The scripted model failed."
    told = {"from": "scripted/script", "to": "backup/second", "code": "model_auth", "reason": reason}
    assert event.payload == told
    assert AuditEntry.objects.get(action="ModelFallback").details.items() >= told.items()
    [step] = Step.objects.all()
    assert (step.provider, step.model, step.cost_nanos) == ("backup", "second", 1_000_000_000)
    assert DailyUsage.objects.get().provider == "backup"
    usage = RestCaller(rig.owner).get(f"runs/{ended.run.id}").data["usage"]
    assert usage["models"] == ["second"]
    assert usage["fallback"] == {**BACKUP, "failed": "scripted/script", "reason": reason}


def test_a_run_keeps_its_fallback_and_the_next_run_tries_the_first_again(rig: EngineRig, backup: Script) -> None:
    script = rig.agent(FAILED, Reply(("Back.",)), fallbacks=[BACKUP])
    ScriptedProvider.play("second", Reply(tool_calls=(ECHO,)), Reply(("Done.",)))
    first = rig.wait(rig.send().run_id)
    assert (first.answer, len(first.steps), len(script.requests)) == ("Done.", 2, 1)
    second = rig.wait(rig.send("again").run_id)
    assert (second.answer, selectors.get_cost(second.run.id).fallback) == ("Back.", None)


def test_tries_come_first_and_an_outage_moves_down_the_chain(rig: EngineRig, backup: Script) -> None:
    third = {"provider": "scripted", "model": "third"}
    down = ScriptedProvider.play("second", Reply(error="model_unreachable"))
    ScriptedProvider.play("third", Reply(("At last.",)))
    ended = ask(rig, Reply(error="model_unreachable"), chain=(BACKUP, third), max_tries=2)
    assert (ended.answer, len(down.requests)) == ("At last.", 2)
    assert [event.payload["to"] for event in Event.objects.filter(type="model.fallback").order_by("seq")] == [
        "backup/second",
        "scripted/third",
    ]
    assert Event.objects.filter(type="run.waiting").count() == 2
    assert Run.objects.get().fallback["position"] == 2


def test_a_wait_that_is_longer_than_the_agent_waits_is_not_waited_for(rig: EngineRig, backup: Script) -> None:
    ended = ask(rig, Reply(error="model_rate_limited", retry_after_seconds=500), max_tries=5)
    assert ended.answer == "From the other."


@pytest.mark.parametrize("code", ["model_bad_request"])
def test_a_request_that_no_model_takes_is_not_tried_with_another(rig: EngineRig, backup: Script, code: str) -> None:
    ended = ask(rig, Reply(error=code))
    assert (ended.run.status, ended.run.error_code, backup.requests) == (RunStatus.FAILED, code, [])


def test_the_error_of_the_last_model_ends_the_run(rig: EngineRig, backup: Script) -> None:
    ScriptedProvider.play("second", Reply(("Text so far",), error="model_auth"))
    ended = ask(rig, FAILED)
    assert (ended.run.status, ended.run.error_code, ended.answer) == (RunStatus.FAILED, "model_auth", "Text so far")


def test_a_disabled_or_removed_provider_is_passed_over_with_a_reason(rig: EngineRig, backup: Script) -> None:
    gone, third = {"provider": "gone", "model": ""}, {"provider": "scripted", "model": "third"}
    ModelProvider.objects.filter(name="backup").update(is_enabled=False)
    ScriptedProvider.play("third", Reply(("Third.",)))
    assert ask(rig, FAILED, chain=(BACKUP, gone, third)).answer == "Third."
    reasons = [event.payload["reason"] for event in Event.objects.filter(type="model.fallback").order_by("seq")]
    assert "'backup' is disabled" in reasons[1] and "no model provider 'gone' any more" in reasons[2]


@pytest.mark.parametrize(
    ("chain", "error"),
    [
        ([{"provider": "nowhere", "model": "x"}], "fallbacks[0]: there is no model provider 'nowhere'. Known: backup"),
        ([BACKUP, BACKUP], "fallbacks[1]: backup/second is already fallbacks[0]"),
        ([BACKUP, {"provider": "scripted", "model": "script"}], "fallbacks[1]: scripted/script is already the agent's"),
    ],
)
def test_a_chain_with_an_unknown_or_repeated_model_is_refused_with_the_place(
    rig: EngineRig, backup: Script, chain: Any, error: str
) -> None:
    rig.agent()
    agent = Agent.objects.select_related("provider").get(agent_id="default")
    with pytest.raises(InvalidInput) as refused:
        services.update_agent(agent, fallbacks=chain)
    assert refused.value.message.startswith(error)
    assert Agent.objects.get(agent_id="default").fallbacks == []


def test_a_chain_is_set_over_rest(rig: EngineRig, backup: Script) -> None:
    rig.agent()
    Agent.objects.update(owner_id=rig.owner.pk)
    caller = RestCaller(rig.owner)
    assert caller("PUT", "agents/default", {"fallbacks": [{"provider": "backup"}]}).data["fallbacks"] == [
        {"provider": "backup", "model": ""}
    ]
    assert caller("PUT", "agents/default", {"fallbacks": [{"model": "x"}]}).status == 400
    refused = caller("PUT", "agents/default", {"fallbacks": [BACKUP, BACKUP]})
    assert refused.status == 400 and "fallbacks[1]: backup/second is already fallbacks[0]" in refused.error


def test_the_page_shows_which_model_answered_and_why(rig: EngineRig, backup: Script, client: Any) -> None:
    ended = ask(rig, FAILED)
    client.force_login(rig.owner)
    shown = client.get(f"/chat/{ended.run.conversation_id}").content.decode()
    assert "backup/second was called instead of scripted/script: The scripted model failed." in shown
