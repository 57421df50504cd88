"""Summaries of compacted conversations in the input of a request."""

from uuid import uuid4

from django.contrib.auth.models import User

from sessions_app.surfaces.openai import compaction_items
from sessions_app.surfaces.openai.item_references import resolve_references


def test_a_summary_of_this_installation_is_read_as_a_text_of_the_assistant() -> None:
    item = compaction_items.item_of(uuid4(), "The key is under the mat.")
    question = {"role": "user", "content": "Where is it?"}
    summary, asked = resolve_references(User(), {"input": [item, question]})["input"]
    assert (summary["role"], asked) == ("assistant", question)
    assert "The key is under the mat." in summary["content"]
