"""Interpretation of a user's reply to a question."""

import pytest

from tools_app.builtin.ask_user import AskForm, AskUser
from tools_app.schema import ArgumentsError, check_call
from tools_app.types.questions import Option, Question, answer_line, plain_options, questions_of, text_of

TOOL, FORM = AskUser(), AskForm()
QUESTION = Question("Which?", plain_options(("Red", "Dark blue", "7")))


@pytest.mark.parametrize(
    ("text", "answer", "is_option"),
    [
        ("Red", "Red", True),
        (" dark BLUE \n", "Dark blue", True),
        ("2", "Dark blue", True),
        ("1.", "Red", True),
        ("7", "7", True),
        ("4", "4", False),
        ("0", "0", False),
        ("neither, thanks", "neither, thanks", False),
        ("²", "²", False),
    ],
)
def test_a_reply_names_an_option_by_text_or_number(text, answer, is_option):
    assert TOOL.answer_of([QUESTION], text) == {"answer": answer, "is_option": is_option}


def test_a_question_without_options_accepts_any_text():
    assert TOOL.questions_of({"question": "Why?", "allow_text": False}) == (Question("Why?", (), allows_text=True),)
    assert TOOL.answer_of([Question("Why?")], "because")["is_option"] is False


COLOURS = (Option("r", "Red"), Option("b", "Blue, dark", "Nearly black"), Option("g", "Green"))
SEVERAL = Question("Which?", COLOURS, allows_several=True)


@pytest.mark.parametrize(
    ("text", "answer", "ids"),
    [
        ("b", "Blue, dark", ["b"]),
        ("blue, DARK", "Blue, dark", ["b"]),
        ("r, g", "Red, Green", ["r", "g"]),
        ("1,3, 1", "Red, Green", ["r", "g"]),
        ("r, something else", "r, something else", []),
    ],
)
def test_several_options_are_named_by_id_label_or_number(text, answer, ids):
    assert TOOL.answer_of([SEVERAL], text) == {"answer": answer, "is_option": bool(ids), "ids": ids}


def test_a_form_is_answered_by_one_line_for_each_question():
    form = [QUESTION, SEVERAL, Question("Why?")]
    answers = TOOL.answer_of(form, "red\n\n3\n-")["answers"]
    assert [(each["answer"], each["is_option"]) for each in answers] == [("Red", True), ("Green", True), ("", False)]
    assert [each["question"] for each in answers] == ["Which?", "Which?", "Why?"]
    assert TOOL.answer_of(form, "whatever") == {"text": "whatever"}


@pytest.mark.parametrize(
    ("chosen", "text", "line"),
    [(["r"], "", "Red"), (["r", "g"], " and\n teal ", "Red, Green, and teal"), ([], "", "-"), (["no such"], "", "-")],
)
def test_the_fields_of_a_form_become_a_line_that_is_read_back(chosen, text, line):
    assert answer_line(SEVERAL, chosen, text) == line


def test_options_with_commas_are_sent_by_their_ids():
    assert answer_line(SEVERAL, ["r", "b"], "") == "r, b"
    assert TOOL.answer_of([SEVERAL], "r, b")["ids"] == ["r", "b"]


@pytest.mark.parametrize(
    ("questions", "problem"),
    [
        ([], "questions"),
        ([{"question": "b"}] * 5, "questions"),
        ([{"question": "a", "options": [{"id": "1", "label": "x"}, {"id": "2", "label": "X"}]}], "same id or label"),
        ([{"question": "a", "variant": "loud"}], "variant"),
        ([{"question": "a", "options": [{"id": "a b", "label": "x"}]}], "options"),
    ],
)
def test_what_cannot_be_asked_in_a_form_is_refused(questions, problem):
    with pytest.raises(ArgumentsError, match=problem):
        check_call(FORM, {"questions": questions})


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "question"),
        ({"questions": [{"question": "b"}]}, "question"),
        ({"question": "a", "options": ["x", "X"]}, "same id or label"),
        ({"question": "a", "options": [{"id": "1", "label": "x"}]}, "options"),
    ],
)
def test_what_cannot_be_asked_is_refused(arguments, problem):
    with pytest.raises(ArgumentsError, match=problem):
        check_call(TOOL, arguments)


def test_a_call_with_all_fields_becomes_questions():
    one = {
        "question": "Which?",
        "options": [{"id": "r", "label": "Red", "description": "Warm"}, "Blue"],
        "multiple": True,
        "allow_text": False,
        "variant": "warning",
        "placeholder": "Other",
    }
    check_call(FORM, {"questions": [one]})
    (question,) = questions_of({"questions": [one]})
    options = (Option("r", "Red", "Warm"), Option("Blue", "Blue"))
    assert question == Question("Which?", options, False, True, "Other", "warning")
    assert Question.from_json(question.as_json()) == question


@pytest.mark.parametrize(
    "arguments", [{}, {"question": 7}, {"questions": "no list"}, {"questions": [1, {"options": 2}]}]
)
def test_invalid_arguments_have_no_questions(arguments):
    assert questions_of(arguments) == ()


def test_questions_are_a_text_with_numbered_options():
    assert text_of([Question("Which?", plain_options(("a", "b")))]) == "Which?\n\n1. a\n2. b"
    form = text_of([SEVERAL, Question("Why?")])
    assert form.startswith("(1) Which?\n\n1. Red\n2. Blue, dark – Nearly black") and "separate them by commas" in form
    assert "(2) Why?" in form and form.endswith("one line for each question.")
