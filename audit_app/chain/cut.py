"""Retention of the audit log: the oldest entries are removed with their seals, and a signed cut replaces them."""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime

from django.conf import settings
from django.db import transaction

from audit_app import retention
from audit_app.chain import hashes
from audit_app.kernel.signing_keys import Validity
from audit_app.models import AuditCut, AuditEntry, AuditSeal

logger = logging.getLogger(__name__)


class OldEntries(retention.Rule):
    """Sealed entries older than KOMAND_AUDIT_DAYS, from the first one on. The newest seal always stays.

    Entries that do not match their seal are kept, with all later ones: they are evidence.
    """

    name = "entries of the audit log"
    kept_for = "KOMAND_AUDIT_DAYS"

    def prune(self, limit: int) -> int:
        """Remove whole seals. Returns `limit` while old seals are left, even if fewer entries were removed."""
        cut = AuditCut.objects.first()
        first, previous = (cut.last + 1, cut.hash) if cut else (1, hashes.FIRST_HASH)
        removable, has_more = None, False
        for seal in _old_seals():
            has_more = removable is not None and seal.last - first >= limit
            if has_more or not _may_go(seal, removable.last + 1 if removable else first, previous):
                break
            removable, previous = seal, seal.hash
        if removable is None or not _cut_through(removable):
            return 0
        return limit if has_more else removable.last - first + 1

    def count(self) -> int:
        return sum(seal.last - seal.first + 1 for seal in _old_seals())


def _old_seals() -> Iterator[AuditSeal]:
    newest = AuditSeal.objects.order_by("-number").first()
    if not settings.KOMAND_AUDIT_DAYS or newest is None:
        return
    edge = retention.days_ago(settings.KOMAND_AUDIT_DAYS)
    for seal in AuditSeal.objects.filter(number__lt=newest.number).order_by("number").iterator(chunk_size=200):
        if seal.newest_at >= edge:
            return
        yield seal


def _may_go(seal: AuditSeal, first: int, previous: str) -> bool:
    """Return whether the entries from `first` on are as sealed, and old.

    The signature of the next seal covers the hash. It does not cover the time in this one: that needs its own
    signature, or the times of the entries.
    """
    entries = list(AuditEntry.objects.filter(number__gte=first, number__lte=seal.last).order_by("number"))
    for number, entry in enumerate(entries, first):
        previous = hashes.hash_entry(previous, number, entry)
    if seal.first != first or previous != seal.hash or len(entries) != seal.last - first + 1:
        logger.error("the audit log does not match its seal %d: it is not pruned; run verify_receipts", seal.number)
        return False
    edge = retention.days_ago(settings.KOMAND_AUDIT_DAYS)
    return hashes.check_seal(seal) is Validity.VALID or all(entry.at < edge for entry in entries)


def _cut_through(seal: AuditSeal) -> bool:
    """Remove all entries and seals up to this one. Owns its transaction. Returns False if another process did more."""
    cut = AuditCut(pk=1, seal=seal.number, last=seal.last, hash=seal.hash, cut_at=datetime.now(UTC))
    cut.signature = hashes.sign_cut(cut)
    values = {name: getattr(cut, name) for name in ("seal", "last", "hash", "cut_at", "signature")}
    with transaction.atomic():
        _, is_new = AuditCut.objects.get_or_create(pk=1, defaults=values)
        if not is_new and not AuditCut.objects.filter(seal__lt=seal.number).update(**values):
            return False
        AuditEntry.objects.filter(number__lte=seal.last).delete()
        AuditSeal.objects.filter(number__lte=seal.number).delete()
    return True


retention.register(OldEntries())
