"""`manage.py backup FOLDER`: copies database, files and secrets, while everything runs, and verifies the copy."""

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection

from audit_app.kernel.errors import Unavailable
from audit_app.kernel.liveness import shared_folder
from komand import __version__, data_folder
from komand.backup import database, files, history
from komand.backup.manifest import BadBackupError, Manifest
from komand.settings import env
from sessions_app.integrity_checks import find_missing_files
from tools_app.storage import file_store

_SECRETS = ("KOMAND_SECRET_KEY", "KOMAND_JWT_KEY", "KOMAND_VAULT_KEYS", "KOMAND_RECEIPT_KEYS")


class Command(BaseCommand):
    help = (
        "Write a verified backup of this installation (database, files, secrets) into a new folder. It may be running."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="a folder that does not exist or is empty")
        parser.add_argument(
            "--allow-missing", action="store_true", help="exit with 0 even if files that rows refer to are missing"
        )

    def handle(self, *args: Any, folder: Path, allow_missing: bool, **options: Any) -> None:
        data_folder.restrict_new_files()
        elsewhere = [name for name in _SECRETS if env.text(name)]
        manifest = Manifest(
            datetime.now(UTC).isoformat(),
            __version__,
            connection.vendor,
            migrations=[],
            rows={},
            secrets_elsewhere=elsewhere,
        )
        try:
            if database.is_empty():
                raise BadBackupError(
                    f"{settings.DATA_DIR} contains no installation yet: check KOMAND_DATA_DIR and DATABASE_URL."
                )
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise CommandError(f"{folder} is not empty.")
            folder.chmod(0o700)  # it holds secrets
            files.copy(Path(settings.DATA_DIR), folder)
            paths = database.copy(folder, manifest)
            files.copy(Path(settings.DATA_DIR), folder)
            manifest.write(folder)
            Manifest.read(folder)
        except BadBackupError as error:
            raise CommandError(str(error)) from error
        except (OSError, DatabaseError, sqlite3.Error, Unavailable) as error:
            raise CommandError(f"The backup cannot be written: {error}") from error
        rows = sum(manifest.rows.values())
        history.record(rows, len(manifest.files))
        self.stdout.write(f"Backed up and verified: {rows:,} rows, {len(manifest.files):,} files in {folder}.")
        if elsewhere:
            self.stdout.write(f"Not included, because they are set in the environment: {', '.join(elsewhere)}.")
        self._report(find_missing_files(folder, paths), allow_missing)

    def _report(self, missing: list[str], allow_missing: bool) -> None:
        """List the missing files. Raises CommandError, unless they are allowed: the backup is whole but for them."""
        for path in missing:
            self.stdout.write(f"missing: {path}")
        if missing and not allow_missing:
            raise CommandError(
                f"{len(missing)} files that rows refer to are missing in {file_store.current()}, and so in the backup. "
                f"If other hosts have them, {shared_folder.REMEDY}; --allow-missing accepts their loss."
            )
