"""The text of approval requests in chats, and the parsing of their buttons and commands."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from sessions_app.approvals import prompt_text
from tools_app.types import ApprovalStatus, ApprovalView, Change, Decision

NOW = datetime(2026, 11, 21, tzinfo=UTC)
APPROVAL = ApprovalView(
    id=UUID("01a1fefa-7249-744c-86af-50fafb1b0f57"),
    execution_id=uuid4(),
    run_id=uuid4(),
    session_id=uuid4(),
    agent_id="default",
    tool="launch",
    arguments={"target": "moon"},
    risk="high",
    reason="The call is of high risk.",
    status=ApprovalStatus.PENDING,
    decided_by="",
    note="",
    created_at=NOW,
    expires_at=NOW,
    decided_at=None,
    pattern="launch(target=moon)",
)


def prompt(approval: ApprovalView = APPROVAL, change: Change | None = None, **options: object) -> str:
    defaults = {"agent_name": "Ada", "may_decide": True, "has_buttons": True, "room": 2000}
    return prompt_text.prompt(approval, change, **{**defaults, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("decision", Decision)
def test_a_button_fits_and_carries_its_decision(decision: Decision) -> None:
    action = prompt_text.action_id(APPROVAL.id, decision)
    assert len(action.encode()) <= 64
    assert prompt_text.read_action(action) == (APPROVAL.id, decision)


@pytest.mark.parametrize(
    "action", ["", "apr:", "apr:a:o", "other:x", "apr:" + "é" * 22 + ":o", "apr:" + "A" * 22 + ":x"]
)
def test_other_buttons_mean_nothing(action: str) -> None:
    assert prompt_text.read_action(action) is None


def test_only_what_is_offered_has_a_button() -> None:
    narrow = replace(APPROVAL, choices=(Decision.ALLOW_ONCE, Decision.ALLOW_RUN, Decision.DENY))
    assert [button.label for button in prompt_text.buttons(narrow, 8)] == ["Allow once", "Allow for this run", "Deny"]
    assert [button.label for button in prompt_text.buttons(APPROVAL, 3)] == ["Allow once", "Deny"]


def test_a_prompt_shows_everything_a_decision_needs() -> None:
    text = prompt()
    for words in ("Ada", "launch", "high risk", "The call is of high risk.", '"target": "moon"', "launch(target=moon)"):
        assert words in text


def test_secrets_are_masked_and_invisible_characters_are_shown() -> None:
    tricky = replace(APPROVAL, arguments={"token": "hunter2", "target": "moon\u202enus\n```\nfine"}, tool="la`unch")
    text = prompt(tricky)
    assert "hunter2" not in text and "\u202e" not in text and "\\u202e" in text
    assert "```\nfine" not in text and "la`unch" not in text


def test_the_length_of_what_is_masked_is_shown() -> None:
    call = replace(APPROVAL, arguments={"url": f"https://evil.test/in?token={'d' * 32}", "token": "hunter2"})
    text = prompt(call)
    assert '"https://evil.test/in?token=••• (32 characters)"' in text and '"token": "••• (7 characters)"' in text


def test_what_does_not_fit_is_counted() -> None:
    text = prompt(replace(APPROVAL, arguments={"text": "x" * 9000}), room=300)
    assert f"… ({9_001 - text.count('x' * 2) * 2:,} more characters of text)" in text and text.count("x") > 200


def test_targets_are_shown_first_and_cut_last() -> None:
    long = {f"header{number}": "x" * 3_900 for number in range(80)}
    call = replace(
        APPROVAL,
        arguments={"url": "https://evil.test/in", **long},
        targets=("url",),
        places=("evil.test", "xn--pple-43d.com (аpple.com)"),
    )
    for room in (200, 2_500):
        text = prompt(call, room=room)
        assert (
            '"url": "https://evil.test/in"' in text and "Goes to: `evil.test`, `xn--pple-43d.com (аpple.com)`" in text
        )
        assert "more arguments of" in text and "header79" in text or "more characters)" in text
        assert len(text) < room + 900


def test_many_places_are_counted() -> None:
    text = prompt(replace(APPROVAL, places=tuple(f"host{number}.test" for number in range(9))))
    assert "Goes to: `host0.test`, `host1.test`, `host2.test` and 6 more places" in text


def test_a_change_is_shown_as_one() -> None:
    text = prompt(change=Change("one\ntwo", "one\n2", "notes.txt"))
    assert "- two\n+ 2" in text and "notes.txt" in text and '"target": "moon"' in text


def test_without_buttons_the_commands_are_shown() -> None:
    text = prompt(has_buttons=False)
    assert "/approve fb1b0f57" in text and "/deny fb1b0f57" in text and "/approve fb1b0f57 always" in text


def test_a_sender_who_may_not_decide_is_asked_to_wait() -> None:
    text = prompt(may_decide=False)
    assert "We are checking this and will answer here." in text and "/approve" not in text and "Always" not in text


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("/approve", ("", Decision.ALLOW_ONCE, "")),
        ("/approve fb1b0f57", ("fb1b0f57", Decision.ALLOW_ONCE, "")),
        ("/approve FB1B0F57 always", ("FB1B0F57", Decision.ALLOW_ALWAYS, "")),
        ("/approve run", ("", Decision.ALLOW_RUN, "")),
        ("/approve \u200ffb1b0f57\u200e", ("fb1b0f57", Decision.ALLOW_ONCE, "")),
        ("/approve fb1b0f57 perhaps", None),
        ("/deny", ("", Decision.DENY, "")),
        ("/deny fb1b0f57 not on a Sunday", ("fb1b0f57", Decision.DENY, "not on a Sunday")),
        ("/deny not on a Sunday", ("", Decision.DENY, "not on a Sunday")),
    ],
)
def test_commands_are_read_as_people_type_them(text: str, meant: object) -> None:
    assert prompt_text.read_command(text) == meant


def test_a_short_id_names_one_request() -> None:
    other = replace(APPROVAL, id=uuid4())
    assert prompt_text.find_named(prompt_text.short_id(APPROVAL.id), [other, APPROVAL]) is APPROVAL
    assert prompt_text.find_named("", [APPROVAL]) is APPROVAL
    assert prompt_text.find_named("", [APPROVAL, other]) is None
    assert prompt_text.find_named("57", [APPROVAL]) is None  # too short to be meant


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("launch", "every call of launch"),
        ("launch(#0123456789abcdef0123456789abcdef)", "launch with exactly these arguments"),
        ("fetch(url=https://a/*)", "fetch(url=https://a/*)"),
    ],
)
def test_a_simple_pattern_is_described_as_a_sentence(pattern: str, words: str) -> None:
    assert prompt_text.scope(pattern) == words


def test_the_outcome_names_who_decided() -> None:
    denied = replace(APPROVAL, status=ApprovalStatus.DENIED, decision="deny", note="not *now*")
    assert prompt_text.outcome(denied, "Zoë") == "Denied by Zoë"
    assert "Denied by Zoë" in prompt_text.answered(denied, "Zoë") and "not \\*now\\*" in prompt_text.answered(
        denied, "Zoë"
    )
    expired = replace(APPROVAL, status=ApprovalStatus.EXPIRED)
    assert prompt_text.outcome(expired, "system") == "Nobody decided in time: denied"
