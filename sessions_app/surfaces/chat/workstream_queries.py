"""Queries of the workstream cards. The number of queries does not grow with the number of child runs."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from uuid import UUID

from django.utils.safestring import SafeString

from agents_app import selectors as agents
from agents_app.types import StepView
from agents_app.types.child_runs import ChildView, child_id_of
from sessions_app.surfaces.base import markdown
from sessions_app.surfaces.chat.tool_cards import NO_DETAILS, CallDetails
from sessions_app.surfaces.chat.turn_views import Part, recorded_parts
from sessions_app.surfaces.chat.workstream_cards import PersonPart, WorkstreamCard
from sessions_app.surfaces.chat.workstream_groups import placed
from tools_app import selectors as tools
from tools_app.run_progress import BATCH, find_plan, find_progress
from tools_app.types import ExecutionView


@lru_cache(maxsize=200)
def _rendered(text: str) -> SafeString:
    """Return the HTML of a result. Results are not stored as HTML, and each is shown with every load of its page."""
    return markdown.render(text)


class ChildRuns:
    """The child runs of some runs, and the records of those that are open.

    executions: their tool calls, of which the caller reads approvals and batches.
    """

    def __init__(self, views: Iterable[ChildView]) -> None:
        self._of_parent: dict[UUID, list[ChildView]] = {}
        open_ids = []
        for view in views:
            self._of_parent.setdefault(view.parent_id, []).append(view)
            if view.ended_at is None:
                open_ids.append(view.launch_id)
        self._steps: dict[UUID, list[StepView]] = {}
        for run_id, step in agents.list_steps_of(open_ids):
            self._steps.setdefault(run_id, []).append(step)
        self._messages: dict[UUID, list[tuple[int, str]]] = {}
        for run_id, position, text in agents.list_person_messages(open_ids):
            self._messages.setdefault(run_id, []).append((position, text))
        self.executions = _executions_of(open_ids) if open_ids else ()

    @property
    def parents(self) -> set[UUID]:
        """The runs that have workstreams."""
        return set(self._of_parent)

    def cards_of(
        self, run_id: UUID, calls: Iterable[ExecutionView] = (), details: CallDetails = NO_DETAILS
    ) -> list[WorkstreamCard]:
        """Return the cards of the workstreams of a run, which contain those of theirs.

        details: details of these and of its workstreams' calls.
        """
        launching = {child_id_of(call.tool, call.id, call.arguments): call for call in calls}
        found = []
        for view in self._of_parent.get(run_id, ()):
            own = [execution for execution in self.executions if execution.run_id == view.launch_id]
            nested = self.cards_of(view.launch_id, own, details)
            parts = self._parts_of(view, own, details)
            found.append(_card(view, launching.get(view.launch_id), own, placed(parts, nested)))
        return found

    def _parts_of(self, view: ChildView, own: Sequence[ExecutionView], details: CallDetails) -> list[Part]:
        """Return what an open child run has recorded, and the messages of people before the steps that saw them."""
        parts, seen, messages = list[Part](), 0, self._messages.get(view.launch_id, ())
        for step in self._steps.get(view.launch_id, ()):
            parts += [PersonPart(text) for position, text in messages if seen <= position < step.turns_seen]
            parts += recorded_parts([step], own, markdown.render, details, asker=view.workstream)
            seen = step.turns_seen
        return [*parts, *(PersonPart(text) for position, text in messages if position >= seen)]


def read_card(run_id: UUID) -> WorkstreamCard:
    """Return the card of a child run as it is now, of an open one without its parts. Raises NotFound."""
    view = agents.get_child(run_id)
    calls = tools.list_executions(view.parent_id)
    call = next((one for one in calls if child_id_of(one.tool, one.id, one.arguments) == run_id), None)
    if view.ended_at is None:
        return _card(view, call, tools.list_executions(run_id))
    return _card(view, call, parts=tuple(ChildRuns(agents.list_subtree(run_id)).cards_of(run_id)))


def _card(
    view: ChildView, call: ExecutionView | None, own: Sequence[ExecutionView] = (), parts: tuple[object, ...] = ()
) -> WorkstreamCard:
    """Return a card.

    call: which launched it.
    own: its calls.
    """
    return WorkstreamCard(
        view,
        parts,
        call_id=call.id if call else None,
        step=call.step if call else 0,
        plan=find_plan(own),
        progress=find_progress(own),
        result=_rendered(view.result) if view.ended_at and view.result else None,
    )


def _executions_of(run_ids: Sequence[UUID]) -> tuple[ExecutionView, ...]:
    """Return the calls of these runs, and those items of their batches that ask for an approval."""
    found = tools.list_executions_of_runs(run_ids)
    batch_ids = [execution.id for execution in found if execution.tool == BATCH]
    return (*found, *tools.list_asking_items(batch_ids)) if batch_ids else found
