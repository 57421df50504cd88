"""`manage.py agents`: exports agents as YAML, and imports them."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from agents_app.configuration import agent_files
from agents_app.models import Agent
from audit_app.kernel import context
from audit_app.management.app_command import AppCommand


class Command(AppCommand):
    help = "Export agents as YAML, without secrets and sharing; import such a file."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        export = actions.add_parser("export", help="Write agents to the standard output.")
        export.add_argument("ids", nargs="*", metavar="ID", help="Default: all agents that are not retired.")
        imported = actions.add_parser("import", help="Create and change agents from a file, all or none.")
        imported.add_argument("file", metavar="FILE", type=Path)
        imported.add_argument("--dry-run", action="store_true", help="Show the changes and write nothing.")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        if action == "export":
            self.stdout.write(self._export(options["ids"]), ending="")
        else:
            self._import(options["file"], dry_run=options["dry_run"])

    def _export(self, ids: list[str]) -> str:
        agents = list(Agent.objects.select_related("provider").filter(retired_at=None))
        if unknown := sorted(set(ids) - {agent.agent_id for agent in agents}):
            raise CommandError(f"There is no agent {unknown[0]!r}.")
        return agent_files.export([agent for agent in agents if not ids or agent.agent_id in ids])

    def _import(self, file: Path, *, dry_run: bool) -> None:
        try:
            planned = agent_files.plan(file.read_text(encoding="utf-8"))
            if not dry_run:
                with context.bind(actor="system"):
                    agent_files.apply(planned)
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{file} cannot be read: {error}") from None
        for one in planned:
            self._show(one)
        self.stdout.write("Nothing was written: this was a dry run." if dry_run else "Imported.")

    def _show(self, one: agent_files.Planned) -> None:
        if one.agent is None:
            self.stdout.write(f"{one.agent_id}: new")
            return
        self.stdout.write(f"{one.agent_id}: {'changed' if one.changes else 'unchanged'}")
        for change in one.changes:
            self.stdout.write(change.diff or f"  {change.field_name}: {change.before!r} → {change.after!r}")
