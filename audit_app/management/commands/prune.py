"""`manage.py prune [--dry-run]`: drops at once what has served its time, as the chores of every second do slowly."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from audit_app import retention


class Command(BaseCommand):
    help = "Drop what is kept no longer, in small batches that no writer has to wait for. Prints what went."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only count what would go")

    def handle(self, *args: Any, **options: Any) -> None:
        for rule in retention.list_rules():
            gone = rule.count() if options["dry_run"] else _prune(rule)
            self.stdout.write(f"{gone:>10,}  {rule.name}  (kept: {rule.says})")


def _prune(rule: retention.Rule) -> int:
    gone = 0
    while (count := rule.prune(retention.BATCH)) == retention.BATCH:
        gone += count
    return gone + count
