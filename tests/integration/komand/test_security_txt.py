import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as project
from django.test import Client

PATH = "/.well-known/security.txt"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


def test_there_is_no_file_without_a_contact(client: Client) -> None:
    assert client.get(PATH).status_code == 404


def test_the_file_lists_contacts_and_a_date_of_expiry(client: Client, settings: Any) -> None:
    settings.KOMAND_SECURITY_CONTACT = ["mailto:security@komand.example", "https://komand.example/report"]
    settings.KOMAND_PUBLIC_URL = "https://komand.example"
    answer = client.get(PATH)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    *contacts, expires, canonical = answer.text.splitlines()
    assert contacts == ["Contact: mailto:security@komand.example", "Contact: https://komand.example/report"]
    left = datetime.fromisoformat(expires.removeprefix("Expires: ")) - datetime.now(UTC)
    assert timedelta(days=30) < left < timedelta(days=365)
    assert canonical == f"Canonical: https://komand.example{PATH}"
    assert client.post(PATH).status_code == 405


@pytest.mark.parametrize(
    ("contact", "is_valid"),
    [("mailto:a@b.example,tel:+1-201-555-0123", True), ("a@b.example", False), ("http://b.example", False)],
)
def test_a_contact_is_an_address(contact: str, is_valid: bool, tmp_path: Path) -> None:
    environment = {**os.environ, "KOMAND_DATA_DIR": str(tmp_path), "KOMAND_SECURITY_CONTACT": contact}
    command = [sys.executable, "-c", "import komand.settings.base"]
    done = subprocess.run(command, cwd=project.BASE_DIR, env=environment, capture_output=True, text=True)
    assert (done.returncode == 0) == is_valid and ("KOMAND_SECURITY_CONTACT" in done.stderr) != is_valid
