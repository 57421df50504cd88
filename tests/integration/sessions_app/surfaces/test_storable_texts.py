"""Texts with NUL, which PostgreSQL does not store: refused with an explanation, or left out of a query."""

from typing import Any

import pytest
from channels.routing import URLRouter
from django.contrib.auth.models import User
from django.test import Client

from agents_app.types import RunOptions
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import InvalidInput
from sessions_app.identity.api_keys import create_api_key
from sessions_app.services import NewMessage, ReceiveOptions, receive
from sessions_app.surfaces.openai import consumers as openai
from tests.support.rest import LiveCaller, RestCaller, make_agent

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "default_agent")]

SCHEMA = {"type": "object", "title": "a\0"}


@pytest.mark.parametrize(("field", "value"), [("mcpServers", ["a\0"]), ("outputSchema", SCHEMA)])
def test_a_field_of_an_agent_is_refused(alice: User, field: str, value: Any) -> None:
    make_agent("mine", owner_id=alice.pk)
    assert RestCaller(alice).put("agents/mine", {field: value}).status == 400


def test_options_of_a_message_are_refused(alice: User) -> None:
    message, options = NewMessage("WebChat", "default", str(alice.pk), "", "hello"), RunOptions(output_schema=SCHEMA)
    with pytest.raises(InvalidInput) as refused:
        receive(message, owner=alice, options=ReceiveOptions(run=options))
    assert refused.value.code == "nul_character"


@pytest.mark.parametrize(
    ("path", "form"),
    [("/account/memories?agent=%00", None), ("/account/memories/delete-all", {"confirmed": "yes", "agent": "\0"})],
)
def test_an_id_on_the_page_of_memories_is_searched_without_it(
    alice: User, path: str, form: dict[str, str] | None
) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(alice)
    response = client.get(path) if form is None else client.post(path, form)
    assert response.status_code < 400


CALL = {"type": "function_call", "call_id": "1\0", "name": "x\0", "arguments": "{}\0"}
RESULT = {"type": "function_call_output", "call_id": "1\0", "output": "\0"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"model": "default\0"}, 200),
        ({"metadata": {"session_id": "x\0"}}, 404),
        ({"input": [CALL, RESULT, {"role": "assistant", "content": "a\0"}, {"role": "user", "content": "\0b"}]}, 200),
    ],
)
async def test_an_openai_request_is_read_without_it(alice: User, change: dict[str, Any], status: int) -> None:
    key = await in_db(lambda: create_api_key(alice, "k", scopes=["all"]).key)
    caller = LiveCaller(URLRouter(openai.routes), bearer=key)
    body = {"model": "default", "input": "Hi", "background": True, **change}
    assert (await caller.ask("POST", "/v1/responses", body))[0] == status
