"""The object of a run, with its question, plan and progress: its fields in answers and in the OpenAPI document."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    IntegerField,
    JSONField,
    ListField,
    UUIDField,
)

from agents_app.services import COMMANDS, MESSAGE
from agents_app.structured_output import output_of
from agents_app.types import RunStatus, RunTranscript, WaitingOn
from agents_app.types.child_runs import MOST_OPEN_CHILDREN, ChildState, ChildView, Phase, RunKind
from agents_app.types.run_cost import RunCost, TreeCost
from sessions_app.models import Session
from sessions_app.surfaces.base.serializers import (
    CamelCaseSerializer,
    Count,
    NullableChoice,
    NullableText,
    ObjectSerializer,
    Timestamp,
)
from sessions_app.surfaces.base.workstream_requests import COMMANDS as GROUP_COMMANDS
from sessions_app.surfaces.rest.envelope import PageQuery
from sessions_app.surfaces.rest.objects.usage import SpentOut, UsageOut
from tools_app import selectors as tools
from tools_app.run_progress import BATCH, TASK_STATUSES, Batch, find_plan, find_progress
from tools_app.types.questions import VARIANTS, Question, text_of


class OptionOut(ObjectSerializer):
    id = CharField(help_text="An answer with this id, the label or the number chooses the option.")
    label = CharField()  # type: ignore[assignment]  # hides an attribute of nested serializers, which is not used
    description = CharField(allow_blank=True)


class FormQuestionOut(ObjectSerializer):
    text = CharField()
    options = ListField(child=OptionOut())
    allows_text = BooleanField(help_text="Free text is accepted as well.")
    allows_several = BooleanField(help_text="Several options may be chosen: separate them by commas.")
    placeholder = CharField(allow_blank=True)
    variant = ChoiceField(choices=list(VARIANTS))


class QuestionOut(ObjectSerializer):
    text = CharField(help_text="The text of all questions.")
    options = ListField(child=CharField(), help_text="The labels of the options of a single question.")
    questions = ListField(child=FormQuestionOut(), help_text="One to four. The answer has one line for each.")


class PlanTaskOut(ObjectSerializer):
    id = IntegerField(help_text="The same in all revisions.")
    goal = CharField()
    status = ChoiceField(choices=list(TASK_STATUSES))
    instructions = ListField(child=CharField())
    comment = CharField(allow_blank=True)


class PlanOut(ObjectSerializer):
    tasks = ListField(child=PlanTaskOut())
    comment = CharField(allow_blank=True, help_text="Reason of the last change, or empty.")


class ProgressOut(ObjectSerializer):
    text = CharField()
    percent = IntegerField(allow_null=True)
    phase = CharField(allow_blank=True)


class BatchItemOut(ObjectSerializer):
    id = CharField(help_text="Position in the list, from 1.")
    execution_id = UUIDField()
    status = ChoiceField(choices=["pending", "running", "success", "error"])
    message = CharField(allow_blank=True, help_text="Reason why it failed, or empty.")
    duration_ms = IntegerField(allow_null=True)


class BatchOut(ObjectSerializer):
    execution_id = UUIDField()
    tool_name = CharField(source="tool", help_text="The tool that is called for each item.")
    total = Count()
    done = Count(help_text="Items that have ended.")
    failed = Count(help_text="Items that have ended without a result.")
    items = ListField(child=BatchItemOut())


class RunOut(ObjectSerializer):
    run_id = UUIDField(source="id")
    session_id = CharField()
    agent_id = CharField()
    status = ChoiceField(choices=list(RunStatus))
    waiting_on = ChoiceField(choices=list(WaitingOn), allow_null=True)
    question = QuestionOut(allow_null=True, help_text="The question that the next message of the session answers.")
    plan = PlanOut(allow_null=True, help_text="The newest revision of the agent's plan.")
    progress = ProgressOut(allow_null=True, help_text="Last progress report of the agent.")
    batches = ListField(child=BatchOut(), help_text="Batches of tool calls.")
    text = CharField(allow_null=True, help_text="The answer; null until the run has ended.")
    output = JSONField(allow_null=True, help_text="Parsed value of a completed answer that has a JSON Schema.")
    error = NullableText(source="error_message")
    error_code = NullableText()
    tool_call_ids = ListField(child=UUIDField())
    agent_version = IntegerField(allow_null=True, help_text="Version of the agent; 0: the draft.")
    parent_run_id = UUIDField(source="parent_id", allow_null=True, help_text="The run that launched this workstream.")
    workstream = NullableText(help_text="Name of the workstream within its parent.")
    workstream_name = NullableText(help_text="Name of the workstream for people.")
    path = ListField(child=CharField(), help_text="Names for people of the workstreams above it and its own.")
    usage = UsageOut()
    created_at = Timestamp()
    started_at = Timestamp(allow_null=True)
    ended_at = Timestamp(allow_null=True)


class WorkstreamQuery(PageQuery):
    open_ = BooleanField(default=False, help_text="Only those that have not ended.")


class WorkstreamOut(ObjectSerializer):
    """A child run. parent_run_id: the run that launched it, which may be a workstream itself."""

    id = UUIDField(source="launch_id", help_text="Run id of the workstream.")
    parent_run_id = UUIDField(source="parent_id")
    number = IntegerField(help_text="Number among the workstreams of the session, as `/agents` lists it in chats.")
    workstream = CharField(help_text="The name that its parent chose; of a network's task, such as draft#2.")
    name = CharField(help_text="Display name.")
    path = ListField(child=CharField(), help_text="Display names of the workstreams above it and its own.")
    kind = ChoiceField(choices=[kind.value for kind in RunKind if kind is not RunKind.MESSAGE])
    agent_id = CharField()
    state = ChoiceField(choices=list(ChildState))
    phase = ChoiceField(choices=list(Phase))
    current_tool = NullableText(help_text="Tool that is being executed.")
    asks = NullableChoice(choices=["approval", "input"], help_text="Decision or answer of a user that it waits for.")
    is_interactive = BooleanField(help_text="Stays open after its task, for messages of the parent.")
    is_idle = BooleanField(help_text="Waiting for a message of the parent.")
    is_paused = BooleanField()
    result = NullableText(help_text="Last answer.")
    error = NullableText()
    created_at = Timestamp()
    started_at = Timestamp(allow_null=True)
    ended_at = Timestamp(allow_null=True)
    deadline_at = Timestamp(allow_null=True, help_text="Deadline, or the end of its pause. Null while it stands still.")
    usage = SpentOut(help_text="Its own tokens and cost.")
    usage_with_workstreams = SpentOut(help_text="Together with its own workstreams, at any depth.")


class RunMessageBody(CamelCaseSerializer):
    text = CharField(allow_blank=True, trim_whitespace=False)


class RunsMessageBody(CamelCaseSerializer):
    runs = ListField(
        child=UUIDField(), required=False, min_length=1, max_length=MOST_OPEN_CHILDREN, help_text="Ids of workstreams."
    )
    parent_run_id = UUIDField(
        required=False, help_text="In place of `runs`: a run, for all of its workstreams that work."
    )
    command = ChoiceField(choices=list(GROUP_COMMANDS), default=MESSAGE)
    text = CharField(
        default="",
        allow_blank=True,
        trim_whitespace=False,
        help_text="The message, the instruction, the constraint or the priority.",
    )


class SteerBody(CamelCaseSerializer):
    command = ChoiceField(choices=list(COMMANDS))
    text = CharField(
        default="",
        allow_blank=True,
        trim_whitespace=False,
        help_text="The instruction, the constraint or the priority.",
    )


class AskedOut(ObjectSerializer):
    run_id = UUIDField()


class AskedRunOut(AskedOut):
    is_sent = BooleanField()
    error = NullableText(help_text="Why it was not sent, for people.")
    error_code = NullableText()


def workstreams_json(views: Sequence[ChildView]) -> list[dict[str, Any]]:
    """Return the objects of workstreams. views: of a whole subtree, parents before their children."""
    teams = {view.launch_id: TreeCost(view.usage, view.cost) for view in views}
    for view in reversed(views):
        if view.parent_id in teams:
            teams[view.parent_id] += teams[view.launch_id]
    pairs = ((view, TreeCost(view.usage, view.cost), teams[view.launch_id]) for view in views)
    return [WorkstreamOut.of(view, usage=own, usage_with_workstreams=team) for view, own, team in pairs]


def run_json(transcript: RunTranscript, session: Session, cost: RunCost) -> dict[str, Any]:
    """Return a run with its answer, its open question, its cost and the ids of its tool executions."""
    may_ask = transcript.run.waiting_on in (WaitingOn.INPUT, WaitingOn.APPROVAL)
    asked = tools.find_asked(transcript.run.id) if may_ask else None
    return RunOut.of(
        transcript.run,
        session_id=session.key,
        question=_question(asked.questions) if asked else None,
        plan=find_plan(transcript.executions),
        progress=find_progress(transcript.executions),
        batches=_batches(transcript),
        text=transcript.answer if transcript.run.status.is_terminal else None,
        output=output_of(transcript),
        tool_call_ids=[execution.id for execution in transcript.executions],
        usage=cost,
        workstream_name=transcript.run.path[-1] if transcript.run.path else "",
    )


def _batches(transcript: RunTranscript) -> list[Batch]:
    batch_ids = [execution.id for execution in transcript.executions if execution.tool == BATCH]
    batches = tools.list_batches(batch_ids) if batch_ids else {}
    return [batches[batch_id] for batch_id in batch_ids]


def _question(questions: tuple[Question, ...]) -> "_Asked":
    options = questions[0].labels if len(questions) == 1 else ()
    return _Asked(text_of(questions, with_options=False), options, questions)


@dataclass(frozen=True)
class _Asked:
    """An open form of questions.

    text: of all of them.
    options: labels of a single one.
    """

    text: str
    options: tuple[str, ...]
    questions: tuple[Question, ...]
