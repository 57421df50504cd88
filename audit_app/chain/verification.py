"""Verification of the audit log against its seals, of the records that entries name, and of anchors kept elsewhere."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Max

from audit_app import services
from audit_app.chain import hashes, head_file
from audit_app.chain.hashes import Anchor
from audit_app.kernel.signing_keys import Validity
from audit_app.models import AuditCut, AuditEntry, AuditSeal

VERIFIED, ACCEPTED = "AuditVerified", "AuditEndAccepted"

_SEALS_AT_ONCE, _ENTRIES_AT_ONCE = 50, 500
_MOST_FAULTS, _MOST_RECORDED = 1000, 10


@dataclass(frozen=True)
class Fault:
    """A break.

    number: number of the first entry concerned.
    at: the time of that entry or its seal, if known.
    """

    number: int
    detail: str
    at: datetime | None = None

    def as_json(self) -> dict[str, Any]:
        return {"number": self.number, "at": self.at.isoformat() if self.at else None, "detail": self.detail}


# Checks that the records named by some verified entries still exist, and are as they were. Filled by `komand.wiring`.
RecordCheck = Callable[[Sequence[AuditEntry]], Iterable[Fault]]
record_checks: list[RecordCheck] = []


@dataclass
class Report:
    """The result of a verification: of the entries `first` to `last`, in so many seals.

    full: from the first entry on that retention has left.
    unsealed: entries that have no seal yet.
    broken: the number of faults, of which the first 1,000 are in `faults`.
    """

    full: bool
    first: int = 0
    last: int = 0
    entries: int = 0
    seals: int = 0
    unsealed: int = 0
    broken: int = 0
    faults: list[Fault] = field(default_factory=list)

    def add(self, fault: Fault) -> None:
        self.broken += 1
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(fault)

    def as_json(self) -> dict[str, Any]:
        names = ("full", "first", "last", "entries", "seals", "unsealed", "broken")
        return {**{name: getattr(self, name) for name in names}, "faults": [fault.as_json() for fault in self.faults]}

    def record(self, actor: str = "system") -> None:
        """Write the result to the audit log itself, where `doctor` and the admin read it."""
        details = {**self.as_json(), "faults": [fault.as_json() for fault in self.faults[:_MOST_RECORDED]]}
        services.record(VERIFIED, actor=actor, details=details)


@dataclass(frozen=True)
class _Place:
    """The end of what was verified: number of the seal, number and hash of the entry."""

    seal: int
    last: int
    hash: str


class Verifier:
    """A pass over the log as it is when the pass begins. Reads only; sealing and retention may go on meanwhile."""

    def __init__(
        self, since: datetime | None = None, newest: int = 0, checks: Sequence[RecordCheck] | None = None
    ) -> None:
        """since, newest: begin at the first seal with an entry since then, or with this many of the newest entries.

        checks: instead of `record_checks`.
        """
        self._checks = record_checks if checks is None else checks
        self._cut = AuditCut.objects.first()
        self._end = AuditSeal.objects.aggregate(end=Max("number"))["end"] or 0
        start = self._start(since, newest)
        self._place = start or self._first_place()
        self._unattested: AuditSeal | None = None
        self.report = Report(full=start is None, first=self._place.last + 1, last=self._place.last)
        if self._cut and hashes.check_cut(self._cut) is not Validity.VALID:
            self.report.add(Fault(self._cut.last, "The record of what retention removed is forged.", self._cut.cut_at))

    def run(self) -> Report:
        while self.step():
            pass
        return self.report

    def step(self) -> bool:
        """Verify the next seals, and at the end the rest. Returns False after the end."""
        seals = AuditSeal.objects.filter(number__gt=self._place.seal, number__lte=self._end).order_by("number")
        place, before = self._place, len(self.report.faults)
        chunk = list(seals[:_SEALS_AT_ONCE])
        for seal in chunk:
            self._verify_seal(seal)
            if self._place.last - place.last >= _ENTRIES_AT_ONCE:
                break
        if len(self.report.faults) > before and self._was_cut_after(place):
            del self.report.faults[before:]
            self.report.broken = before
            return True
        if chunk:
            return True
        self._verify_end()
        return False

    def compare(self, anchors: Iterable[Anchor]) -> int:
        """Compare with anchors kept elsewhere. Returns how many are older than what retention has left."""
        older, self._cut = 0, AuditCut.objects.first()
        for anchor in anchors:
            validity = anchor.check()
            if validity is not Validity.VALID:
                self.report.add(Fault(anchor.last, f"The anchor of seal {anchor.seal} is not valid: {validity}."))
            elif self._cut and anchor.seal < self._cut.seal:
                older += 1
            elif problem := self._contradiction(anchor):
                self.report.add(Fault(anchor.last, problem))
        return older

    def _contradiction(self, anchor: Anchor) -> str:
        if self._cut and anchor.seal == self._cut.seal:
            found: tuple[int, str] | None = (self._cut.last, self._cut.hash)
        else:
            found = AuditSeal.objects.filter(number=anchor.seal).values_list("last", "hash").first()
        if found is None:
            return f"Seal {anchor.seal} of the entries up to {anchor.last} is missing: the end of the log was removed."
        if found != (anchor.last, anchor.hash):
            return f"Seal {anchor.seal} is another one than the anchor's: the log was replaced from there or before."
        return ""

    def _start(self, since: datetime | None, newest: int) -> _Place | None:
        """Return the end of the last seal before, if its signature is valid; None for the first place."""
        seals = AuditSeal.objects.order_by("number")
        if since:
            first = seals.filter(newest_at__gte=since).first()
            before = seals.filter(number__lt=first.number) if first else seals
        elif newest:
            before = seals.filter(last__lte=(seals.aggregate(last=Max("last"))["last"] or 0) - newest)
        else:
            return None
        seal = before.last()
        if seal is None or hashes.check_seal(seal) is not Validity.VALID:
            return None
        return _Place(seal.number, seal.last, seal.hash)

    def _first_place(self) -> _Place:
        return _Place(self._cut.seal, self._cut.last, self._cut.hash) if self._cut else _Place(0, 0, hashes.FIRST_HASH)

    def _was_cut_after(self, place: _Place) -> bool:
        """Move to the new cut if retention removed what was just read."""
        cut = AuditCut.objects.first()
        if cut is None or cut.seal <= place.seal:
            return False
        self._cut, self._place, self._unattested = cut, _Place(cut.seal, cut.last, cut.hash), None
        return True

    def _verify_seal(self, seal: AuditSeal) -> None:
        """Verify a seal and the entries since the last verified one. The next valid seal covers those of a bad one."""
        expected = self._place.seal + 1
        if seal.number > expected and self._unattested is None:
            detail = f"The seals {expected} to {seal.number - 1} are missing."
            self.report.add(Fault(self._place.last + 1, detail, seal.sealed_at))
        validity = hashes.check_seal(seal)
        if validity is Validity.VALID:
            self._verify_entries(seal)
            self._place, self._unattested = _Place(seal.number, seal.last, seal.hash), None
            self.report.last, self.report.seals = seal.last, self.report.seals + 1
            return
        if validity is Validity.FORGED:
            self.report.add(Fault(seal.first, f"The signature of seal {seal.number} is wrong.", seal.sealed_at))
        self._unattested = seal
        self._place = _Place(seal.number, self._place.last, self._place.hash)

    def _verify_entries(self, seal: AuditSeal) -> None:
        expected, previous = self._place.last + 1, self._place.hash
        rows = AuditEntry.objects.filter(number__gte=expected, number__lte=seal.last).order_by("number")
        for entries in _chunks(rows):
            for entry in entries:
                self._verify_link(entry, expected, previous)
                expected, previous = (entry.number or 0) + 1, entry.hash
            self.report.entries += len(entries)
            for check in self._checks:
                for fault in check(entries):
                    self.report.add(fault)
        if expected <= seal.last:
            self._add_missing(expected, seal.last, seal.sealed_at)
        elif previous != seal.hash:
            detail = f"The entries {seal.first} to {seal.last} do not match their seal."
            self.report.add(Fault(seal.first, detail, seal.sealed_at))

    def _verify_link(self, entry: AuditEntry, expected: int, previous: str) -> None:
        """Verify that an entry has the expected number, and a hash that continues the previous one."""
        number = entry.number or 0
        if number > expected:
            self._add_missing(expected, number - 1, entry.at)
        elif hashes.hash_entry(previous, number, entry) != entry.hash:
            detail = f"Entry {number} ({entry.action}) or the one before it was changed."
            self.report.add(Fault(number, detail, entry.at))

    def _add_missing(self, first: int, last: int, at: datetime) -> None:
        detail = f"Entry {first} is missing." if first == last else f"The entries {first} to {last} are missing."
        self.report.add(Fault(first, detail, at))

    def _verify_end(self) -> None:
        if seal := self._unattested:
            detail = f"Seal {seal.number} was signed with the key {seal.signature[:8]}, which is not known here."
            self.report.add(Fault(self._place.last + 1, detail, seal.sealed_at))
        # One statement, so that a seal that is being written does not matter.
        newest = AuditSeal.objects.order_by("-number").values("last")[:1]
        sealed = AuditSeal.objects.exists()
        beyond = AuditEntry.objects.filter(number__gt=newest) if sealed else AuditEntry.objects.filter(number__gt=0)
        below = AuditEntry.objects.filter(number__lt=1 if self._cut is None else self._cut.last + 1)
        for rows in (beyond, below):
            if entry := rows.order_by("number").first():
                detail = f"Entry {entry.number} ({entry.action}) has a number and no seal."
                self.report.add(Fault(entry.number or 0, detail, entry.at))
        self.report.unsealed = AuditEntry.objects.filter(number=None).count()
        if head := head_file.read():
            self.compare([head])


def _chunks(rows: Any) -> Iterable[list[AuditEntry]]:
    chunk: list[AuditEntry] = []
    for row in rows.iterator(chunk_size=_ENTRIES_AT_ONCE):
        chunk.append(row)
        if len(chunk) == _ENTRIES_AT_ONCE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def find_lost_end() -> str:
    """Return why the end of the log may be missing, by the file beside the database; empty if it is there.

    Raises OSError if the file cannot be read.
    """
    head = head_file.read()  # before the database, which has each seal first
    if head is None:
        return "audit.head is missing, as after a copy of the database alone." if head_file.is_missing() else ""
    verifier = Verifier(newest=1, checks=[])
    verifier.compare([head])
    return verifier.report.faults[0].detail if verifier.report.faults else ""


def accept_end() -> None:
    """Take the end of the log as it is now for the right one, in `audit.head` and in the log. Raises OSError."""
    if seal := AuditSeal.objects.order_by("-number").first():
        head_file.replace(seal)
        services.record(ACCEPTED, details={"seal": seal.number, "last": seal.last})


def last_result(*, full: bool) -> AuditEntry | None:
    """Return the entry of the newest verification, of the whole log if `full`."""
    newest = AuditEntry.objects.filter(action=VERIFIED).order_by("-id")[:50]
    return next((entry for entry in newest if entry.details.get("full") or not full), None)
