"""The restrictions of a session, changed from two sides."""

import pytest

from sessions_app import services
from sessions_app.models import Session
from tests.support.rest import make_agent, make_session, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


def test_a_change_keeps_what_another_one_has_stored_since_the_session_was_read() -> None:
    make_agent()
    session = make_session(make_user("ada"))
    other = Session.objects.get(pk=session.pk)
    services.limit_session(other, is_readonly=True, denied=["echo"])
    services.supervise_session(session, is_supervised=True)
    services.limit_session(other, is_readonly=True, denied=[])
    stored = Session.objects.get(pk=session.pk).policy
    assert stored == {"readonly": True, "deniedTools": [], "supervised": True} == session.policy | {"deniedTools": []}
