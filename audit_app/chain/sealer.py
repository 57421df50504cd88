"""Appends committed audit entries to the hash chain, after the transactions that wrote them.

An entry without a number is not sealed. The number is set once, by a guarded update in the transaction that writes the
seal, so that an entry that commits late is sealed later, and a crash leaves neither numbers nor seal.
"""

from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import Max

from audit_app.chain import hashes, head_file
from audit_app.hot_queries import UNSEALED_ENTRIES
from audit_app.models import AuditCut, AuditEntry, AuditSeal

_NUMBER = "UPDATE komand_audit_log SET number = %s, hash = %s WHERE id = %s AND number IS NULL"


class _SealedElsewhereError(Exception):
    """Another process sealed some of the entries first."""


def seal_next() -> int:
    """Seal the oldest unsealed entries, of one day at most, so that retention can cut between days.

    Owns its transaction. Safe in several processes at once: the slower one changes nothing. Returns the number of
    sealed entries, SEALED_AT_ONCE if there may be more.
    """
    entries = UNSEALED_ENTRIES.fetch()
    if not entries:
        return 0
    day = entries[0].at.date()
    return _seal(list(takewhile(lambda entry: entry.at.date() == day, entries)))


def seal_all() -> None:
    """Seal all entries that are committed now."""
    while AuditEntry.objects.filter(number=None).exists():
        seal_next()


def _seal(entries: list[AuditEntry]) -> int:
    number, last, previous = _end_of_chain()
    values: list[tuple[int, str, Any]] = []
    for place, entry in enumerate(entries, last + 1):
        previous = hashes.hash_entry(previous, place, entry)
        values.append((place, previous, entry.id if connection.features.has_native_uuid_field else entry.id.hex))
    now = datetime.now(UTC)
    seal = AuditSeal(
        number=number + 1,
        first=last + 1,
        last=last + len(entries),
        hash=previous,
        newest_at=min(now, max(entry.at for entry in entries)),
        sealed_at=now,
    )
    seal.signature = hashes.sign_seal(seal)
    try:
        with transaction.atomic():
            AuditSeal.objects.bulk_create([seal], ignore_conflicts=True)  # a conflict shows below; no error in the log
            with connection.cursor() as cursor:
                cursor.executemany(_NUMBER, values)
                if cursor.rowcount != len(entries):
                    raise _SealedElsewhereError
    except (_SealedElsewhereError, IntegrityError):
        return 0
    head_file.write(seal)
    return len(entries)


def _end_of_chain() -> tuple[int, int, str]:
    """Return the number of the newest seal, the highest number of an entry, and the hash to go on from.

    Without the seals of some numbered entries the chain is broken: it goes on, and verification finds the break.
    """
    highest = AuditEntry.objects.aggregate(highest=Max("number"))["highest"] or 0
    if seal := AuditSeal.objects.order_by("-number").first():
        return seal.number, max(seal.last, highest), seal.hash
    if cut := AuditCut.objects.first():
        return cut.seal, max(cut.last, highest), cut.hash
    return 0, highest, hashes.FIRST_HASH
