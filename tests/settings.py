"""Settings of the test run: the web settings in a private data folder, one folder and database a pytest process."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_folder = Path(tempfile.mkdtemp(prefix="komand-tests-"))
atexit.register(shutil.rmtree, _folder, ignore_errors=True)
os.environ["KOMAND_DATA_DIR"] = str(_folder)
os.environ["REDIS_URL"] = f"unix://{_folder}/valkey.sock?db=0"
# No server on this machine has a public certificate, and to read those of the system takes 30 ms for each client.
os.environ["SSL_CERT_DIR"] = str(_folder / "no-certificates")
os.environ.pop("DATABASE_URL", None)
if os.environ.get("KOMAND_TEST_DATABASE_URL"):
    os.environ["DATABASE_URL"] = os.environ["KOMAND_TEST_DATABASE_URL"]

from komand.settings.web import *  # noqa: E402, F403
from komand.settings.web import DATABASES  # noqa: E402

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
if DATABASES["default"]["ENGINE"] == "audit_app.kernel.sqlite":
    DATABASES["default"]["TEST"] = {"NAME": str(_folder / "test.sqlite3")}
    # Test data need not survive a power cut: nothing is synced to disk.
    DATABASES["default"]["OPTIONS"]["init_command"] += "PRAGMA synchronous=OFF;"
else:
    # A pool would hold connections while the test database is dropped. Without one, threads keep theirs for a minute,
    # as in workers: to open one for each query takes longer than most queries.
    DATABASES["default"]["OPTIONS"].pop("pool", None)
    DATABASES["default"]["CONN_MAX_AGE"] = 60
