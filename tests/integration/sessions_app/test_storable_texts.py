"""Texts with NUL, which PostgreSQL does not store: refused with an explanation, or left out of a query."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents_app.types import RunOptions
from audit_app.kernel.errors import InvalidInput
from sessions_app.services import NewMessage, ReceiveOptions, receive
from tests.support.rest import RestCaller, make_agent, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]

SCHEMA = {"type": "object", "title": "a\0"}


@pytest.fixture
def alice() -> User:
    make_agent()
    return make_user("alice")


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
