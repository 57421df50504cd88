"""`ask_user`: asks the user a question. Their next message is the answer."""

from typing import Any

from tools_app.parameters import boolean, parameters, text
from tools_app.types import Effect, HumanTool, Question, Reads, Risk, ToolSpec

_MOST_OPTIONS = 10


class AskUser(HumanTool):
    spec = ToolSpec(
        name="ask_user",
        description=(
            "Ask the person one question and wait for the answer, if you cannot go on without a decision or a fact "
            "that only they know."
        ),
        parameters=parameters(
            "question",
            question=text("Complete in itself.", minLength=1, maxLength=2_000),
            options={
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": 200},
                "maxItems": _MOST_OPTIONS,
                "uniqueItems": True,
                "description": "Short answers to choose from, if there are few.",
            },
            allow_text=boolean("Accept another answer, too. Default true."),
        ),
        effect=Effect.READ,
        risk=Risk.LOW,
        timeout_seconds=60,
        reads=Reads.NOTHING,
        sends=(),
    )

    def question_of(self, arguments: dict[str, Any]) -> Question:
        options = tuple(arguments.get("options", ()))
        return Question(arguments["question"], options, allows_text=not options or arguments.get("allow_text", True))

    def answer_of(self, question: Question, text: str) -> Any:
        """Return {"answer": the chosen option, else the user's text, "is_option"}.

        Users are not limited to the options: the model interprets other text.
        """
        reply = text.strip()
        chosen = _option(question.options, reply)
        return {"answer": chosen or reply, "is_option": chosen is not None}


def _option(options: tuple[str, ...], reply: str) -> str | None:
    """Return the option that the reply names by its text or its number."""
    for option in options:
        if option.strip().casefold() == reply.casefold():
            return option
    number = reply.rstrip(".)")
    if number.isascii() and number.isdigit() and len(number) < 3 and 1 <= int(number) <= len(options):
        return options[int(number) - 1]
    return None
