"""`manage.py doctor`: checks the installation and prints a remedy for each problem. Exit status 1 if there is one.

With `--security`: problems of security, each with an id and a severity; exit status 1 if one is not `low`.
"""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from komand import security_audit
from komand.doctor import examine
from komand.findings import LOW, Finding


class Command(BaseCommand):
    help = (
        "Check this installation and print a remedy for each problem. Exit status 1 if there is a problem; with "
        "--security only if one is not of low severity."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--security", action="store_true", help="search for what is unsafe (docs/security.md)")
        fix = "with --security: change what can break nothing, which is modes of files in the data folder"
        parser.add_argument("--fix", action="store_true", help=fix)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["fix"] and not options["security"]:
            raise CommandError("--fix needs --security")
        is_json, is_fixing = options["json"], options["fix"]
        if self._audit(is_json, is_fixing) if options["security"] else self._examine(is_json):
            sys.exit(1)

    def _examine(self, is_json: bool) -> bool:
        findings = []
        for finding in examine():
            findings.append(finding)
            if not is_json:
                self.stdout.write(self._line(finding))
        wrong = [finding for finding in findings if not finding.ok]
        if is_json:
            self._write_json(findings, ok=not wrong)
        else:
            self.stdout.write(f"\n{len(wrong)} of {len(findings)} need attention." if wrong else "\nAll is well.")
        return bool(wrong)

    def _audit(self, is_json: bool, is_fixing: bool) -> bool:
        fixed = security_audit.mend() if is_fixing else []
        findings = security_audit.examine()
        if is_json:
            self._write_json(findings, ok=not findings, fixed=fixed)
        else:
            self.stdout.write("\n".join([*fixed, *self._list_problems(findings, is_fixing=is_fixing)]))
        return any(finding.severity != LOW for finding in findings)

    def _list_problems(self, findings: Sequence[Finding], *, is_fixing: bool) -> Iterator[str]:
        for finding in findings:
            severity = self.style.ERROR(f"{finding.severity:<8}")
            yield f"{severity} {finding.id:<19} {finding.name}: {finding.detail}\n    → {finding.mend}"
            if is_fixing:
                yield "    not changed by --fix"
        yield f"\nProblems: {len(findings)}" if findings else "No problem found."

    def _write_json(self, findings: Sequence[Finding], **fields: Any) -> None:
        self.stdout.write(json.dumps({**fields, "findings": [finding.as_json() for finding in findings]}, indent=2))

    def _line(self, finding: Finding) -> str:
        sign = self.style.SUCCESS("✓") if finding.ok else self.style.ERROR("✗")
        mend = f"\n    → {finding.mend}" if finding.mend else ""
        return f"{sign} {finding.name:<18} {finding.detail}{mend}"
