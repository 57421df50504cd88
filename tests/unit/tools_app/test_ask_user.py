"""Interpretation of a user's reply to a question."""

import pytest

from tools_app.builtin.ask_user import AskUser
from tools_app.types import Question

TOOL = AskUser()
QUESTION = Question("Which?", ("Red", "Dark blue", "7"))


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
    assert TOOL.answer_of(QUESTION, text) == {"answer": answer, "is_option": is_option}


def test_a_question_without_options_accepts_any_text():
    assert TOOL.question_of({"question": "Why?", "allow_text": False}) == Question("Why?", (), allows_text=True)
    assert TOOL.answer_of(Question("Why?"), "because")["is_option"] is False
