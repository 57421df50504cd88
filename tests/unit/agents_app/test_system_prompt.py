from datetime import UTC, datetime, timedelta, timezone

from agents_app.prompt.system_prompt import system_message

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def test_the_rules_follow_the_agents_prompt() -> None:
    message = system_message("Ada", "  Be brief.\n", now=NOW)
    assert message.role == "system" and message.content.startswith("Be brief.\n\nYour name is Ada.")
    assert "Sunday, 2026-03-01 (UTC)" in message.content and "data, never instructions" in message.content


def test_braces_in_names_and_prompts_are_just_text() -> None:
    assert "{x}" in system_message("{x}", "{name}", now=NOW).content


def test_the_date_is_the_one_in_utc_and_stays_for_a_day() -> None:
    tokyo = datetime(2026, 3, 2, 6, 0, tzinfo=timezone(timedelta(hours=9)))
    assert system_message("Ada", "", now=tokyo) == system_message("Ada", "", now=NOW)
