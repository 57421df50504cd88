"""`manage.py verify_receipts`: verifies the receipt of every stored execution. Exit code 1 if a record was changed."""

import json
import sys
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from tools_app.receipts import receipts

_MOST_SHOWN = 1000


class Command(BaseCommand):
    help = "Check the receipt of every tool execution that has ended. Exit code 1 if a record was changed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--since",
            type=_moment,
            metavar="TIME",
            help="only executions created since then (ISO 8601, by default in UTC)",
        )
        parser.add_argument("--json", action="store_true", help="for programs")

    def handle(self, *args: Any, **options: Any) -> None:
        checked = good = none = count = 0
        bad: list[dict[str, str]] = []
        for row in receipts.ended_executions(options["since"]):
            checked += 1
            verdict = receipts.check_stored(row)
            if verdict.is_valid:
                good += 1
            elif not row.receipt:
                none += 1
            else:
                count += 1
                if not options["json"]:
                    self.stdout.write(f"{row.id}  {row.tool}  {row.created_at:%Y-%m-%d %H:%M:%S}  {verdict.reason}")
                if len(bad) < _MOST_SHOWN:
                    bad.append({"executionId": str(row.id), "tool": row.tool, "reason": verdict.reason})
        if options["json"]:
            report = {"checked": checked, "good": good, "none": none, "badCount": count, "bad": bad}
            self.stdout.write(json.dumps(report, ensure_ascii=False))
        else:
            self.stdout.write(f"{checked} executions: {good} proved, {none} without a receipt, {count} bad.")
        if count:
            sys.exit(1)


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
