"""Anchors are sent to a file, a system log and a webhook, by one process, and again after a failure."""

import socket
from pathlib import Path

import pytest
from django.conf import settings as django_settings

from audit_app import services
from audit_app.chain import sealer
from audit_app.chain.anchors import Sender
from audit_app.chain.hashes import Anchor, find_anchors
from audit_app.kernel import single_holder
from audit_app.kernel.database import in_db
from audit_app.kernel.signing_keys import Validity
from audit_app.models import AuditSeal
from tests.fakes.webhook_receiver import SECRET, WebhookReceiver

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch, settings, tmp_path) -> Clock:
    holder: dict[str, str] = {}
    monkeypatch.setattr(single_holder, "is_held", lambda name, token, _: holder.setdefault(name, token) == token)
    settings.DATA_DIR = tmp_path
    return Clock()


def _seal() -> Anchor:
    services.record("Tested", actor="user:1")
    sealer.seal_all()
    newest = AuditSeal.objects.order_by("-number").first()
    assert newest
    return Anchor.of(newest)


async def step(sender: Sender, clock: Clock) -> None:
    await sender.step()
    clock.seconds += 60


async def test_a_file_gets_a_line_for_each_new_seal_from_one_process(clock, settings, tmp_path: Path):
    path = tmp_path / "anchors"
    settings.KOMAND_AUDIT_ANCHOR = f"file:{path}"
    one, other = Sender(clock), Sender(clock)
    first = await in_db(_seal)
    for _ in range(2):
        await one.step()
        await step(other, clock)
    second = await in_db(_seal)
    await step(one, clock)
    assert find_anchors(path.read_text()) == [first, second]
    assert path.stat().st_mode & 0o077 == 0 and first.check() is Validity.VALID


async def test_a_failure_is_logged_and_the_anchor_sent_again(clock, settings, tmp_path: Path, caplog):
    settings.KOMAND_AUDIT_ANCHOR = f"file:{tmp_path}/missing/anchors"
    sender = Sender(clock)
    anchor = await in_db(_seal)
    await step(sender, clock)
    assert "cannot be sent" in caplog.text
    (tmp_path / "missing").mkdir()
    await step(sender, clock)
    assert find_anchors((tmp_path / "missing" / "anchors").read_text()) == [anchor]


async def test_a_system_log_gets_a_line(clock, settings):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as log:
        log.bind(("127.0.0.1", 0))
        log.settimeout(60)
        settings.KOMAND_AUDIT_ANCHOR = f"syslog:127.0.0.1:{log.getsockname()[1]}"
        anchor = await in_db(_seal)
        await step(Sender(clock), clock)
        assert find_anchors(log.recv(2000).decode()) == [anchor]


async def test_a_webhook_gets_a_signed_request(clock, settings):
    with WebhookReceiver() as receiver:
        settings.KOMAND_AUDIT_ANCHOR = f"{receiver.url}/audit"
        settings.KOMAND_AUDIT_ANCHOR_SECRET = SECRET
        anchor = await in_db(_seal)
        await step(Sender(clock), clock)
        (callback,) = receiver.callbacks
    assert callback.is_signed and callback.body["type"] == "audit.anchored"
    assert find_anchors(callback.body["data"]["anchor"]) == [anchor]


async def test_nothing_is_sent_without_a_target(clock):
    assert django_settings.KOMAND_AUDIT_ANCHOR == ""
    await in_db(_seal)
    await step(Sender(clock), clock)
