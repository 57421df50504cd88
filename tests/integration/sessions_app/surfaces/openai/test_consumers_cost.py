"""The cost of the OpenAI protocol: few writes for many tokens, few statements that are built anew."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents_app.events import RUN_COMPLETED, RUN_STARTED, TEXT_DELTA
from agents_app.models import Agent, Run
from audit_app import timeline
from audit_app.kernel.database import in_db
from sessions_app.identity.principal import Principal
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.openai.commands import accept
from sessions_app.surfaces.openai.endpoint import AnswerEndpoint
from sessions_app.surfaces.openai.requests import read_completion, read_response
from tests.support.built_statements import built_statements
from tests.support.rest import LiveCaller

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

BODIES = {
    "/v1/chat/completions": {"model": "default", "messages": [{"role": "user", "content": "Hi"}], "stream": True},
    "/v1/responses": {"model": "default", "input": "Hi", "stream": True},
}
TEXTS = ["One ", "two ", "three."]
# Of the request itself all are compiled; some rare ones may run beside it.
MOST_BUILT = 3


@pytest.fixture(autouse=True)
def waiting_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every viewer get all tokens and the end of the run at once, as one that was busy meanwhile."""

    async def watch(endpoint: Any, session_id: UUID, cursor: str, **how: bool) -> AsyncIterator[list[SessionEvent]]:
        run_id = (await in_db(Run.objects.latest, "id")).pk
        tokens = [SessionEvent(TEXT_DELTA.name, session_id, run_id, 0, {"text": text}, "") for text in TEXTS]
        yield [*tokens, SessionEvent(RUN_COMPLETED.name, session_id, run_id, None, {}, "")]

    monkeypatch.setattr(AnswerEndpoint, "watch", watch)


@pytest.mark.parametrize("path", BODIES)
async def test_tokens_that_wait_are_written_at_once(caller: LiveCaller, path: str) -> None:
    _, text = await caller.ask("POST", path, BODIES[path])
    pieces = [message.get("body", b"").decode() for message in caller.sent]
    [together] = [piece for piece in pieces if any(f'"{token}"' in piece for token in TEXTS)]
    assert all(f'"{token}"' in together for token in TEXTS)
    assert together.count("\n\n") >= len(TEXTS) and "".join(pieces) == text


@pytest.mark.parametrize("path", BODIES)
async def test_a_request_builds_few_statements(caller: LiveCaller, path: str) -> None:
    await caller.ask("POST", path, BODIES[path])
    with built_statements() as built:
        assert (await caller.ask("POST", path, BODIES[path]))[0] == 200
    assert len(built) <= MOST_BUILT, built


@pytest.mark.parametrize("path", BODIES)
async def test_a_request_reads_its_agent_once(default_agent: Agent, alice: User, path: str) -> None:
    body, principal = BODIES[path], Principal(alice, "jwt")

    def accept_request() -> list[str]:
        parsed = read_completion(body) if "messages" in body else read_response(body)
        with CaptureQueriesContext(connection) as captured:
            accept(principal, parsed, "")
        return [query["sql"] for query in captured if 'FROM "komand_agent"' in query["sql"]]

    assert len(await in_db(accept_request)) == 1


async def test_a_viewer_that_resumes_builds_no_statement(caller: LiveCaller) -> None:
    path = "/v1/chat/completions"
    await caller.ask("POST", path, BODIES[path])
    session_id = (await in_db(Run.objects.latest, "id")).conversation_id

    def find() -> None:
        timeline.find_last(session_id, RUN_STARTED.name, until=9)

    await in_db(find)
    with built_statements() as built:
        await in_db(find)
    assert built == []
