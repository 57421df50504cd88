"""Senders whom nobody knows, on accounts that are open to everyone: tools, budgets and warnings."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel.errors import InvalidInput
from audit_app.models import AuditEntry
from komand import doctor
from sessions_app.approvals import prompt_text
from sessions_app.channels import accounts, open_access
from sessions_app.models import ChannelAccount, InboundMessage, SenderDay
from tests.fakes.telegram import TOKEN, FakeTelegram, press_update, private_update
from tests.support.approvals import Launch, asked, wants_to_launch
from tests.support.channels import add_telegram, all_settled, settle, telegram
from tests.support.engine import EngineRig, until
from tools_app.models import ToolExecution
from tools_app.registry import tools
from tools_app.types import Decision, ExecutionStatus, ToolCall

UNKNOWN = 501


@pytest.fixture
def platform() -> Iterator[FakeTelegram]:
    with FakeTelegram() as server:
        yield server


def last_row() -> ChannelAccount:
    return ChannelAccount.objects.get()


def make_legacy(account: ChannelAccount) -> None:
    """Give the account what one that was opened in an older release has: no list of tools and no budget."""
    ChannelAccount.objects.filter(pk=account.pk).update(access="open", tools=None, messages_per_day=None)


def test_an_account_is_not_opened_without_a_list_of_tools(db: None) -> None:
    with pytest.raises(InvalidInput, match="needs a list of its tools"):
        accounts.add_account("telegram", "main", config={}, secrets={"bot_token": TOKEN}, access="open")
    account, _ = accounts.add_account("telegram", "main", config={}, secrets={"bot_token": TOKEN})
    with pytest.raises(InvalidInput, match="needs a list of its tools"):
        accounts.change_account(account, access="open")
    assert last_row().access == "paired"
    accounts.change_account(account, access="open", tools=[])
    assert (last_row().access, last_row().tools) == ("open", [])


@pytest.mark.parametrize("listed", [None, [], ["calculator"]], ids=["older release", "none", "another tool"])
def test_a_run_for_an_unknown_sender_has_no_tool_that_is_not_listed(
    rig: EngineRig, platform: FakeTelegram, listed: list[str] | None
) -> None:
    """M8: unknown senders had every tool of the default agent, `web_fetch` and MCP servers among them."""
    account = add_telegram(platform, tools=listed or [])
    if listed is None:
        make_legacy(account)
    rig.agent(Reply(tool_calls=(ToolCall("c1", "echo", '{"text": "out"}'),)), Reply(("done",)), autonomy="full")
    assert telegram(private_update(1, "do it", user=UNKNOWN)) == 200
    settle(rig, 1)
    execution = ToolExecution.objects.get()
    assert (execution.status, execution.attempts, execution.output) == (ExecutionStatus.FAILED, 0, None)
    assert "not among" in (execution.error or "")


def test_a_listed_tool_works(rig: EngineRig, platform: FakeTelegram) -> None:
    add_telegram(platform, tools=["echo"])
    rig.agent(Reply(tool_calls=(ToolCall("c1", "echo", '{"text": "out"}'),)), Reply(("done",)))
    telegram(private_update(1, "do it", user=UNKNOWN))
    settle(rig, 1)
    assert ToolExecution.objects.get().status == ExecutionStatus.COMPLETED


@pytest.mark.parametrize("config", [{}, {"approvers": [str(UNKNOWN)]}], ids=["owner", "listed"])
def test_a_sender_without_a_user_never_decides(
    rig: EngineRig, platform: FakeTelegram, settings: Any, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any]
) -> None:
    """H4: with KOMAND_APPROVERS=owners an unknown sender approved his own call of high risk."""
    settings.KOMAND_APPROVERS = "owners"
    monkeypatch.setattr(Launch, "launched", [])
    with tools.override(Launch()):
        add_telegram(platform, config={"drafts": False, **config}, tools=["launch"])
        wants_to_launch(rig)
        telegram(private_update(1, "launch it", user=UNKNOWN))
        approval = asked()
        until(lambda: platform.chat(UNKNOWN) and all_settled())
        assert not platform.buttons(UNKNOWN)
        for number, command in enumerate(("/approve", "/approve run", "/approve always", "/deny"), 2):
            telegram(private_update(number, command, user=UNKNOWN))
        stolen = prompt_text.action_id(approval.pk, Decision.ALLOW_ONCE)
        telegram(press_update(9, stolen, user=UNKNOWN))
        approval.refresh_from_db()
        assert (approval.status, approval.decision) == ("pending", "")
        assert Launch.launched == []
        assert AuditEntry.objects.filter(action="RightRefused").count() == 5


def test_a_sender_has_a_budget_for_each_day(rig: EngineRig, platform: FakeTelegram, settings: Any) -> None:
    settings.KOMAND_OPEN_MESSAGES_PER_DAY = 2
    add_telegram(platform, messages_per_day=None)
    rig.agent(*(Reply((f"answer {number}",)) for number in range(4)))
    for number in range(5):
        assert telegram(private_update(number, f"message {number}", user=UNKNOWN)) == 200
    assert telegram(private_update(9, "from another", user=502)) == 200
    settle(rig, 4)
    assert Run.objects.count() == 3
    refused = InboundMessage.objects.filter(reason="sender_budget_used_up")
    assert set(refused.values_list("sender_id", flat=True)) == {str(UNKNOWN)}
    assert refused.count() == 3
    notices = [text for text in platform.chat(UNKNOWN) if "2 messages today" in text]
    assert len(notices) == 1, "the notice is sent once a day"

    SenderDay.objects.update(day="2001-01-01")
    telegram(private_update(10, "the next day", user=UNKNOWN))
    settle(rig, 5)
    assert Run.objects.count() == 4


def test_a_message_that_arrives_twice_counts_once(rig: EngineRig, platform: FakeTelegram) -> None:
    add_telegram(platform, messages_per_day=5)
    rig.agent(Reply(("answer",)))
    for _ in range(3):
        telegram(private_update(1, "hello", user=UNKNOWN))
    settle(rig, 1)
    row = SenderDay.objects.get()
    assert (row.messages, row.day) == (1, datetime.now(UTC).date())


def test_accounts_without_a_budget_count_nothing(
    db: None, django_assert_num_queries: Any, platform: FakeTelegram
) -> None:
    account = add_telegram(platform, access="paired", messages_per_day=None, tools=None)
    with django_assert_num_queries(0):
        open_access.charge(account, str(UNKNOWN))
    assert account.allowed_tools() is None


def test_a_budget_of_none_refuses_the_first_message(db: None, platform: FakeTelegram) -> None:
    account = add_telegram(platform, messages_per_day=0)
    with pytest.raises(open_access.SenderBudgetUsedUp):
        open_access.charge(account, str(UNKNOWN))


def test_what_an_open_account_exposes_is_shown_by_the_command_and_doctor(
    db: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """H4: the command, the start and doctor were silent."""
    secrets = tmp_path / "secrets.json"
    secrets.write_text('{"bot_token": "' + TOKEN + '"}')
    add = ("channel", "add", "telegram", "main", "--secrets", str(secrets), "--access", "open")
    with pytest.raises(CommandError, match="needs a list of its tools"):
        call_command(*add)
    call_command(*add, "--tools", "write_artifact,no_such_tool")
    shown = capsys.readouterr().out
    assert "no_such_tool" in shown
    call_command("channel", "list")
    assert "warning: " in capsys.readouterr().out
    findings = [finding for finding in doctor.examine() if finding.name == "channel telegram/main"]
    assert [finding.ok for finding in findings]
    assert not any(finding.ok for finding in findings)

    call_command("channel", "add", "telegram", "main", "--tools", "none")
    assert not list(open_access.list_dangers())
    make_legacy(last_row())
    assert ["has no list of tools" in danger for _, danger in open_access.list_dangers()] == [True]


def test_concurrent_messages_stay_within_the_budget(db: None, platform: FakeTelegram) -> None:
    """Count in one statement: two messages that read the count before either writes it would both pass."""
    account = add_telegram(platform, messages_per_day=3)
    with connection.execute_wrapper(_refuse_reads):
        for _ in range(3):
            open_access.charge(account, str(UNKNOWN))
        with pytest.raises(open_access.SenderBudgetUsedUp):
            open_access.charge(account, str(UNKNOWN))


def _refuse_reads(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    assert not sql.lstrip().upper().startswith("SELECT")
    return execute(sql, params, many, context)
