"""Reads a chat as a copy. The number of statements does not grow with the chat."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from uuid import UUID

from django.db.models import Q
from django.utils import timezone

from agents_app import selectors as agents
from agents_app.types.child_runs import ChildView, title_of
from audit_app.kernel.redact import masked, masked_arguments, masked_text
from sessions_app import selectors
from sessions_app.chat_copies.chat_copy import (
    ChatCopy,
    CopiedCall,
    CopiedFile,
    CopiedQuestion,
    CopiedText,
    CopiedTurn,
    CopiedWorkstream,
    Part,
)
from sessions_app.conversation.citations import Citation, as_lines, numbered
from sessions_app.models import Attachment, Session, Turn
from sessions_app.selectors import citations_of
from tools_app import selectors as tools
from tools_app.storage import artifacts
from tools_app.types import ExecutionView
from tools_app.types.executions import parsed_output
from tools_app.types.questions import ASKING_TOOLS, REMOTE_PREFIXES, InputView, answer_in, questions_of

MOST_TURNS = 10_000
_UNTITLED = "Chat"


def read_copy(session: Session, *, among: Q = selectors.ON_PATH, until: datetime | None = None) -> ChatCopy:
    """Return a copy of a session.

    among: which turns.
    until: leave out what was written later.
    """
    now = timezone.now()
    until = until or now
    shown = among & Q(role__in=("user", "assistant"), created_at__lte=until)
    turns = selectors.list_turns(session, limit=MOST_TURNS + 1, among=shown)
    has_more = len(turns) > MOST_TURNS
    return ChatCopy(
        session.title or _UNTITLED,
        session.agent.name,
        now,
        tuple(_Reader(turns[has_more:], until).turns()),
        tuple(CopiedFile(row.id, row.path, row.size_bytes) for row in list_files(session.pk, until)),
        has_more,
    )


def list_files(session_id: UUID, until: datetime) -> list[artifacts.ArtifactView]:
    """Return the files of a session, by path, without those that were changed later."""
    return [row for row in artifacts.list_artifacts(session_id) if row.updated_at <= until]


class _Reader:
    """The turns of a copy, with what their runs have called and launched."""

    def __init__(self, turns: Sequence[Turn], until: datetime) -> None:
        self._turns, self._until = turns, until
        self._files = selectors.attachments_of(turns)
        names = {UUID(name) for turn in turns if turn.role == "assistant" for name in turn.tool_call_ids or ()}
        self._calls = {view.id: view for view in tools.list_executions_of(names)} if names else {}
        remote = [view.id for view in self._calls.values() if view.tool.startswith(REMOTE_PREFIXES)]
        self._asked = tools.list_asked(remote) if remote else {}
        runs = {turn.run_id for turn in turns if turn.run_id}
        self._children = _by_root(agents.list_descendants(runs)) if runs else {}

    def turns(self) -> Iterable[CopiedTurn]:
        for _, group in groupby(self._turns, key=lambda turn: turn.ordinal):
            yield from self._of_run(list(group))

    def _of_run(self, turns: Sequence[Turn]) -> Iterable[CopiedTurn]:
        """Yield a copy for each message with what follows it: a run answers one, an imported ordinal has several."""
        messages = [at for at, turn in enumerate(turns) if turn.role == "user" and not turn.tool_call_ids]
        starts = [at for at in messages if at == 0 or turns[at - 1].role != "user" or turns[at - 1].tool_call_ids]
        edges = [*(starts if starts and starts[0] == 0 else [0, *starts]), len(turns)]
        for first, end in zip(edges, edges[1:], strict=False):
            copy = self._copy(turns[first:end], is_last=end == len(turns))
            if copy.question or copy.files or copy.parts:
                yield copy

    def _copy(self, turns: Sequence[Turn], *, is_last: bool) -> CopiedTurn:
        messages = [turn for turn in turns if turn.role == "user" and not turn.tool_call_ids]
        files = [file for turn in messages for file in self._files.get(turn.pk, ())]
        answers = [turn for turn in turns if turn.role == "assistant"]
        cited = [citation for turn in answers for citation in citations_of(turn)]
        parts = [part for turn in answers for part in self._parts(turn)]
        if is_last and turns[0].run_id:
            parts += self._workstreams(turns[0].run_id)
        last = answers[-1] if answers else None
        problem = "" if last is None or last.state == "complete" else last.error_message or "The answer is incomplete."
        return CopiedTurn(
            turns[0].created_at,
            "\n\n".join(turn.content for turn in messages if turn.content),
            tuple(map(_name_of, files)),
            tuple(parts),
            problem,
            _sources(cited),
        )

    def _parts(self, turn: Turn) -> Iterable[Part]:
        if turn.content:
            yield CopiedText(numbered(turn.content, citations_of(turn)))
        if turn.is_answer:
            return
        for name in turn.tool_call_ids or ():
            if call := self._calls.get(UUID(name)):
                yield from _call(call, self._asked)

    def _workstreams(self, run_id: UUID) -> Iterable[CopiedWorkstream]:
        for view in self._children.get(run_id, ()):
            if view.created_at <= self._until:
                has_ended = view.ended_at is not None and view.ended_at <= self._until
                copy = CopiedWorkstream(title_of(view.path), view.agent_id, view.state, masked_text(view.instruction))
                yield replace(copy, result=view.result, error=masked_text(view.error)) if has_ended else copy


def _by_root(views: Iterable[ChildView]) -> dict[UUID, list[ChildView]]:
    """Return the child runs by their root run, the oldest first."""
    roots: dict[UUID, UUID] = {}
    found: dict[UUID, list[ChildView]] = {}
    for view in views:  # a parent is older than its child runs
        root = roots[view.launch_id] = roots.get(view.parent_id, view.parent_id)
        found.setdefault(root, []).append(view)
    return found


def _call(call: ExecutionView, asked: Mapping[UUID, tuple[InputView, str]]) -> Iterable[Part]:
    if call.tool in ASKING_TOOLS and (questions := questions_of(call.arguments)):
        given = parsed_output(call.output or "")
        answer = answer_in(given) if isinstance(given, dict) else ""
        yield CopiedQuestion(tuple(question.text for question in questions), str(masked(answer)))
        return
    output = masked(parsed_output(call.output)) if call.output else None
    yield CopiedCall(call.tool, masked_arguments(call.arguments), call.status, output, masked_text(call.error or ""))
    if found := asked.get(call.id):
        view, answer = found
        yield CopiedQuestion(tuple(question.text for question in view.questions), str(masked(answer)))


def _name_of(file: Attachment) -> str:
    return file.filename or file.kind


def _sources(cited: Sequence[Citation]) -> str:
    return as_lines(cited) if cited else ""
