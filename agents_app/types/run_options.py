"""Options of a message's run. Pure."""

from dataclasses import dataclass
from typing import Any

from tools_app.policy.scope import INHERIT, Scope


@dataclass(frozen=True)
class RunOptions:
    """Options of one message for its run, in addition to the agent's settings.

    instructions: text that is appended to the system prompt
    output_schema: JSON Schema of the answer
    temperature, max_output_tokens: for the model
    sampling: top_p, presence_penalty, frequency_penalty and stop, as chat completions name them
    model: instead of the agent's; the caller has checked that the sender may choose it
    max_tool_rounds: at most the agent's
    client_tools: tools of the client that sent the message: {name, description, parameters}. Calls are returned to it
    tool_choice: what the first model call for a request of that client has to call: `required`, or the name of one of
        its tools; empty: as the model decides
    note: JSON that a surface stores with the run, under the surface's name
    tools, mcp_servers: those that the run may use
    may_widen: the sender may configure the agent, so `tools` and `mcp_servers` can add to the agent's, not only
        restrict them
    retry_of: id of the run that this run retries
    agent_version: number of the agent's version to use, 0 for the draft; None: as the agent is when it is claimed. The
        caller has checked that the sender may use it
    compacts_only: the run answers nothing: it compacts its conversation
    network: the network that the run executes instead of calling a model: {name, version, definition, context}
    question: the run asks a person its task instead of calling a model: {options, timeout}
    is_unattended: nobody waits for the run: what servers ask during its calls is cancelled
    """

    instructions: str = ""
    output_schema: dict[str, Any] | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    sampling: dict[str, Any] | None = None
    model: str = ""
    max_tool_rounds: int | None = None
    client_tools: list[dict[str, Any]] | None = None
    tool_choice: str = ""
    note: dict[str, Any] | None = None
    tools: Scope = INHERIT
    mcp_servers: Scope = INHERIT
    may_widen: bool = False
    retry_of: str = ""
    agent_version: int | None = None
    compacts_only: bool = False
    network: dict[str, Any] | None = None
    question: dict[str, Any] | None = None
    is_unattended: bool = False

    @property
    def chooses_tools(self) -> bool:
        return (self.tools, self.mcp_servers) != (INHERIT, INHERIT)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "RunOptions":
        fields = dict(stored)
        for name in {"tools", "mcp_servers"} & fields.keys():
            fields[name] = Scope.from_dict(fields[name])
        return cls(**fields)

    def to_dict(self) -> dict[str, Any]:
        """Return the values that differ from the defaults, as JSON."""
        differing = {name: value for name, value in vars(self).items() if value != getattr(RunOptions, name)}
        return {name: value.to_dict() if isinstance(value, Scope) else value for name, value in differing.items()}
