"""The retry policy of deliveries."""

from datetime import UTC, datetime, timedelta

import pytest

from sessions_app.channels.outbound.retry_policy import FailedTry, Verdict, decide, may_repeat
from sessions_app.platforms.base import SendCertainty
from sessions_app.platforms.messages import Capabilities
from sessions_app.platforms.signed_post import RETRIES

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CHAT = Capabilities()
HOOK = Capabilities(can_repeat=True, retries=RETRIES)


def verdict(certainty, capabilities=CHAT, *, tries=1, repeatable=False, wait=None, left=3600.0):
    failed = FailedTry(certainty, tries, NOW, NOW + timedelta(seconds=left), repeatable, wait)
    return decide(failed, capabilities, chance=1.0)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (verdict(SendCertainty.REFUSED), Verdict("failed")),
        (verdict(SendCertainty.REFUSED, repeatable=True), Verdict("failed")),
        (verdict(SendCertainty.UNKNOWN), Verdict("unknown")),
        (verdict(SendCertainty.UNKNOWN, repeatable=True), Verdict("pending", 2.0)),
        (verdict(SendCertainty.NOT_SENT), Verdict("pending", 2.0)),
        (verdict(SendCertainty.NOT_SENT, tries=3), Verdict("pending", 8.0)),
        (verdict(SendCertainty.NOT_SENT, tries=40), Verdict("pending", 60.0)),
        (verdict(SendCertainty.NOT_SENT, wait=17.0), Verdict("pending", 17.0)),
        (verdict(SendCertainty.NOT_SENT, wait=0.0), Verdict("pending", 2.0)),
        (verdict(SendCertainty.NOT_SENT, left=1.0), Verdict("expired")),
        (verdict(SendCertainty.NOT_SENT, wait=7200.0), Verdict("expired")),
        (verdict(SendCertainty.NOT_SENT, HOOK, tries=1, left=1e6), Verdict("pending", 5.0)),
        (verdict(SendCertainty.NOT_SENT, HOOK, tries=2, left=1e6), Verdict("pending", 300.0)),
        (verdict(SendCertainty.NOT_SENT, HOOK, tries=2, wait=10.0, left=1e6), Verdict("pending", 300.0)),
        (verdict(SendCertainty.NOT_SENT, HOOK, tries=9, left=1e6), Verdict("pending", 86_400.0)),
        (verdict(SendCertainty.NOT_SENT, HOOK, tries=10, left=1e6), Verdict("failed")),
    ],
)
def test_only_what_cannot_arrive_twice_goes_again(found, expected):
    assert found == expected


@pytest.mark.parametrize(
    ("capabilities", "shown_id", "filename", "may"),
    [
        (CHAT, "", "", False),
        (HOOK, "", "", True),
        (Capabilities(edit_sent=True), "7", "", True),
        (Capabilities(edit_sent=True), "7", "answer.md", False),
        (Capabilities(edit_sent=True), "", "", False),
        (CHAT, "7", "", False),
    ],
)
def test_what_may_be_sent_twice(capabilities, shown_id, filename, may):
    assert may_repeat(capabilities, shown_id=shown_id, filename=filename) is may
