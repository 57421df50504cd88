"""Settings of the test run: the web settings in a private data folder, one folder and database a pytest worker."""

import os
import tempfile
from pathlib import Path

_folder = Path(tempfile.gettempdir()) / f"komand-tests-{os.getuid()}" / os.environ.get("PYTEST_XDIST_WORKER", "main")
_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
os.environ["KOMAND_DATA_DIR"] = str(_folder)
os.environ["REDIS_URL"] = f"unix://{_folder}/valkey.sock?db=0"
if os.environ.get("KOMAND_TEST_DATABASE_URL"):
    os.environ["DATABASE_URL"] = os.environ["KOMAND_TEST_DATABASE_URL"]

from komand.settings.web import *  # noqa: E402, F403
from komand.settings.web import DATABASES  # noqa: E402

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
if DATABASES["default"]["ENGINE"] == "audit_app.sqlite":
    DATABASES["default"]["TEST"] = {"NAME": str(_folder / "test.sqlite3")}
