"""`manage.py doctor`: checks the installation and prints a remedy for each problem. Exit code 1 if there is one."""

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from komand.doctor import Finding, examine


class Command(BaseCommand):
    help = "Check this installation and print a remedy for each problem."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        findings = []
        for finding in examine():
            findings.append(finding)
            if not options["json"]:
                self.stdout.write(self._line(finding))
        wrong = [finding for finding in findings if not finding.ok]
        if options["json"]:
            self.stdout.write(
                json.dumps({"ok": not wrong, "findings": [asdict(finding) for finding in findings]}, indent=2)
            )
        else:
            self.stdout.write(f"\n{len(wrong)} of {len(findings)} need attention." if wrong else "\nAll is well.")
        if wrong:
            sys.exit(1)

    def _line(self, finding: Finding) -> str:
        sign = self.style.SUCCESS("✓") if finding.ok else self.style.ERROR("✗")
        mend = f"\n    → {finding.mend}" if finding.mend else ""
        return f"{sign} {finding.name:<18} {finding.detail}{mend}"
