"""The checks after random faults: each message has one end, and every viewer has the stored text."""

from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from tests.chaos.clients import Watching
from tests.chaos.live_faults_support import Installation
from tests.chaos.load import Load, Message
from tests.fakes.telegram import FakeTelegram
from tests.support.live_server import wait_for

# Error codes of a message that met too many faults: stored, shown, and possible to retry.
_HONEST_ENDS = ("crashed", "time_limit")


def judge(load: Load) -> None:
    """Check everything. Raises AssertionError with all problems."""
    found = [*load.problems, *(problem for message in load.messages for problem in _of_message(load, message))]
    found += [problem for viewer in load.viewers for problem in _of_viewer(load.host, viewer)]
    found += _of_platform(load.host, load.telegram)
    assert not found, f"{len(found)} problems:\n" + "\n".join(found[:20])
    load.host.check_invariants()


def summary(load: Load) -> str:
    runs = load.host.rows("SELECT status, error_code, fence FROM komand_run")
    ends: dict[str, int] = {}
    for run in runs:
        end = run["error_code"] or run["status"]
        ends[end] = ends.get(end, 0) + 1
    counts = ", ".join(f"{name} {count}" for name, count in sorted(ends.items()))
    drops = sum(viewer.drops for viewer in load.viewers)
    return (
        f"seed {load.seed}: {len(load.deeds)} breakages, {len(load.messages)} messages ({counts}), "
        f"{sum(run['fence'] for run in runs)} claims, {len(load.viewers)} viewers with {drops} reconnections, "
        f"{len(load.telegram.calls)} calls of the platform"
    )


def _of_message(load: Load, message: Message) -> Iterator[str]:
    host = load.host
    turns = host.rows(f"SELECT run_id FROM komand_turn WHERE role = 'user' AND content LIKE '%{message.key}%'")
    if not turns and host.rows(
        f"SELECT 1 FROM komand_inbound_message WHERE text LIKE '%{message.key}%' AND reason = 'queue_full'"
    ):
        return
    if len(turns) != (1 if message.is_taken else len(turns[:1])):
        yield f"{message.key} was taken in {len(turns)} times"
        return
    for turn in turns:
        run, answer = host.run(UUID(str(turn["run_id"]))), host.answer(UUID(str(turn["run_id"])))
        if run["status"] == "completed":
            if message.expected not in (None, answer["content"]):
                yield f"{message.key} was answered by {answer['content']!r}"
        elif run["status"] == "cancelled":
            if message.place not in load.stopped:
                yield f"{message.key} was stopped, by nobody"
        elif not (run["error_code"].startswith("model_") or run["error_code"] in _HONEST_ENDS):
            yield f"{message.key} ended as {run['status']} ({run['error_code']})"
        elif answer["state"] != "error" or not answer["error_message"]:
            yield f"{message.key} has no readable end"


def _of_viewer(host: Installation, viewer: Watching) -> Iterator[str]:
    """Check that the answers on the page are the stored ones, and so was the text that it got live."""
    session = host.key(viewer.session_id)
    turns = host.rows(
        "SELECT run_id, content FROM komand_turn WHERE role = 'assistant'"
        f" AND session_id = '{session}' ORDER BY ordinal, part"
    )
    stored: dict[str, list[str]] = {}
    for turn in turns:
        stored.setdefault(str(UUID(str(turn["run_id"]))), []).append(turn["content"])
    try:
        wait_for(lambda: set(viewer.answers) >= set(stored), 60, "what a viewer missed")
    except AssertionError:
        yield f"a viewer never saw the answers of {set(stored) - set(viewer.answers)}"
    finally:
        viewer.stop()
    yield from (f"a viewer of {session} met a gap: {gap}" for gap in viewer.gaps)
    for run_id, text in viewer.answers.items():
        expected = "\n\n".join(filter(None, stored.get(run_id, [])))
        if text.strip("\n") != expected.strip("\n"):
            yield f"run {run_id}: a viewer has {text!r}, stored is {expected!r}"
    yield from _of_live_text(host, viewer)


def _of_live_text(host: Installation, viewer: Watching) -> Iterator[str]:
    for run_id, lengths in viewer.lengths.items():
        run = host.run(UUID(run_id))
        steps = host.rows(f"SELECT \"index\", text FROM komand_step WHERE run_id = '{host.key(UUID(run_id))}'")
        stored = {step["index"]: len(step["text"]) for step in steps if step["text"]}
        shown = {step: length for step, length in lengths.items() if length}
        if run["status"] == "completed" and shown != stored:
            yield f"run {run_id}: a viewer was shown {shown} characters live, stored are {stored}"


def _of_platform(host: Installation, telegram: FakeTelegram) -> Iterator[str]:
    """Check that sent deliveries are in their chat once and in order, unknown ones at most once, and no others."""
    rows = host.rows("SELECT status, lane, body, provider_message_id FROM komand_delivery ORDER BY id")
    by_chat: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_chat.setdefault(int(row["lane"].rpartition(":")[2]), []).append(row)
    for chat, deliveries in by_chat.items():
        shown = telegram.messages.get(chat, {})
        sent = [int(row["provider_message_id"]) for row in deliveries if row["status"] == "sent"]
        if sent != sorted(set(sent)):
            yield f"chat {chat}: what was sent is not in order, or two are one message: {sent}"
        for body in {row["body"] for row in deliveries}:
            ends = Counter(row["status"] for row in deliveries if row["body"] == body)
            count = sum(text == body for text in shown.values())
            if not ends["sent"] <= count <= ends["sent"] + ends["unknown"]:
                yield f"chat {chat}: {body!r} was {dict(ends)} and stands there {count} times"
