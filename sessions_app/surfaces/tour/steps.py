"""The steps of the tour. Pure data."""

from dataclasses import dataclass

from agents_app.providers.kinds.demo import texts

_ONE, _TEAM = "default", "team"  # the agents of a new installation


@dataclass(frozen=True)
class Prompt:
    """A prepared message.

    label: label of its button.
    agent_id: public id of the agent that gets it.
    """

    label: str
    text: str
    agent_id: str


@dataclass(frozen=True)
class Step:
    """A step of the tour. prompts: empty for one that sends no message; its last one that was sent is shown."""

    name: str
    title: str
    text: str
    prompts: tuple[Prompt, ...] = ()


TOOLS, APPROVAL, CRASH, TEAM, PHONE, PROOF, MODEL = "tools", "approval", "crash", "team", "phone", "proof", "model"
SLOW_ANSWER = texts.COMMANDS["long"]
STEPS = (
    Step(
        TOOLS,
        "Tools",
        "Ask two things at once. Both tools run in parallel and are recorded.",
        (Prompt("Ask two things", "What is 17*23 and what time is it in Tokyo?", _ONE),),
    ),
    Step(
        APPROVAL,
        "Approval",
        "Now it wants to write a file. Nothing is written before you decide: Allow writes it, Deny refuses the call, "
        "and the agent reads that. Try both: the second request adds a line and shows only that.",
        (
            Prompt("Write the file", "Write the file files/tour.md", _TEAM),
            Prompt("Add a line", "Add a line to files/tour.md", _TEAM),
        ),
    ),
    Step(
        CRASH,
        "Crash",
        "It writes a long answer for half a minute. Kill the process that writes.",
        (Prompt("Start the long answer", "/demo long", _ONE),),
    ),
    Step(
        TEAM,
        "Team",
        "Three workstreams work at once. One asks you a question, one wants to write a file, one needs nobody.",
        (
            Prompt(
                "Start the team", "Work as a team. Ask me: Berlin or Tokyo? Write the file files/team.md. 12*12", _TEAM
            ),
        ),
    ),
    Step(PHONE, "Anywhere", "Answer the next request from your phone: it shows the same chat, live."),
    Step(PROOF, "Proof", "What did it cost, who decided, was anything changed?"),
    Step(MODEL, "Yours", "Connect your model: an address, a key, a name. The agent Assistant answers with it then."),
)
PROMPTS = {prompt.text: prompt for step in STEPS for prompt in step.prompts}
