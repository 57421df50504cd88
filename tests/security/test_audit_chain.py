"""Attacks on the audit log by someone who can write to the database and does not have the keys."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.db.models import F

from audit_app import hot_queries, services
from audit_app.chain import cut, head_file, sealer
from audit_app.chain.hashes import Anchor, hash_entry, sign_seal
from audit_app.chain.verification import Report, Verifier, find_lost_end, last_result
from audit_app.chain.worker import DailyVerification, run
from audit_app.kernel import single_holder
from audit_app.kernel.ids import new_id
from audit_app.models import AuditCut, AuditEntry, AuditSeal
from komand.doctor import _audit_log
from tests.support.cpu_cost import costs_less_than

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings) -> Path:
    settings.DATA_DIR = tmp_path
    return tmp_path


def write(count: int, **fields: object) -> None:
    text = "ä" if connection.vendor == "postgresql" else "ä\ud800"  # a lone surrogate, which PostgreSQL refuses
    for n in range(count):
        services.record("Tested", details={"n": n, "text": text, "ratio": 1e3, "deep": [{"b": None}]}, **fields)


def sealed(*counts: int) -> None:
    """Write and seal entries, so many with each seal."""
    for count in counts:
        write(count)
        assert sealer.seal_next() == count


def verify(**options) -> Report:
    return Verifier(checks=[], **options).run()


def first_fault(**options) -> int:
    return min(fault.number for fault in verify(**options).faults)


def entries(**which):
    return AuditEntry.objects.filter(**which)


def test_entries_are_numbered_without_gaps_and_unbroken():
    sealed(3, 1, 4)
    write(2)
    assert list(entries(number__isnull=False).order_by("id").values_list("number", flat=True)) == list(range(1, 9))
    report = verify()
    assert not report.faults
    assert (report.first, report.last, report.entries, report.seals, report.unsealed) == (1, 8, 8, 3, 2)


@pytest.mark.parametrize("number", [1, 4, 8])
def test_a_deleted_entry_is_found(number):
    sealed(3, 1, 4)
    at = entries(number=number).get().at
    entries(number=number).delete()
    report = verify()
    assert [fault.number for fault in report.faults] == [number] and "missing" in report.faults[0].detail
    assert abs(report.faults[0].at - at) < timedelta(seconds=10)


def test_several_deleted_entries_are_one_gap():
    sealed(6)
    entries(number__in=[2, 3, 4]).delete()
    assert [fault.detail for fault in verify().faults] == ["The entries 2 to 4 are missing."]


def test_the_deletion_of_everything_is_found():
    sealed(3, 2)
    AuditEntry.objects.all().delete()
    AuditSeal.objects.all().delete()
    assert first_fault() == 5
    assert "end of the log was removed" in verify().faults[0].detail


CHANGES = {
    "action": {"action": "Other"},
    "actor": {"actor": "user:2"},
    "agent": {"agent_id": "b"},
    "request": {"request_id": "r"},
    "session": {"session_id": "01a1fef2-905c-71dc-8848-8ce97d5142e8"},
    "session key": {"session_key": "WebChat:web:7"},
    "time": {"at": F("at") - timedelta(microseconds=1)},
    "details": {"details": {"n": 2}},
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_field_is_found(what):
    sealed(3, 2)
    entries(number=3).update(**CHANGES[what])
    assert [fault.number for fault in verify().faults] == [3]


def test_a_changed_entry_with_its_hash_computed_anew_is_found():
    sealed(3, 2)
    changed = entries(number=2).get()
    changed.actor = "user:2"
    changed.hash = hash_entry(entries(number=1).get().hash, 2, changed)
    changed.save()
    assert first_fault() == 3


def test_a_chain_computed_anew_without_the_key_is_found():
    sealed(3, 2)
    previous = entries(number=1).get().hash
    for entry in entries(number__gte=2).order_by("number"):
        entry.actor = "user:2"
        entry.hash = previous = hash_entry(previous, entry.number or 0, entry)
        entry.save()
    AuditSeal.objects.filter(number=1).update(hash=entries(number=3).get().hash)
    AuditSeal.objects.filter(number=2).update(hash=previous)
    details = [fault.detail for fault in verify().faults]
    assert "The signature of seal 1 is wrong." in details and "The signature of seal 2 is wrong." in details


def test_swapped_entries_are_found():
    sealed(4)
    two, three = entries(number=2).get(), entries(number=3).get()
    entries(pk=two.pk).update(number=99)
    entries(pk=three.pk).update(number=2)
    entries(pk=two.pk).update(number=3)
    assert first_fault() == 2


def test_a_forged_entry_with_a_number_is_found():
    sealed(4)
    last = entries(number=4).get()
    forged = AuditEntry(action="Forged", actor="user:1", at=last.at, number=5)
    forged.hash = hash_entry(last.hash, 5, forged)
    forged.save()
    assert [(fault.number, "no seal" in fault.detail) for fault in verify().faults] == [(5, True)]
    sealed(2)
    assert first_fault() <= 6


def test_a_forged_entry_in_place_of_a_deleted_one_is_found():
    sealed(4)
    entries(number=2).delete()
    AuditEntry.objects.create(action="Forged", actor="user:1", at=datetime.now(UTC), number=2, hash="0" * 64)
    assert first_fault() == 2


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_deleted_seal_is_found(number):
    sealed(2, 2, 2)
    AuditSeal.objects.filter(number=number).delete()
    assert verify().faults


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_removed_end_is_found_even_if_the_log_goes_on(goes_on):
    sealed(2, 2, 2)
    entries(number__gt=4).delete()
    AuditSeal.objects.filter(number=3).delete()
    if goes_on:
        sealed(2, 2)
    assert any("replaced" in fault.detail or "end of the log" in fault.detail for fault in verify().faults)


def test_sealing_goes_on_after_seals_were_deleted():
    sealed(2, 2)
    AuditSeal.objects.all().delete()
    sealed(2)
    assert entries(number=6).exists() and verify().faults


def test_the_file_beside_the_database_survives_a_replaced_end(folder):
    sealed(2, 2)
    before = (folder / "audit.head").read_text()
    assert (folder / "audit.head").stat().st_mode & 0o077 == 0
    entries(number__gt=2).delete()
    AuditSeal.objects.filter(number=2).delete()
    sealed(3, 3)
    assert (folder / "audit.head").read_text() == before


def test_a_file_that_cannot_be_written_does_not_stop_the_sealing(settings, caplog):
    settings.DATA_DIR = "/proc/none"
    sealed(2)
    assert "cannot be written" in caplog.text


def test_a_crash_while_sealing_leaves_the_entries_for_the_next(monkeypatch):
    write(3)

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(AuditSeal.objects, "bulk_create", crash)
        with pytest.raises(KeyboardInterrupt):
            sealer.seal_next()
    with monkeypatch.context() as patched:
        patched.setattr(head_file, "write", crash)
        with pytest.raises(KeyboardInterrupt):
            sealer.seal_next()
    sealed(2)
    report = verify()
    assert (report.entries, report.unsealed, report.faults) == (5, 0, [])


def test_what_another_process_sealed_first_is_not_sealed_again(monkeypatch):
    write(3)
    stale = hot_queries.UNSEALED_ENTRIES.fetch()
    assert sealer.seal_next() == 3
    assert sealer._seal(stale) == 0
    assert (AuditSeal.objects.count(), verify().faults) == (1, [])


def test_a_seal_holds_the_entries_of_one_day():
    write(1)
    entries().update(at=F("at") - timedelta(days=3))
    write(2)
    assert (sealer.seal_next(), sealer.seal_next(), sealer.seal_next()) == (1, 2, 0)


@pytest.mark.django_db(transaction=True)
def test_concurrent_sealers_seal_everything_once():
    write(30)
    barrier = Barrier(4)

    def seal(_: int) -> int:
        try:
            barrier.wait(30)
            return sum(sealer.seal_next() for _ in range(5))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(seal, range(4))) == 30
    report = verify()
    assert (report.entries, report.unsealed, report.faults) == (30, 0, [])


@pytest.mark.django_db(transaction=True)
def test_an_entry_that_commits_late_is_sealed_later():
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writing transaction at a time")
    early, written, committed = new_id(), Barrier(2), Barrier(2)

    def commit_late(_: int) -> None:
        try:
            with transaction.atomic():
                AuditEntry.objects.create(id=early, action="Late", actor="user:1", at=datetime.now(UTC))
                written.wait(30)
                committed.wait(30)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as threads:
        late = threads.submit(commit_late, 0)
        written.wait(30)
        sealed(3)
        committed.wait(30)
        late.result(30)
    assert sealer.seal_next() == 1
    assert entries(id=early).get().number == 4 and entries(number=3).get().id > early
    assert not verify().faults


@pytest.fixture
def old(settings) -> Callable[..., None]:
    """Return a function that seals entries of a hundred days ago, so many with each seal; the limit is 90 days."""
    settings.KOMAND_AUDIT_DAYS = 90

    def seal_old(*counts: int) -> None:
        for count in counts:
            write(count)
            entries(number=None).update(at=datetime.now(UTC) - timedelta(days=100))
            assert sealer.seal_next() == count

    return seal_old


def test_retention_leaves_a_signed_cut_from_which_verification_goes_on(old):
    old(2, 3, 1)
    sealed(2)
    rule = cut.OldEntries()
    assert (rule.count(), rule.prune(5)) == (6, 5)
    assert (rule.count(), rule.prune(5), rule.prune(5)) == (1, 1, 0)
    assert AuditCut.objects.get().last == 6 and entries().count() == 2
    report = verify()
    assert (report.full, report.first, report.last, report.faults) == (True, 7, 8, [])


def test_retention_keeps_the_newest_seal_and_what_is_not_sealed(old):
    old(2)
    write(1)
    assert cut.OldEntries().prune(5) == 0 and entries().count() == 3


@pytest.mark.parametrize("forged", [{"last": 1}, {"seal": 1}, {"hash": "0" * 64}, {"signature": "0" * 8 + ".x"}])
def test_a_forged_cut_is_found(old, forged):
    old(2, 2)
    sealed(2)
    cut.OldEntries().prune(5)
    AuditCut.objects.update(**forged)
    assert verify().faults


def test_a_beginning_removed_without_a_cut_is_found():
    sealed(2, 2)
    entries(number__lte=2).delete()
    AuditSeal.objects.filter(number=1).delete()
    assert first_fault() == 1


def test_retention_does_not_remove_the_traces_of_an_attack(old, caplog):
    old(2, 2)
    sealed(2)
    entries(number=1).delete()
    assert cut.OldEntries().prune(5) == 0
    assert "verify_receipts" in caplog.text and first_fault() == 1


def test_seals_made_old_do_not_make_retention_remove_young_entries(old):
    sealed(2, 2)
    AuditSeal.objects.update(newest_at=F("newest_at") - timedelta(days=100))
    assert cut.OldEntries().prune(5) == 0 and entries().count() == 4


def test_retention_under_a_verification_is_no_break(old, monkeypatch):
    old(2, 2)
    sealed(2)
    verifier = Verifier(checks=[])
    cut.OldEntries().prune(5)
    report = verifier.run()
    assert not report.faults and report.last == 6


def test_keys_rotate_and_the_chain_goes_on(settings):
    sealed(2)
    first = settings.KOMAND_RECEIPT_KEYS
    settings.KOMAND_RECEIPT_KEYS = f"{'n' * 48},{first}"
    sealed(2)
    assert not verify().faults
    settings.KOMAND_RECEIPT_KEYS = "n" * 48  # the newer seal covers the entries of the older one
    assert not verify().faults
    settings.KOMAND_RECEIPT_KEYS = "m" * 48
    assert "not known here" in verify().faults[0].detail


def test_a_seal_with_an_unknown_key_hides_nothing():
    sealed(2, 2)
    AuditSeal.objects.filter(number=1).update(signature="0" * 8 + "." + "x" * 43)
    assert not verify().faults  # the next one covers its entries
    entries(number=1).update(actor="user:2")
    assert first_fault() == 1
    AuditSeal.objects.filter(number=2).update(signature="0" * 8 + "." + "x" * 43)
    assert any("not known here" in fault.detail for fault in verify().faults)


def test_an_anchor_kept_elsewhere_finds_a_replaced_database(folder, capsys):
    sealed(2, 2)
    anchor = Anchor.of(AuditSeal.objects.get(number=2))
    place = folder / "anchors"
    place.write_text(f"Nov 22 log: {anchor}\n")
    call_command("verify_receipts", "--anchor", str(place))
    assert "1 anchors compared." in capsys.readouterr().out
    AuditEntry.objects.all().delete()
    AuditSeal.objects.all().delete()
    (folder / "audit.head").unlink()
    sealed(4, 4)
    with pytest.raises(SystemExit):
        call_command("verify_receipts", "--anchor", str(place))
    assert "BROKEN, first at entry 4" in capsys.readouterr().out


def test_a_forged_anchor_is_no_anchor(folder):
    sealed(2)
    anchor = str(Anchor.of(AuditSeal.objects.get()))
    (folder / "forged").write_text(anchor[:-4] + "AAAA")
    with pytest.raises(SystemExit):
        call_command("verify_receipts", "--anchor", str(folder / "forged"))
    (folder / "none").write_text("nothing")
    with pytest.raises(CommandError, match="contains no anchor"):
        call_command("verify_receipts", "--anchor", str(folder / "none"))


def test_the_command_names_the_first_break(capsys):
    sealed(3)
    entries(number=2).delete()
    with pytest.raises(SystemExit) as exit_info:
        call_command("verify_receipts")
    assert exit_info.value.code == 1
    assert "Audit log, entries 1 to 3 in 1 seals: BROKEN, first at entry 2 (1 faults)" in capsys.readouterr().out
    result = last_result(full=True)
    assert result and (result.details["broken"], result.details["faults"][0]["number"]) == (1, 2)


def test_a_part_is_verified_from_a_seal_on(capsys):
    sealed(3)
    entries().update(at=F("at"))
    edge = datetime.now(UTC)
    sealed(2)
    entries(number=1).delete()
    call_command("verify_receipts", "--since", edge.isoformat(), "--json")
    audit = json.loads(capsys.readouterr().out)["audit"]
    assert (audit["full"], audit["first"], audit["last"], audit["broken"]) == (False, 4, 5, 0)
    report = verify(newest=2)
    assert (report.full, report.first, report.faults) == (False, 4, [])
    assert verify(newest=3).full and first_fault(newest=3) == 1


def test_the_log_is_verified_daily_by_one_process(monkeypatch):
    sealed(60)
    holder: dict[str, str] = {}
    monkeypatch.setattr(single_holder, "is_held", lambda name, token: holder.setdefault(name, token) == token)
    one, other = DailyVerification(clock=lambda: 0.0), DailyVerification(clock=lambda: 0.0)
    for _ in range(5):
        one.step()
        other.step()
    (result,) = entries(action="AuditVerified")
    assert result.details["full"] and result.details["last"] == 60
    entries(pk=result.pk).update(at=F("at") - timedelta(hours=25))
    entries(number=7).delete()
    one._next_look = float("-inf")
    for _ in range(5):
        one.step()
    again = last_result(full=True)
    assert again and again.pk != result.pk and again.details["broken"]


@pytest.mark.whole
@pytest.mark.one_database
def test_ten_thousand_entries_are_sealed_and_verified_at_a_small_cost():
    AuditEntry.objects.bulk_create(
        [
            AuditEntry(
                id=new_id(), action="MessageReceived", actor="user:1", at=datetime.now(UTC), details={"text": "x" * 200}
            )
            for _ in range(10_000)
        ],
        batch_size=80,
    )
    with costs_less_than(4.0):
        while sealer.seal_next():
            pass
    with costs_less_than(3.0):
        report = verify()
    assert (report.entries, report.seals, report.faults) == (10_000, 50, [])


def test_the_seal_of_a_stranger_key_is_forged():
    sealed(2)
    seal = AuditSeal.objects.get()
    assert sign_seal(seal) == seal.signature
    AuditSeal.objects.update(sealed_at=F("sealed_at") + timedelta(seconds=1))
    assert "signature" in verify().faults[0].detail


def age() -> None:
    """Let the chain be older than the time in which its first seal is written to the file."""
    for seal in AuditSeal.objects.all():
        seal.sealed_at -= timedelta(days=1)
        seal.signature = sign_seal(seal)
        seal.save()


async def start_worker(caplog) -> str:
    """Return what the background work logs before it seals for the first time."""
    working = asyncio.create_task(run())
    while await sync_to_async(entries(number=None).exists)():
        await asyncio.sleep(0.01)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    return caplog.text


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("has_file", [False, True])
def test_a_database_that_was_copied_without_its_end_is_found_at_the_start(folder, caplog, has_file):
    sealed(2, 2)
    age()
    if has_file:
        entries(number__gt=2).delete()
        AuditSeal.objects.filter(number=2).delete()
    else:
        (folder / "audit.head").unlink()
    write(1)
    logged = async_to_sync(start_worker)(caplog)
    assert "the end of the audit log, and other rows of that time, may be lost" in logged
    # The worker has sealed since, and the loss is still known, until it is accepted.
    [finding] = [finding for finding in _audit_log() if not finding.ok]
    assert "--accept-end" in finding.mend and ("another one" if has_file else "is missing") in finding.detail
    call_command("verify_receipts", "--accept-end")
    assert find_lost_end() == "" and head_file.read() == Anchor.of(AuditSeal.objects.latest("number"))
    assert entries(action="AuditEndAccepted").exists()
    sealer.seal_all()
    assert find_lost_end() == "" and verify().faults == []


def test_a_new_chain_and_one_with_its_file_lack_nothing(folder):
    assert find_lost_end() == ""
    sealed(2)
    (folder / "audit.head").unlink()  # a process that ended before it wrote the first seal there
    assert find_lost_end() == ""
    sealed(2)
    age()
    assert find_lost_end() == "" and (folder / "audit.head").exists()


def test_a_further_host_with_a_folder_of_its_own_lacks_nothing(folder, settings):
    sealed(2, 2)
    age()
    (folder / "audit.head").unlink()
    assert find_lost_end() != ""
    settings.KOMAND_S3_BUCKET = "files"
    assert find_lost_end() == ""
    sealed(1)
    assert find_lost_end() == "" and head_file.read() == Anchor.of(AuditSeal.objects.latest("number"))


def test_a_damaged_head_file_is_found(folder):
    sealed(2)
    (folder / "audit.head").write_text("damaged")
    assert head_file.read() is not None and verify().faults
