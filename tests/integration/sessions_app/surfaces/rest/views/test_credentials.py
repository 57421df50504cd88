"""Credentials over REST: values are stored and never returned."""

import pytest

from tests.support.rest import RestCaller, make_user
from tests.support.rights import make_operator
from tools_app.secrets.credentials import use_credential

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

VALUE = "value-that-nobody-sees"
HOSTS = ["api.example.com"]


def test_a_credential_is_stored_listed_and_deleted(caller):
    stored = caller.put("credentials/weather", {"value": VALUE, "hosts": HOSTS})
    assert (stored.status, stored.data["name"], stored.data["lastUsedAt"]) == (200, "weather", None)
    assert caller.post("credentials", {"name": "other", "value": VALUE, "hosts": HOSTS}).status == 200
    listed = caller.get("credentials")
    assert [row["name"] for row in listed.data] == ["other", "weather"]
    assert listed.meta == {"total": 2, "page": 1, "pageSize": 50}
    assert caller.delete("credentials/other").status == 200
    assert caller.get("credentials/other").status == 404
    assert use_credential("weather", owner_id=caller.user.pk, purpose="test") == VALUE


def test_no_answer_contains_the_value(caller):
    answers = [
        caller.put("credentials/weather", {"value": VALUE, "hosts": HOSTS}),
        caller.get("credentials"),
        caller.get("credentials/weather"),
        RestCaller(make_operator("op")).get("audit"),
    ]
    assert all(answer.status == 200 for answer in answers)
    assert not any(VALUE in repr(answer) for answer in answers)


def test_credential_names_are_per_user(caller):
    caller.put("credentials/weather", {"value": VALUE, "hosts": HOSTS})
    bob = RestCaller(make_user("bob"))
    assert bob.put("credentials/weather", {"value": "bobs-own-value", "hosts": HOSTS}).status == 200
    assert bob.delete("credentials/weather").status == 200
    assert caller.get("credentials/weather").status == 200


@pytest.mark.parametrize("body", [{}, {"value": ""}, {"value": "short"}, {"value": "x" * 70_000}, {"value": None}, []])
def test_an_invalid_value_is_400(caller, body):
    answer = caller.put("credentials/weather", body)
    assert answer.status == 400
    assert caller.get("credentials").data == []
