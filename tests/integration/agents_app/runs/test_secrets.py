"""Secrets of a run: absent from the database, logs, streams, prompts and answers."""

import json
import logging
from base64 import b64encode
from collections.abc import Iterator
from urllib.parse import quote

import pytest
import redis
from django.apps import apps
from django.conf import settings

from agents_app.providers.kinds.scripted import Reply
from agents_app.types import RunStatus
from audit_app.models import AuditEntry
from komand.logs import TextFormatter
from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer
from tests.support.engine import EngineRig
from tests.support.rest import RestCaller
from tools_app.receipts.receipts import verify_receipt
from tools_app.secrets.credentials import share_credential, store_credential
from tools_app.skills import registry
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

SECRET = 'canary/42 "Quoted" & more'
SPELLINGS = (SECRET, json.dumps(SECRET)[1:-1], quote(SECRET, safe=""), b64encode(SECRET.encode()).decode(), "canary")


class Echo(FakeServer):
    """Gives back all it was sent, in every spelling, once as a result and once as a fault."""

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        key = request.headers["x-key"]
        received = {"headers": request.headers, "spelled": [key, quote(key, safe=""), b64encode(key.encode()).decode()]}
        status = 500 if "fail" in request.path else 200
        return status, {"content-type": "application/json"}, json.dumps(received).encode()


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """Return the complete text of the log."""
    written: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            written.append(TextFormatter().format(record))

    root, handler, level = logging.getLogger(), Keep(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield written
    root.removeHandler(handler)
    root.setLevel(level)


def everything_stored() -> str:
    rows = (row for model in apps.get_models() for row in model._default_manager.values())
    return "\n".join(json.dumps(row, default=str, ensure_ascii=False) for row in rows)


def everything_streamed(client: redis.Redis) -> str:
    keys = [key for key in client.scan_iter("*") if client.type(key) == "stream"]
    return "\n".join(str(client.xrange(key)) for key in keys)


def everything_answered(rig: EngineRig, run_id: object, executions: list[str], session: str) -> str:
    caller = RestCaller(rig.owner)
    paths = [f"runs/{run_id}", f"sessions/{session}/history", "credentials", "skills/lookup", "agents/default"]
    answers = [caller.get(path) for path in [*paths, *(f"tools/executions/{one}" for one in executions)]]
    assert all(answer.status == 200 for answer in answers)
    return repr(answers)


def test_a_secret_that_a_skill_uses_is_found_nowhere(
    rig: EngineRig, lines: list[str], valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Echo() as server:
        monkeypatch.setattr(settings, "KOMAND_SKILL_ALLOW_PRIVATE", [server.address])
        store_credential("crm", SECRET, owner_id=rig.owner.pk, hosts=["127.0.0.1"])
        share_credential("crm", ["default"], owner_id=rig.owner.pk)
        registry.register(
            {
                "skillId": "lookup",
                "name": "Lookup",
                "version": "1.0.0",
                "publisherId": "acme",
                "inputSchema": {"type": "object", "properties": {"way": {"type": "string"}}, "required": ["way"]},
                "http": {
                    "method": "GET",
                    "url": server.url + "/{{input.way}}",
                    "headers": {"X-Key": "{{credential:crm}}"},
                },
            }
        )
        registry.install("default", "lookup", owner_id=rig.owner.pk)
        calls = tuple(ToolCall(way, "skill__lookup", json.dumps({"way": way})) for way in ("good", "fail"))
        script = rig.agent(Reply(("Looking. ",), tool_calls=calls), Reply(("Done.",)), autonomy="full")
        accepted = rig.send("look it up")
        transcript = rig.wait(accepted.run_id)
    assert transcript.run.status is RunStatus.COMPLETED
    good, failed = transcript.executions
    assert "•••" in (good.output or "") and "•••" in (failed.error or "")
    assert all(verify_receipt(execution.receipt).is_valid for execution in transcript.executions)
    assert AuditEntry.objects.filter(action="CredentialAccessed").count() == 2
    ids = [str(execution.id) for execution in transcript.executions]
    places = {
        "database": everything_stored(),
        "log": "\n".join(lines),
        "streams": everything_streamed(valkey),
        "prompts": repr(script.requests),
        "answers": everything_answered(rig, accepted.run_id, ids, accepted.session_key),
    }
    for place, text in places.items():
        assert len(text) > 100, f"nothing was looked at in the {place}"
        assert not [spelling for spelling in SPELLINGS if spelling in text], place
