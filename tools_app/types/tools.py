"""Declarations of tools, and the base classes of their implementations. Pure."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar
from uuid import UUID

from audit_app.event_types import EventType
from tools_app.types.credential_use import NO_CREDENTIALS, CredentialUse
from tools_app.types.pictures import NewPicture, Picture
from tools_app.types.questions import Question

# An event type of `tools_app.events` with the payload beside that of every call.
Report = tuple[EventType[Any], dict[str, Any]]


class Effect(StrEnum):
    """Repetition safety of a call: decides what happens when its process dies during the call.

    READ: changes nothing; the call is run again.
    KEYED: the remote side deduplicates by `ToolContext.effect_key`; the call is run again with the same key.
    ONCE: may change anything; never repeated, so the outcome after a crash is `unknown`.
    """

    READ = "read"
    KEYED = "keyed"
    ONCE = "once"

    @property
    def label(self) -> str:
        """Return what people read of it."""
        return {"read": "changes nothing", "keyed": "safe to repeat", "once": "never repeated"}[self.value]


def risk_label(risk: str, effect: str) -> str:
    """Return the risk and the effect of a call for people, such as `Medium risk, safe to repeat`."""
    return f"{risk.capitalize()} risk, {Effect(effect).label}"


class Risk(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class TargetKind(StrEnum):
    """Kind of an argument that names what a call reaches."""

    URL = "url"
    PATH = "path"


class Reads(StrEnum):
    """Content that the results of a tool can bring into a run.

    NOTHING: no more than the arguments and what operators have put there.
    STORED: what runs and users have stored; the result names the origins under `origins`.
    OUTSIDE: what others wrote, such as a page or the answer of a server.
    """

    NOTHING = "nothing"
    STORED = "stored"
    OUTSIDE = "outside"


@dataclass(frozen=True)
class ToolSpec:
    """Declaration of a tool.

    parameters: JSON Schema of an object.
    timeout_seconds: default time limit of a call; a call may request another one.
    targets: arguments that name what the call reaches, so that rules about hosts and paths apply to them.
    reaches: URL that every call goes to.
    server: MCP server that provides the tool, if any.
    stands_for: tool that this one is another name of; rules that deny that tool deny this one.
    prompt_line: line about the tool in the system prompt; empty for none.
    has_sources: its results list the passages they are taken from, see `executions.result_sources`.
    reads: content that its results can bring into a run.
    sends: arguments that leave the installation; None for all of them.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    effect: Effect = Effect.ONCE
    risk: Risk = Risk.HIGH
    timeout_seconds: int = 60
    targets: dict[str, TargetKind] = field(default_factory=dict)
    reaches: str = ""
    server: str = ""
    stands_for: str = ""
    prompt_line: str = ""
    has_sources: bool = False
    reads: Reads = Reads.OUTSIDE
    sends: tuple[str, ...] | None = None


@dataclass(frozen=True)
class ToolCall:
    """A call requested by the model.

    id: chosen by the model.
    arguments: raw JSON text, which may be malformed.
    """

    id: str
    name: str
    arguments: str


# Asks a person while the call runs. Returns the answer, or None if nobody can be asked or has answered in time.
AskNow = Callable[[Sequence[Question]], Awaitable[str | None]]


@dataclass(frozen=True)
class Resumed:
    """The answer with which a call is made again after `AsksPerson`.

    answer: None if nobody could be asked or has answered in time.
    """

    state: str
    answer: str | None


@dataclass(frozen=True)
class ToolContext:
    """Context of a running call.

    effect_key: idempotency key, the same for every repetition of the call.
    resumed: set if the call has asked a person before.
    ask_now: None if nobody can be asked.
    pictures: the tool adds those that its result shows, for models that see images.
    """

    execution_id: UUID
    run_id: UUID
    session_id: UUID
    agent_id: str
    actor: str
    effect_key: str
    timeout_seconds: int
    parent_run_id: UUID | None = None
    resumed: Resumed | None = None
    ask_now: AskNow | None = None
    pictures: list[NewPicture | Picture] = field(default_factory=list)


@dataclass(frozen=True)
class Change:
    """A text before and after a call, shown to the approver. name: of the text, such as a path."""

    before: str
    after: str
    name: str = ""


class ToolError(Exception):
    """Failure of a tool call. The message is sent to the model."""


class AsksPerson(Exception):
    """Raised by an async tool to ask a person: the call is made again with the answer, even after a restart.

    state: text for `Resumed`, stored sealed.
    """

    def __init__(self, questions: Sequence[Question], state: str) -> None:
        super().__init__("the call asks a person")
        self.questions, self.state = tuple(questions), state


class BaseTool(ABC):
    """Base class of all tools. needs_run: its calls need a stored run, so robots do not have it."""

    spec: ToolSpec
    needs_run: ClassVar[bool] = False

    def risk_of(self, arguments: dict[str, Any]) -> Risk:
        """Return the risk of this call: by default the declared one."""
        return self.spec.risk

    def effect_of(self, arguments: dict[str, Any]) -> Effect:
        """Return the effect of this call: by default the declared one."""
        return self.spec.effect

    def credentials_of(self, arguments: dict[str, Any], actor: str) -> CredentialUse:
        """Return the credentials that this call of the actor uses: by default none."""
        return NO_CREDENTIALS

    def check(self, arguments: dict[str, Any]) -> None:
        """Raise ToolError if no such call can succeed, before anybody is asked to approve it. Quick; reads no rows."""
        return

    def preview(self, arguments: dict[str, Any], *, run_id: UUID, session_id: UUID, agent_id: str) -> Change | None:
        """Return the change that the call would make, for the approver, or None if there is none to show.

        Called in web processes: must be quick and must not change anything.
        """
        return None

    def report_of(self, value: Any) -> Report | None:
        """Return the event that is stored with the result `value` of a call, such as a new plan: by default none."""
        return None


class Tool(BaseTool):
    """A tool whose calls run in a process of a tools worker. Stateless: one instance serves all calls of a process."""

    @abstractmethod
    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Carry out the call and return a JSON value.

        arguments: valid for `spec.parameters`.
        Raises ToolError with a message for the model. Any other exception counts as a fault of the tool: it is logged,
        and the model receives no details.
        """


class AsyncTool(BaseTool):
    """A tool that mostly waits for a server. Its calls run on the event loop of a runs worker and must never block it.

    Connections outlive calls. A cancelled task ends the call.
    """

    @abstractmethod
    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Carry out the call and return a JSON value. Raises ToolError, as `Tool.run` does, and AsksPerson."""


class HumanTool(BaseTool):
    """A tool that a user carries out with their next message. A waiting call occupies database rows only."""

    @abstractmethod
    def questions_of(self, arguments: dict[str, Any]) -> tuple[Question, ...]:
        """Return the questions to show, at least one. arguments: as `check` accepts them."""

    @abstractmethod
    def answer_of(self, questions: Sequence[Question], text: str) -> Any:
        """Return the JSON value of the result for the user's reply `text`, which answers all questions."""


class ClientTool(BaseTool):
    """A tool of the program that sent a message: its calls are returned to the program, which sends the outputs.

    A waiting call occupies database rows only. Its arguments go to the sender of the message, so they leave nothing
    open; what comes back is from outside.
    """

    def __init__(self, name: str, description: str, parameters: dict[str, Any]) -> None:
        """parameters: JSON Schema of an object, checked."""
        self.spec = ToolSpec(name, description, parameters, effect=Effect.READ, risk=Risk.LOW, sends=())


class BatchTool(BaseTool):
    """A tool whose call stands for calls of another tool, planned with it. No process runs the call itself."""

    @abstractmethod
    def calls_of(self, arguments: dict[str, Any]) -> tuple[ToolCall, ...]:
        """Return the calls to make. arguments: valid for `spec.parameters`."""


AnyTool = Tool | AsyncTool | HumanTool | ClientTool | BatchTool
