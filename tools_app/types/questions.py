"""Questions to users: their data, and how the arguments of `ask_user` and `ask_form` become questions. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID


class InputStatus(StrEnum):
    """Status of a question to a user. CANCELLED: the call was cancelled before the answer."""

    PENDING = "pending"
    ANSWERED = "answered"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


ASK_USER, ASK_FORM = "ask_user", "ask_form"
ASKING_TOOLS = frozenset({ASK_USER, ASK_FORM})  # the tools by which a run asks its user
MCP_PREFIX = "mcp__"  # of the names of tools of MCP servers
REMOTE_PREFIXES = (MCP_PREFIX, "skill__")  # of tools whose calls may ask while they run
DECLINE = "Decline"  # the answer by which a person refuses what a server asks
NO_ANSWER = "-"  # the line of a question that the user left out
VARIANTS = ("default", "warning", "info", "success")
LONGEST_QUESTION, LONGEST_OPTION, MOST_OPTIONS = 2_000, 200, 10  # characters of a question and of an option


@dataclass(frozen=True)
class Option:
    """An answer to choose from. id: what clients send back; for a plain text, the text."""

    id: str
    label: str
    description: str = ""


@dataclass(frozen=True)
class Question:
    """A question to a user.

    options: answers to choose from.
    allows_text: free text is accepted as well.
    allows_several: several options may be chosen.
    placeholder: placeholder of the field for free text.
    variant: the tone in which it is shown, one of VARIANTS.
    """

    text: str
    options: tuple[Option, ...] = ()
    allows_text: bool = True
    allows_several: bool = False
    placeholder: str = ""
    variant: str = "default"

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(option.label for option in self.options)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Question":
        return cls(**{**data, "options": tuple(Option(**option) for option in data["options"])})


def plain_options(texts: Iterable[str]) -> tuple[Option, ...]:
    """Return options whose ids are their texts."""
    return tuple(Option(text, text) for text in texts)


def questions_of(arguments: Mapping[str, Any]) -> tuple[Question, ...]:
    """Return the questions of a call of `ask_user` or `ask_form`; none if a model has sent no questions there."""
    given = arguments.get("questions") or [arguments]
    return tuple(_question(each) for each in given if isinstance(each, dict) and isinstance(each.get("question"), str))


def _question(given: Mapping[str, Any]) -> Question:
    listed = given.get("options", ())
    options = tuple(_option(each) for each in listed) if isinstance(listed, list | tuple) else ()
    return Question(
        given["question"],
        options,
        allows_text=not options or bool(given.get("allow_text", True)),
        allows_several=bool(options) and bool(given.get("multiple", False)),
        placeholder=str(given.get("placeholder", "")),
        variant=given["variant"] if given.get("variant") in VARIANTS else VARIANTS[0],
    )


def _option(given: Any) -> Option:
    if not isinstance(given, dict):
        return Option(str(given), str(given))
    label = str(given.get("label", ""))
    return Option(str(given.get("id", label)), label, str(given.get("description", "")))


def answer_line(question: Question, chosen: Sequence[str], text: str) -> str:
    """Return the answer to one question as a line of text, which `ask_user` reads.

    chosen: ids of options.
    text: written by the user. `NO_ANSWER` if both are empty.
    """
    options = [option for option in question.options if option.id in chosen]
    has_commas = any("," in option.label for option in options)
    named = [option.id if has_commas else option.label for option in options]
    return ", ".join([*named, *([" ".join(text.split())] if text.strip() else [])]) or NO_ANSWER


def answer_in(output: Mapping[str, Any]) -> str:
    """Return the user's answer in the output of an asking tool, one line for each question of a form."""
    answers = output.get("answers")
    if not isinstance(answers, list):
        return str(output.get("answer") or output.get("text") or "")
    return "\n".join(str(each.get("answer") or "–") for each in answers if isinstance(each, dict))


def chosen_options(question: Question, reply: str) -> list[Option]:
    """Return the options that the reply names, none if it names anything else."""
    whole = _named(question.options, reply)
    if whole or not question.allows_several:
        return [whole] if whole else []
    named = [_named(question.options, part.strip()) for part in reply.split(",") if part.strip()]
    found = [option for option in named if option]
    return list(dict.fromkeys(found)) if len(found) == len(named) else []


def _named(options: Sequence[Option], reply: str) -> Option | None:
    """Return the option that the reply names by its id, its label or its number."""
    for option in options:
        if reply.casefold() in (option.id.strip().casefold(), option.label.strip().casefold()):
            return option
    number = reply.rstrip(".)")
    if number.isascii() and number.isdigit() and len(number) < 3 and 1 <= int(number) <= len(options):
        return options[int(number) - 1]
    return None


def text_of(questions: Sequence[Question], *, with_options: bool = True) -> str:
    """Return the questions as Markdown. Options are numbered, so that a number can be the answer."""
    if len(questions) == 1:
        return _text_of(questions[0], with_options=with_options)
    numbered = (
        f"({number}) {_text_of(question, with_options=with_options)}" for number, question in enumerate(questions, 1)
    )
    return "\n\n".join([*numbered, "Please answer in one message, with one line for each question."])


def _text_of(question: Question, *, with_options: bool) -> str:
    shown = question.options if with_options else ()
    lines = [
        f"{number}. {option.label.strip()}" + (f" – {option.description.strip()}" if option.description else "")
        for number, option in enumerate(shown, start=1)
    ]
    hint = "Several are possible: separate them by commas." if shown and question.allows_several else ""
    return "\n\n".join(part for part in (question.text.strip(), "\n".join(lines), hint) if part)


@dataclass(frozen=True)
class InputView:
    """A form of one or several questions as other apps see it. One message answers all of them."""

    id: UUID
    execution_id: UUID
    run_id: UUID
    session_id: UUID
    questions: tuple[Question, ...]
    status: InputStatus
    expires_at: datetime
