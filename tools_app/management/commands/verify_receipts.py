"""`manage.py verify_receipts`: verifies receipts and the audit log. Exit code 1 if anything was changed or removed."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from audit_app.chain.hashes import Anchor, find_anchors
from audit_app.chain.verification import Report, Verifier, accept_end
from tools_app.receipts import evidence, receipts

_MOST_SHOWN = 1000


class Command(BaseCommand):
    help = (
        "Check the receipt of every tool execution that has ended, the hash chain of the audit log, and that the "
        "executions and approvals in the log exist. Exit code 1 if a record was changed or removed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--since",
            type=_moment,
            metavar="TIME",
            help="only executions and audit entries since then (ISO 8601, by default in UTC)",
        )
        parser.add_argument(
            "--anchor",
            type=Path,
            action="append",
            default=[],
            metavar="FILE",
            help="compare the log with the anchors in this file, such as that of KOMAND_AUDIT_ANCHOR or a system log",
        )
        parser.add_argument(
            "--accept-end",
            action="store_true",
            help="take the end of the audit log for the right one, after a database was put back or copied alone",
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        anchors = [anchor for path in options["anchor"] for anchor in _read_anchors(path)]
        is_json = options["json"]
        if options["accept_end"]:
            accept_end()
        checked = self._check_receipts(options["since"], is_silent=is_json)
        verifier = Verifier(options["since"], checks=[evidence.find_missing])
        report = verifier.run()
        older = verifier.compare(anchors)
        report.record()
        if is_json:
            self.stdout.write(json.dumps({**checked, "audit": report.as_json()}, ensure_ascii=False))
        else:
            self._print_receipts(checked)
            self._print(report)
            if anchors:
                compared = f"{len(anchors)} anchors compared" + (f", {older} older than the log" if older else "")
                self.stdout.write(f"{compared}.")
        if checked["badCount"] or report.broken:
            sys.exit(1)

    def _print_receipts(self, checked: dict[str, Any]) -> None:
        good, none, bad = checked["good"], checked["none"], checked["badCount"]
        self.stdout.write(f"{checked['checked']} executions: {good} proved, {none} without a receipt, {bad} bad.")

    def _check_receipts(self, since: datetime | None, *, is_silent: bool) -> dict[str, Any]:
        good = none = count = 0
        bad: list[dict[str, str]] = []
        for row in receipts.ended_executions(since):
            verdict = receipts.check_stored(row)
            if verdict.is_valid:
                good += 1
            elif not row.receipt:
                none += 1
            else:
                count += 1
                if not is_silent:
                    self.stdout.write(f"{row.id}  {row.tool}  {row.created_at:%Y-%m-%d %H:%M:%S}  {verdict.reason}")
                if len(bad) < _MOST_SHOWN:
                    bad.append({"executionId": str(row.id), "tool": row.tool, "reason": verdict.reason})
        return {"checked": good + none + count, "good": good, "none": none, "badCount": count, "bad": bad}

    def _print(self, report: Report) -> None:
        for fault in report.faults:
            at = f"{fault.at:%Y-%m-%d %H:%M:%S}" if fault.at else "time unknown"
            self.stdout.write(f"audit entry {fault.number}  {at}  {fault.detail}")
        if report.broken:
            result = f"BROKEN, first at entry {min(fault.number for fault in report.faults)} ({report.broken} faults)"
        else:
            result = "unbroken"
        entries = f"{report.first} to {report.last} in {report.seals} seals" if report.seals else "none sealed"
        self.stdout.write(f"Audit log, entries {entries}: {result}. {report.unsealed} not sealed yet.")


def _read_anchors(path: Path) -> list[Anchor]:
    try:
        anchors = find_anchors(path.read_text(errors="replace"))
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from error
    if not anchors:
        raise CommandError(f"{path} contains no anchor. An anchor has the form ka1.<seal>.<entry>.<hash>.<key>.<code>.")
    return anchors


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
