"""`manage.py restore FOLDER`: fills an empty installation from a backup, and ends what was pending in it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from audit_app.kernel.errors import Unavailable
from komand import data_folder
from komand.backup import database, files, interrupted_work, resumed_work, unfinished_restore
from komand.backup.manifest import BadBackupError, Manifest
from komand.supervisor import preflight


class Command(BaseCommand):
    help = (
        "Restore a backup into an empty installation that is not running. Runs and deliveries that were pending are "
        "ended and reported, because the old installation may have finished them since."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="written by manage.py backup")
        parser.add_argument(
            "--resume",
            action="store_true",
            help="continue pending runs and deliveries: only if the old installation was stopped before the backup",
        )
        parser.add_argument(
            "--end-pending",
            action="store_true",
            help="end pending runs and deliveries, and do nothing else (used internally)",
        )

    def handle(self, *args: Any, folder: Path, **options: Any) -> None:
        data_folder.restrict_new_files()
        if options["end_pending"]:
            ended = interrupted_work.end_pending()
            self.stdout.write(f"Ended {ended.runs} runs and {ended.deliveries} deliveries that were pending.")
            return
        data = Path(settings.DATA_DIR)
        try:
            manifest = Manifest.read(folder)
            state = unfinished_restore.read(data)
            self._check_target(data, state, manifest)
            if state != manifest.created_at:
                unfinished_restore.write(data, unfinished_restore.LOADING)
                files.load(folder, data)
                database.load(folder, manifest)
                unfinished_restore.write(data, manifest.created_at)
        except BadBackupError as error:
            raise CommandError(str(error)) from error
        except (OSError, DatabaseError, Unavailable) as error:
            raise CommandError(f"The backup cannot be restored: {error}") from error
        self.stdout.write(f"Restored and verified: {sum(manifest.rows.values()):,} rows of {manifest.created_at}.")
        if manifest.secrets_elsewhere:
            self.stdout.write(
                f"Set these variables to the values of the old installation: {', '.join(manifest.secrets_elsewhere)}."
            )
        self.stdout.flush()
        # A new process, which reads the restored secrets, migrates to this release and then ends what is pending.
        self._run("prepare", "--of-restore")
        if options["resume"]:
            resumed_work.request(data, manifest.created_at)
        else:
            self._run("restore", str(folder), "--end-pending")
        unfinished_restore.remove(data)

    def _check_target(self, data: Path, state: str, manifest: Manifest) -> None:
        """Refuse a target that runs, has data, or has data of another backup. state: of an interrupted restore."""
        if preflight.is_locked(data):
            raise BadBackupError(f"Komand runs on {data}. Stop it, or restore into another folder.")
        if state not in ("", unfinished_restore.LOADING, manifest.created_at):
            raise BadBackupError(
                f"A restore of the backup of {state} was interrupted. Repeat it, or use another folder."
            )
        if not state and not database.is_empty():
            raise BadBackupError(
                "This installation has data. Restore into an empty one: another folder (KOMAND_DATA_DIR) or database."
            )
        database.check_fit(manifest)

    def _run(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "django", *arguments]
        path = os.pathsep.join(filter(None, [str(settings.BASE_DIR), os.environ.get("PYTHONPATH", "")]))
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
        if arguments[0] != "prepare":
            self.stdout.write(done.stdout.strip())
        if done.returncode:
            raise CommandError(f"manage.py {' '.join(arguments)} failed; run the restore again.")
