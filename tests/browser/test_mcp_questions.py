"""Questions of an MCP server during a call, on the chat page of a whole installation."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage
from tests.support.live_server import LiveKomand
from tests.support.mcp import process_of


def test_a_form_outlives_the_worker_and_is_answered_once(
    chat: ChatPage, live_komand: LiveKomand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "ledger"
    monkeypatch.setenv("LEDGER", str(ledger))
    with process_of("-m", "tests.fakes.mcp.inquirer", transport="") as (url, _):
        added = live_komand.manage("mcp", "add", "shop", "--risk", "low", "--url", f"{url}/mcp")
        assert added.returncode == 0, added.stderr
        answer = chat.ask(tool="mcp__shop__order", args={})
        form = answer.locator(".input-request")
        expect(form).to_contain_text("The MCP server shop asks")  # it comes without a reload
        killed = live_komand.kill_runs()
        live_komand.wait_healthy("runs-1", other_than=killed)
        chat.page.reload()
        form.get_by_label("Medium").check()
        form.locator(".input-text").fill("3")
        form.get_by_role("button", name="Send answer").click()
        expect(form).to_contain_text("Order {'size': 'm', 'count': 3}?")
        form.get_by_role("button", name="Accept").click()
        expect(answer.locator(".call-body")).to_contain_text('accept {\\"size\\": \\"m\\", \\"count\\": 3}')
        chat.wait_finished()
        live_komand.manage("mcp", "remove", "shop")
    calls = [json.loads(line)["answers"] for line in ledger.read_text().splitlines()]
    assert calls == [[], ["form"], ["sure"]]
