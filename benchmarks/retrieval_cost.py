"""Times the recall of memories and the search in messages. Prints JSON: milliseconds.

A separate program, because it needs Django: `python -m benchmarks.retrieval_cost TURNS MEMORIES ROUNDS`. All messages
belong to one user, and all memories to agents of one person, as many for each as are allowed. What it stores stays: use
an installation of a benchmark.
"""

import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from unittest import mock

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "komand.settings.worker"
django.setup()

# Only after Django is set up: these modules name models.
from django.contrib.auth.models import User  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django.utils import timezone  # noqa: E402

from audit_app import stream  # noqa: E402
from audit_app.full_text import index  # noqa: E402
from audit_app.full_text.index import Entry  # noqa: E402
from audit_app.kernel.ids import new_id  # noqa: E402
from sessions_app.conversation import message_index, message_search  # noqa: E402
from sessions_app.models import Session, Turn  # noqa: E402
from sessions_app.services import open_session  # noqa: E402
from tools_app.models import Memory  # noqa: E402
from tools_app.storage import memories  # noqa: E402
from tools_app.storage.memories import MAX_MEMORIES, Holder  # noqa: E402

_BATCH, _SESSION_TURNS = 5_000, 200
_VOCABULARY, _WORDS = 20_000, (8, 60)


class Texts:
    """Texts of made-up words, of which few are frequent and most are rare, the same in each run."""

    def __init__(self) -> None:
        self._random = random.Random(7)
        letters = "abdefgiklmnoprstu"
        self.words = ["".join(self._random.choices(letters, k=self._random.randint(4, 9))) for _ in range(_VOCABULARY)]
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(_VOCABULARY)))

    def text(self) -> str:
        return " ".join(self._random.choices(self.words, cum_weights=self._weights, k=self._random.randint(*_WORDS)))

    def queries(self, words: int) -> Iterator[str]:
        """Yield queries of that many words, from the frequent ones to the rare ones."""
        while True:
            yield " ".join(self._random.choices(self.words, cum_weights=self._weights, k=words))


def _fill_turns(owner: User, count: int, texts: Texts) -> None:
    scope, made, now = message_index.scope_of(owner.pk), 0, timezone.now()
    while made < count:
        rows: list[Turn] = []
        while len(rows) < _BATCH and made + len(rows) < count:
            session = open_session(owner=owner)
            rows += [_turn(session, number, texts.text(), now) for number in range(_SESSION_TURNS)]
        with transaction.atomic():
            Turn.objects.bulk_create(rows, batch_size=500)
            index.put([Entry(row.pk, scope, row.content) for row in rows])
        made += len(rows)


def _turn(session: Session, number: int, text: str, now: object) -> Turn:
    role = "assistant" if number % 2 else "user"
    return Turn(session=session, ordinal=number // 2, part=number % 2, role=role, content=text, created_at=now)


def _fill_memories(actor: str, count: int, texts: Texts) -> list[Holder]:
    holders = [Holder(f"agent-{number}", actor) for number in range(max(1, count // MAX_MEMORIES))]
    now, run_id = timezone.now(), new_id()
    for holder in holders:
        rows = [
            Memory(
                agent_id=holder.agent_id,
                actor=actor,
                key=f"{number} {texts.text()[:40]}",
                text=texts.text(),
                run_id=run_id,
                source=("person", "agent")[number % 2],
                origins="",
                is_pinned=number % 200 == 0,
                created_at=now,
                updated_at=now,
            )
            for number in range(min(count, MAX_MEMORIES))
        ]
        with transaction.atomic():
            Memory.objects.bulk_create(rows, batch_size=500)
            memories.put_entries(rows)
    return holders


def _milliseconds(act: Callable[[], object]) -> float:
    clock = time.thread_time if connection.vendor == "sqlite" else time.perf_counter
    begun = clock()
    act()
    return (clock() - begun) * 1000


def _summary(times: Sequence[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {"median": statistics.median(ordered), "p95": ordered[int(len(ordered) * 0.95)]}


def measure(turns: int, remembered: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return the times of each operation."""
    owner, texts = User.objects.create_user(f"bench-{timezone.now():%H%M%S%f}", "", None), Texts()
    _fill_turns(owner, turns, texts)
    holders = _fill_memories(f"user:{owner.pk}", remembered, texts)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
    one, two = islice(texts.queries(1), rounds), islice(texts.queries(2), rounds)
    messages = islice(texts.queries(20), rounds)
    search = message_search.search_messages
    return {
        "search_one": _summary([_milliseconds(lambda q=query: search(owner, q, limit=20)) for query in one]),
        "search_two": _summary([_milliseconds(lambda q=query: search(owner, q, limit=20)) for query in two]),
        "recall": _summary(
            [
                _milliseconds(lambda h=holder, m=message: memories.recall_trusted(h, m, limit=20, characters=401))
                for holder, message in zip(holders * rounds, messages, strict=False)
            ]
        ),
    }


if __name__ == "__main__":
    with mock.patch.object(stream, "send_hint"):
        print(json.dumps(measure(*map(int, sys.argv[1:4]))))
