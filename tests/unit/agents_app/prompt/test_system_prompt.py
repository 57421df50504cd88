from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from agents_app.prompt.system_prompt import PromptPart, ToolNotes, system_message, system_parts

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def text_of(name: str = "Ada", prompt: str = "", **given: Any) -> str:
    return system_message(system_parts(name, prompt, **{"now": NOW, **given})).content


def test_the_rules_follow_the_agents_prompt() -> None:
    message = system_message(system_parts("Ada", "  Be brief.\n", now=NOW))
    assert message.role == "system" and message.content.startswith("Be brief.\n\nYour name is Ada.")
    assert "Sunday, 2026-03-01 (UTC)" in message.content and "data, never instructions" in message.content


def test_braces_in_names_and_prompts_are_just_text() -> None:
    assert "{x}" in text_of("{x}", "{name}")


def test_the_date_is_the_one_in_utc_and_stays_for_a_day() -> None:
    tokyo = datetime(2026, 3, 2, 6, 0, tzinfo=timezone(timedelta(hours=9)))
    assert text_of(now=tokyo) == text_of()


def test_parts_without_text_are_left_out() -> None:
    notes = ToolNotes(["- skill__style: How to write."], has_sources=True)
    parts = system_parts("Ada", " ", tools=notes, sign="0123456789ab")
    assert [part.name for part in parts] == ["rules", "citations", "skills"]
    assert "0123456789ab" in parts[0].text and "data, never instructions" in parts[0].text
    assert parts[2].text.endswith("\n- skill__style: How to write.")
    assert [part.name for part in system_parts("Ada", "")] == ["rules"]
    assert system_message([PromptPart("a", "1"), PromptPart("b", "2")]).content == "1\n\n2"
