"""The cost of a turn on the page: statements that are built anew, which take longer than their execution."""

import pytest

from agents_app.providers.kinds.scripted import Reply
from sessions_app.models import Session
from sessions_app.surfaces.chat import queries
from tests.support.built_statements import built_statements
from tests.support.engine import EngineRig

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.mark.parametrize("thought", ["", "That is a greeting."])
def test_the_end_of_a_plain_answer_builds_no_statement(rig: EngineRig, thought: str) -> None:
    rig.agent(*[Reply(("Hi ", "there"), reasoning=thought)] * 2)
    for _ in range(2):
        accepted = rig.send()
        rig.wait(accepted.run_id)
        session = Session.objects.get(pk=accepted.session_id)
        with built_statements() as built:
            view = queries.find_turn_view(session, accepted.run_id)
    assert view is not None and (thought in str(view.parts))
    assert bool(built) == bool(thought), built  # an answer with details reads them
