"""Answers without end: the model call is stopped, and what came is kept as a partial answer with the reason."""

import pytest

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from sessions_app.models import Turn
from tests.support.engine import EngineRig

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.mark.parametrize(
    ("reply", "code", "kept"),
    [
        (Reply(("x" * 900, "y" * 900), hangs=True), "answer_too_long", "x" * 900 + "y" * 100),
        (Reply(("So. ",), reasoning="Hm. " * 400, hangs=True), "answer_too_long", ""),
    ],
    ids=["text", "reasoning"],
)
def test_an_answer_beyond_the_limit_is_cut_and_kept_as_partial(
    rig: EngineRig, settings, reply: Reply, code: str, kept: str
) -> None:
    settings.KOMAND_MAX_ANSWER_CHARACTERS = 1000
    rig.agent(reply)
    run = Run.objects.get(pk=rig.wait(rig.send().run_id, 60).run.id)
    assert (run.status, run.error_code, run.answer) == ("failed", code, kept)
    assert "1,000 characters" in run.error_message
    answer = Turn.objects.get(run_id=run.id, role="assistant")
    assert (answer.content, answer.state, answer.error_code) == (kept, "error", code)


def test_an_answer_that_repeats_without_end_is_stopped(rig: EngineRig) -> None:
    rig.agent(Reply(("And again the same. " * 100,) * 100, hangs=True))
    run = Run.objects.get(pk=rig.wait(rig.send().run_id, 60).run.id)
    assert (run.status, run.error_code) == ("failed", "answer_repeats")
    assert 20_000 <= len(run.answer) < 30_000
    assert "repeated" in run.error_message


def test_an_answer_of_exactly_the_limit_is_complete(rig: EngineRig, settings) -> None:
    settings.KOMAND_MAX_ANSWER_CHARACTERS = 1000
    rig.agent(Reply(("x" * 500, "y" * 500)))
    assert Run.objects.get(pk=rig.wait(rig.send().run_id, 60).run.id).status == "completed"
