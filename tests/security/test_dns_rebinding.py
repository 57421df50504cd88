"""DNS rebinding with a live name server: no request reaches the internal address, whatever the second answer is."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.architecture.source import ROOT

pytestmark = pytest.mark.one_database

NAMESPACES = ["unshare", "--user", "--map-root-user", "--net", "--mount"]


def has_namespaces() -> bool:
    if not (shutil.which("unshare") and shutil.which("ip") and shutil.which("mount")):
        return False
    return subprocess.run([*NAMESPACES, "ip", "link", "set", "lo", "up"], capture_output=True).returncode == 0


def test_a_name_that_changes_its_address_does_not_lead_inside() -> None:
    if not has_namespaces():
        pytest.skip("this machine has no unprivileged namespaces of network and mounts")
    program = [*NAMESPACES, sys.executable, "-m", "tests.security.rebinding_program"]
    ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    assert result["internal_requests"] == 0
    assert result["public_answers"] > 0, "the attacker's own server can be reached"
    assert result["refused"] > 0, "the internal answers are refused"
    assert result["public_answers"] + result["refused"] == result["tries"]
    assert result["internal_requests_without_guard"] > 0, "the name server does rebind"
