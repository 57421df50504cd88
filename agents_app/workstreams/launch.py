"""`launch_workstream`: starts a child run that works beside its parent."""

from typing import Any

from django.db import transaction

from agents_app.models import Agent, ModelPrice, ModelProvider, Run, Step
from agents_app.runs.children import NewChild, start_below
from agents_app.runs.run_policy import policy_of, provider_of, session_policy_of
from agents_app.types import RunOptions
from agents_app.types.child_runs import (
    DEFAULT_DEADLINE_SECONDS,
    LAUNCH_TOOL,
    LEAST_DEADLINE_SECONDS,
    MOST_BACKGROUND_SECONDS,
    MOST_DEADLINE_SECONDS,
    ChildSpec,
    Notify,
)
from agents_app.workstreams.base import WorkstreamTool, declare, lock_parent
from agents_app.workstreams.specialists import get_specialist
from audit_app.kernel.ids import derived_id
from tools_app import services as tools
from tools_app.parameters import boolean, integer, parameters, text
from tools_app.policy.scope import INHERIT, Scope, ScopeMode
from tools_app.types import ToolContext, ToolError

_LONGEST = f"At most {MOST_DEADLINE_SECONDS}; with background {MOST_BACKGROUND_SECONDS}."


class LaunchWorkstream(WorkstreamTool):
    """Starts a workstream. Its run's id is derived from the call's, so that a repeated call starts one."""

    spec = declare(
        LAUNCH_TOOL,
        "Start a workstream: a second agent that works on a part of your task beside you. Returns at once; its result "
        "reaches you as a message when it ends. Use wait_workstreams when you have nothing else to do.",
        parameters(
            "id",
            "instruction",
            id=text("Short name, such as `prices_2024`.", pattern=r"^[A-Za-z0-9_]{1,60}$"),
            name=text("For people.", maxLength=120),
            instruction=text(
                "Its whole task: it sees nothing of this conversation, without fork.", minLength=1, maxLength=20_000
            ),
            allowed_tools={
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": 120},
                "maxItems": 100,
                "description": "Its tools, of yours; with + or - before each name: changes to yours. "
                "Left out: all of yours; []: none.",
            },
            context={"type": "object", "description": "Data for the task."},
            fork=boolean("It sees this conversation up to now, and then its task."),
            agent=text("Another agent to do it, of agents_list. Default: yourself.", maxLength=120),
            model=text("Default: the agent's.", maxLength=200),
            deadline_seconds=integer(f"Default {DEFAULT_DEADLINE_SECONDS}. {_LONGEST}", LEAST_DEADLINE_SECONDS),
            interactive=boolean("It waits for your messages after its task until you terminate it."),
            background=boolean("It goes on after you have answered, and its result starts a new turn of yours."),
            notify={
                "type": "string",
                "enum": [*Notify],
                "description": "Of one that goes on after your answer. done (default): its result starts a turn of "
                "yours. changes: so does its report_progress, once a minute at most; tell it to report. silent: you "
                "get it with the next message.",
            },
            merge_child_artifacts=boolean("Default true: its files are copied to files/{launch_id}/."),
            budget_tokens=integer("Most tokens that it and its own workstreams may use.", 1),
        ),
    )

    def check(self, arguments: dict[str, Any]) -> None:
        most = MOST_BACKGROUND_SECONDS if arguments.get("background") else MOST_DEADLINE_SECONDS
        if (seconds := arguments.get("deadline_seconds", 0)) > most:
            raise ToolError(f"deadline_seconds is {seconds}, which is too long. {_LONGEST}")

    def act(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"launch_id", "id", "state"}."""
        with transaction.atomic():
            parent = lock_parent(context)
            child = start_below(parent, _child(arguments, context, parent))
        return {"launch_id": str(child.pk), "id": child.workstream, "state": "running"}


def _child(arguments: dict[str, Any], context: ToolContext, parent: Run) -> NewChild:
    wanted = arguments.get("agent", "")
    specialist = get_specialist(parent, wanted) if wanted not in ("", parent.agent.agent_id) else None
    return NewChild(
        id=derived_id(context.execution_id, arguments["id"]),
        parent_id=parent.pk,
        workstream=arguments["id"],
        spec=_spec(arguments, parent),
        agent=specialist,
        options=_options(arguments, parent, specialist),
        budget_tokens=arguments.get("budget_tokens"),
    )


def _spec(arguments: dict[str, Any], parent: Run) -> ChildSpec:
    return ChildSpec(
        name=arguments.get("name") or arguments["id"],
        instruction=arguments["instruction"],
        context=arguments.get("context"),
        is_interactive=arguments.get("interactive", False),
        deadline_seconds=arguments.get("deadline_seconds", DEFAULT_DEADLINE_SECONDS),
        is_background=arguments.get("background", False),
        notify=arguments.get("notify", Notify.DONE.value),
        merges_artifacts=arguments.get("merge_child_artifacts", True),
        fork_step=_last_step(parent) if arguments.get("fork") else None,
    )


def _last_step(parent: Run) -> int | None:
    """Return the index of the step that makes the call: a run records no other one while it waits for its tools."""
    steps = Step.objects.filter(run=parent, kind=Step.MODEL).order_by("-index")
    return steps.values_list("index", flat=True).first()


def _options(arguments: dict[str, Any], parent: Run, specialist: Agent | None) -> RunOptions:
    """Return the options of a child. A specialist has its own model and version, not those of the parent's message."""
    wanted, allowed = arguments.get("model", ""), _tools(arguments.get("allowed_tools"), parent)
    if specialist:
        model = _model(wanted, specialist, specialist.provider) if wanted else ""
        return RunOptions(model=model, tools=allowed)
    given = RunOptions.from_dict(parent.options)
    model = _model(wanted, parent.agent, provider_of(parent)) if wanted else given.model
    return RunOptions(model=model, tools=allowed, agent_version=given.agent_version)


def _model(wanted: str, agent: Agent, provider: ModelProvider) -> str:
    """Return the wanted model if the agent may use it. Raises ToolError with those that it may use."""
    own = [agent.model_id, provider.default_model]
    own += [entry["model"] for entry in agent.fallbacks if entry["provider"] == provider.name]
    own += ModelPrice.objects.filter(provider=provider).values_list("model", flat=True)
    known = [model for model in dict.fromkeys(own) if model]
    if wanted not in known:
        raise ToolError(f"The model {wanted!r} is not available. Available: {', '.join(known)}.")
    return wanted


def _tools(wanted: list[str] | None, parent: Run) -> Scope:
    """Return the tools of a child: names, or changes to the parent's tools. They never exceed the parent's.

    wanted: None for the parent's tools, an empty list for none.

    Raises ToolError for a name that the parent does not have.
    """
    if wanted is None:
        return INHERIT
    own = [spec.name for spec in tools.specs_for(policy_of(parent), session_policy_of(parent))]
    exact = [name for name in wanted if not name.startswith(("+", "-"))]
    added = [name[1:] for name in wanted if name.startswith("+")]
    removed = [name[1:] for name in wanted if name.startswith("-")]
    if unknown := [name for name in (*exact, *added, *removed) if name not in own]:
        raise ToolError(f"You do not have these tools: {', '.join(unknown)}. Yours: {', '.join(own)}.")
    kept = own if wanted and not exact else exact
    return Scope(ScopeMode.LIST, tuple(name for name in dict.fromkeys([*kept, *added]) if name not in removed))
