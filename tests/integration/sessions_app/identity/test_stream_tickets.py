"""Stream tickets: valid for one connection, one minute, and until their user changes the password."""

import pytest
from django.test import RequestFactory

from sessions_app.identity import stream_tickets
from sessions_app.identity.authentication import authenticate
from sessions_app.identity.principal import Principal
from sessions_app.identity.scopes import READ
from sessions_app.identity.stream_tickets import TicketRefused, issue_ticket, redeem_ticket
from tests.support.rest import RestCaller, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


def _request(query: str):
    return RequestFactory().get(f"/hubs/chat?{query}")


def test_a_ticket_has_the_rights_of_its_credential():
    principal = redeem_ticket(issue_ticket(Principal(make_user("bob"), "api_key", frozenset({READ}))))
    assert (principal.user.username, principal.kind, principal.can_write) == ("bob", "api_key", False)


def test_a_ticket_is_used_once():
    ticket = issue_ticket(Principal(make_user("alice"), "jwt"))
    assert authenticate(_request(f"ticket={ticket}"), from_query="ticket")
    with pytest.raises(TicketRefused):
        authenticate(_request(f"ticket={ticket}"), from_query="ticket")


def test_a_ticket_expires_after_a_minute_and_with_a_new_password(monkeypatch):
    alice = make_user("alice")
    with monkeypatch.context() as patch:
        patch.setattr(stream_tickets, "SECONDS", -1)
        late = issue_ticket(Principal(alice, "jwt"))
    void = issue_ticket(Principal(alice, "jwt"))
    alice.set_password("another-secret")
    alice.save()
    for ticket in (late, void, "st_x", f"{void}x"):
        with pytest.raises(TicketRefused):
            redeem_ticket(ticket)


def test_tickets_are_issued_over_rest():
    answer = RestCaller(make_user("alice")).post("auth/ticket", {})
    assert answer.status == 200 and answer.data["expiresInSeconds"] == 60
    assert redeem_ticket(answer.data["ticket"]).user.username == "alice"
