"""`ask_user` and `ask_form`: ask the user one question, or several in one form. Their next message is the answer."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tools_app.parameters import boolean, parameters, text
from tools_app.types import Effect, HumanTool, Reads, Risk, ToolError, ToolSpec
from tools_app.types.questions import (
    ASK_FORM,
    ASK_USER,
    LONGEST_OPTION,
    LONGEST_QUESTION,
    MOST_OPTIONS,
    NO_ANSWER,
    VARIANTS,
    Question,
    chosen_options,
    questions_of,
)

_MOST_QUESTIONS = 4

_OPTION = parameters(
    "id",
    "label",
    id=text("", pattern=r"^[A-Za-z0-9_.:-]{1,64}$"),
    label=text("", minLength=1, maxLength=LONGEST_OPTION),
    description=text("", maxLength=300),
)
_QUESTION: dict[str, dict[str, Any]] = {
    "question": text("", minLength=1, maxLength=LONGEST_QUESTION),
    "options": {
        "type": "array",
        "items": {"anyOf": [text("", minLength=1, maxLength=LONGEST_OPTION), _OPTION]},
        "maxItems": MOST_OPTIONS,
        "uniqueItems": True,
    },
    "multiple": boolean("Several options may be chosen."),
    "allow_text": boolean("Default true."),
    "placeholder": text("Of the field for other text.", maxLength=100),
    "variant": {"type": "string", "enum": list(VARIANTS)},
}


class AskUser(HumanTool):
    spec = ToolSpec(
        name=ASK_USER,
        description="Ask the person one question that only they can answer, and wait.",
        parameters=parameters(
            "question",
            question=_QUESTION["question"],
            options={**_QUESTION["options"], "items": text("", minLength=1, maxLength=LONGEST_OPTION)},
            allow_text=_QUESTION["allow_text"],
        ),
        effect=Effect.READ,
        risk=Risk.LOW,
        timeout_seconds=60,
        reads=Reads.NOTHING,
        sends=(),
    )

    def check(self, arguments: dict[str, Any]) -> None:
        for question in self.questions_of(arguments):
            for names in ([option.id for option in question.options], [*question.labels]):
                if len({name.casefold() for name in names}) < len(names):
                    raise ToolError(f"Two options of {question.text!r} have the same id or label.")

    def questions_of(self, arguments: dict[str, Any]) -> tuple[Question, ...]:
        return questions_of(arguments)

    def answer_of(self, questions: Sequence[Question], text: str) -> Any:
        """Return {"answer": the chosen options, else the user's text, "is_option", "ids"?}.

        ids: ids of the chosen options, if they have any or several may be chosen. Of a form: {"answers": one for each
        question}; if the user's message has not one line for each, {"text": the message}.
        Users are not limited to the options: the model interprets other text.
        """
        if len(questions) == 1:
            return _answer(questions[0], text.strip())
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if len(lines) != len(questions):
            return {"text": text.strip()}
        pairs = zip(questions, lines, strict=True)
        return {"answers": [{"question": question.text, **_answer(question, line)} for question, line in pairs]}


class AskForm(AskUser):
    """A tool of its own: its parameters have four times the size of those of `ask_user`, which most agents list."""

    spec = replace(
        AskUser.spec,
        name=ASK_FORM,
        description="Ask the person up to four questions at once in a form, with explained options, and wait.",
        parameters=parameters(
            "questions",
            questions={
                "type": "array",
                "items": parameters("question", **_QUESTION),
                "minItems": 1,
                "maxItems": _MOST_QUESTIONS,
            },
        ),
    )


def _answer(question: Question, reply: str) -> dict[str, Any]:
    chosen = chosen_options(question, reply)
    answer = ", ".join(option.label for option in chosen) or ("" if reply == NO_ANSWER else reply)
    has_ids = question.allows_several or any(option.id != option.label for option in question.options)
    ids = {"ids": [option.id for option in chosen]} if has_ids else {}
    return {"answer": answer, "is_option": bool(chosen), **ids}
