"""Places of workstreams in an answer, and their groups."""

from dataclasses import replace
from uuid import UUID, uuid4

from django.utils.safestring import mark_safe

from agents_app.types.child_runs import ChildState
from sessions_app.surfaces.chat.tool_cards import ToolCard, requested_card
from sessions_app.surfaces.chat.turn_views import TextPart
from sessions_app.surfaces.chat.workstream_cards import WorkstreamCard
from sessions_app.surfaces.chat.workstream_groups import WorkstreamGroup, placed
from tests.unit.sessions_app.surfaces.chat.test_workstream_cards import FAILED, OPEN


def _call(number: int) -> ToolCard:
    call = {"execution_id": str(UUID(int=number)), "tool": "launch_workstream", "arguments": {}}
    return requested_card(0, call)  # type: ignore[arg-type]  # the other keys are not read


def test_each_card_is_below_its_call_and_those_without_one_are_first() -> None:
    first, second, text = _call(1), _call(2), TextPart(1, "Done.", mark_safe("Done."))
    of_second, task = WorkstreamCard(OPEN, call_id=second.id), WorkstreamCard(OPEN)
    of_unknown = WorkstreamCard(OPEN, call_id=uuid4())
    found = placed([first, second, text], [task, of_second, of_unknown])
    assert found == (task, of_unknown, first, second, of_second, text)


def _cards(*names: str, step: int | None = None) -> list[WorkstreamCard]:
    """Return open cards with these names. step: of their launching calls, None for tasks of a network."""
    call_id = None if step is None else uuid4()
    views = [replace(OPEN, launch_id=uuid4(), name=name) for name in names]
    return [WorkstreamCard(view, call_id=call_id, step=step or 0) for view in views]


def test_workstreams_of_one_launch_and_those_with_numbered_names_are_groups() -> None:
    launched, two = _cards("Prices", "News", "Region", step=1), _cards("Pages", "Q1 2024", step=2)
    numbered = [*_cards("Worker 1", step=3), *_cards("Worker 2", step=4), *_cards("Worker [3]")]
    found = placed([], [*launched, *two, *numbered])
    assert [part.id for part in found] == [launched[0].id, *(card.id for card in two), numbered[0].id]
    first, *_, last = found
    assert isinstance(first, WorkstreamGroup) and isinstance(last, WorkstreamGroup)
    assert (first.workstreams, last.workstreams) == (tuple(launched), tuple(numbered))
    assert (first.name, last.name) == ("3 workstreams", "3 × Worker")


def test_a_group_counts_its_workstreams_by_state() -> None:
    asks = WorkstreamCard(replace(OPEN, asks="approval"))
    above = WorkstreamCard(OPEN, parts=(WorkstreamGroup((asks,)),))
    cancelled = WorkstreamCard(replace(FAILED, state=ChildState.CANCELED))
    group = WorkstreamGroup((WorkstreamCard(FAILED), cancelled, WorkstreamCard(OPEN), asks, above))
    assert group.counts == "1 failed, 1 stopped, 1 running, 2 wait for you"
    assert WorkstreamGroup((asks, WorkstreamCard(OPEN))).counts == "1 running, 1 waits for you"
