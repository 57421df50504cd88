"""Approvals and receipts from end to end: a call is approved on the page, made and proved; a forgery fails."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from playwright.sync_api import expect

from tests.browser.chat_page import SOON
from tests.browser.conftest import NewTab
from tests.support.live_server import ROOT, LiveKomand

FORGE = "from tools_app.models import ToolExecution as T; T.objects.filter(pk='{}').update(output='{}')"


@pytest.fixture
def api(live_komand: LiveKomand) -> Iterator[httpx2.Client]:
    """Return a REST client of the admin."""
    with httpx2.Client(base_url=f"{live_komand.url}/api", timeout=60) as client:
        who = {"email": "admin@localhost", "password": live_komand.password}
        token = client.post("/auth/login", json=who).json()["data"]["token"]
        client.headers["Authorization"] = f"Bearer {token}"
        yield client


def verdict_of(api: httpx2.Client, receipt: str) -> Any:
    return api.post("/tools/receipts/verify", json={"receipt": receipt}).json()["data"]


def test_a_high_risk_call_is_approved_on_the_page_and_proved(
    live_komand: LiveKomand, new_tab: NewTab, api: httpx2.Client
) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-u", "-m", "tests.support.trust_demo"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**live_komand.environment, "KOMAND_DATA_DIR": str(live_komand.data_dir)},
    )
    try:
        assert demo.stdout is not None
        assert "risk high" in demo.stdout.readline()
        address = re.search(r"/chat/[0-9a-f-]{36}", demo.stdout.readline())
        assert address
        chat = new_tab().open(address[0])
        request = chat.page.locator(".approval[data-pending]")
        expect(request).to_contain_text("high", timeout=SOON)
        request.get_by_role("button", name="Allow once").click()
        chat.wait_finished()
        expect(chat.answers.last).to_contain_text("Read, with your leave")
        shown, _ = demo.communicate(timeout=90)
    finally:
        demo.kill()
        demo.wait()
    assert demo.returncode == 0 and shown.count("does not: ") == 3 and "All of it holds." in shown

    [approval] = [row for row in api.get("/approvals?status=approved").json()["data"] if row["agentId"] == "demo-trust"]
    execution = api.get(f"/tools/executions/{approval['executionId']}").json()["data"]
    genuine = verdict_of(api, execution["receipt"])
    assert (genuine["valid"], genuine["executionId"]) == (True, approval["executionId"])
    flipped = execution["receipt"][:-2] + ("AA" if execution["receipt"][-2:] != "AA" else "BB")
    assert not verdict_of(api, flipped)["valid"]
    live_komand.manage("shell", "-c", FORGE.format(approval["executionId"], '"Launch at once."'))
    assert not verdict_of(api, execution["receipt"])["valid"]
    assert "1 bad" in live_komand.manage("verify_receipts").stdout
    live_komand.manage("shell", "-c", FORGE.format(approval["executionId"], execution["output"]))
