"""A high-risk tool call through every process: approval, receipt, and forgeries that fail."""

import pytest

from tests.support.live_server import LiveKomand

pytestmark = pytest.mark.one_database


def test_a_call_waits_for_approval_its_receipt_verifies_and_a_forgery_fails(live_komand: LiveKomand) -> None:
    shown = live_komand.run("-m", "tests.support.trust_demo", "--approve")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "risk high" in shown.stdout and "All of it holds." in shown.stdout
    assert shown.stdout.count("does not: ") == 3
    verified = live_komand.manage("verify_receipts")
    assert verified.returncode == 0 and "0 bad" in verified.stdout
