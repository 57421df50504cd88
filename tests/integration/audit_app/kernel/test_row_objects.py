"""Objects of compiled queries are those that Django makes of the same rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import Model
from django.db.models.signals import post_init
from django.test.utils import isolate_apps

from agents_app.models import Agent, ModelProvider
from audit_app.kernel.compiled_queries import CompiledObjects
from audit_app.kernel.row_objects import _is_plain
from sessions_app.models import ApiKey, Session
from tests.support.rest import make_session, make_user

pytestmark = pytest.mark.django_db

READ = CompiledObjects(lambda key: Session.objects.select_related("agent__provider", "owner").filter(key=key))


def columns(row: Model) -> dict[str, Any]:
    return {name: value for name, value in vars(row).items() if name != "_state"}


def test_objects_and_their_related_ones_have_the_columns_and_the_state_of_djangos(
    django_assert_num_queries: Any,
) -> None:
    Agent.objects.update(description="Text", mcp_servers=["a"])
    key = make_session(make_user("alice")).key
    theirs = Session.objects.select_related("agent__provider", "owner").get(key=key)
    ours = READ.first(key=key)
    assert ours is not None and ours == theirs
    with django_assert_num_queries(0):
        for one, other in ((ours, theirs), (ours.agent, theirs.agent), (ours.owner, theirs.owner)):
            assert one is not None and type(one) is type(other) and columns(one) == columns(other)
            assert (one._state.adding, one._state.db) == (False, "default") and not one.get_deferred_fields()
        assert ours.agent.provider == theirs.agent.provider
    ours.title = "Another"
    ours.agent = other = Agent.objects.create(agent_id="other", name="Other", provider=ModelProvider.objects.get())
    ours.save()
    assert Session.objects.values_list("title", "agent_id").get(key=key) == ("Another", other.pk)


def test_a_row_without_a_related_one_has_none() -> None:
    query = CompiledObjects(lambda key: Session.objects.select_related("owner").filter(key=key))
    session = make_session(make_user("alice"))
    Session.objects.update(owner=None)
    found = query.first(key=session.key)
    assert found is not None and found.owner is None


def test_json_values_of_rows_are_not_shared() -> None:
    key = make_session(make_user("alice")).key
    first, second = READ.first(key=key), READ.first(key=key)
    assert first is not None and second is not None and first.metadata == second.metadata == {}
    assert first.metadata is not second.metadata
    assert first.agent.allowed_channels == [] and first.agent.allowed_channels is not second.agent.allowed_channels


@contextmanager
def _heard(model: type[Model]) -> Iterator[list[Any]]:
    """Collect the objects of a model that are made, as code that listens to its signal."""
    made: list[Any] = []

    def note(instance: Any, **_: Any) -> None:
        made.append(instance)

    post_init.connect(note, sender=model)
    try:
        yield made
    finally:
        post_init.disconnect(note, sender=model)


def test_models_with_listeners_or_own_code_are_made_by_django() -> None:
    names = [field.attname for field in User._meta.concrete_fields]
    key = make_session(make_user("alice")).key
    with _heard(User) as made:
        assert not _is_plain(User, names)
        query = CompiledObjects(lambda key: Session.objects.select_related("owner").filter(key=key))
        found = query.first(key=key)
        assert found is not None and made == [found.owner]

    with isolate_apps("sessions_app"):  # other tests list the models of an app

        class Own(ApiKey):
            class Meta:
                proxy = True
                app_label = "sessions_app"

            @classmethod
            def from_db(cls, db: Any, field_names: Any, values: Any, **more: Any) -> Any:
                return super().from_db(db, field_names, values, **more)

    names = [field.attname for field in Own._meta.concrete_fields]
    assert _is_plain(ApiKey, names) and not _is_plain(Own, names)
