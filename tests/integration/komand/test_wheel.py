"""The built package: everything that it needs at run time is in it, and `komand up` starts it outside of a checkout."""

import re
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import httpx2
import pytest

from tests.support.live_server import ROOT, START_SECONDS, clean_environment, wait_for

pytestmark = [pytest.mark.whole, pytest.mark.one_database]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build from a copy of the committed and changed files, so that nothing is left in the checkout."""
    source = tmp_path_factory.mktemp("source")
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    files = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, files):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    build = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(source / "dist"), str(source)]
    subprocess.run([sys.executable, "-m", "pip", "-q", *build], check=True)
    [built] = (source / "dist").glob("*.whl")
    return built


def test_the_wheel_holds_every_file_that_is_no_code(wheel: Path) -> None:
    assert wheel.name.startswith("komand_gateway-")
    packed = set(zipfile.ZipFile(wheel).namelist())
    mapped = ("static/", "templates/")
    packages = ("komand", "sessions_app", "agents_app", "tools_app", "audit_app", *mapped)
    listed = subprocess.run(["git", "ls-files", *packages], cwd=ROOT, capture_output=True, text=True, check=True)
    present = {name for name in listed.stdout.split() if (ROOT / name).is_file()}
    assert {f"komand/{name}" if name.startswith(mapped) else name for name in present} <= packed
    assert not [name for name in packed if name.startswith(("tests", "benchmarks", "docs", *mapped))]


def test_an_installed_package_starts(wheel: Path, tmp_path: Path) -> None:
    """Install it into a virtualenv that finds the dependencies in this one, and start it in a folder of its own."""
    venv.create(tmp_path / "venv", with_pip=True, symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    environment = clean_environment()
    environment.pop("PYTHONPATH", None)
    install = ["-m", "pip", "-q", "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([python, *install], check=True, env=environment, cwd=tmp_path)
    packages = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([python, "-c", packages], capture_output=True, text=True, check=True, env=environment)
    (Path(found.stdout.strip()) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    log = tmp_path / "log.txt"
    with log.open("wb") as out:
        command = [tmp_path / "venv" / "bin" / "komand", "up", "--port", "0", "--data-dir", tmp_path / "data"]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=out, stderr=out)
    try:
        ready = wait_for(lambda: re.search(r"ready at (\S+)", log.read_text()), START_SECONDS, "the ready line")
        page = httpx2.get(f"{ready[1]}/login", timeout=30)
        assert page.status_code == 200 and "Komand" in page.text
        styles = re.findall(r'href="(/static/[^"]+\.css[^"]*)"', page.text)
        assert styles and all(httpx2.get(ready[1] + path, timeout=30).status_code == 200 for path in styles)
        assert httpx2.get(f"{ready[1]}/static/admin_komand/admin.css", timeout=30).status_code == 200
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    check = [tmp_path / "venv" / "bin" / "komand", "check_invariants"]
    done = subprocess.run(
        check,
        cwd=tmp_path,
        env={**environment, "KOMAND_DATA_DIR": str(tmp_path / "data")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
