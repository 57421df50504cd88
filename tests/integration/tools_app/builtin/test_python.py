"""`python`: output, and the containment of hostile code."""

import os
import socket
import tempfile
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tools_app.builtin.python import Python
from tools_app.sandbox import python_process
from tools_app.types import Effect, Risk

pytestmark = pytest.mark.one_database

SECONDS = 1.0


def run(code, seconds=10.0):
    return python_process.run(code, seconds=seconds)


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert not list(folder.iterdir())
    assert not [child for child in psutil.Process().children(recursive=True) if "child_program" in _command_of(child)]


def _command_of(process):
    with suppress(psutil.NoSuchProcess):  # it has just ended
        return " ".join(process.cmdline())
    return ""


def test_it_prints():
    ran = run("import json, math\nprint(json.dumps({'pi': round(math.pi, 2)}))")
    assert (ran.stdout, ran.stderr, ran.exit_code, ran.why) == ('{"pi": 3.14}\n', "", 0, "")


def test_it_has_files_of_its_own_that_are_gone_afterwards():
    code = "open('a', 'w').write('hi'); print(open('a').read(), __import__('os').listdir())"
    assert run(code).stdout == "hi ['a']\n"
    assert run("print(__import__('os').listdir())").stdout == "[]\n"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("1/0", "ZeroDivisionError"),
        ("x = (", "SyntaxError"),
        ("import no_such_package", "ModuleNotFoundError"),
        ("raise SystemExit(3)", ""),
    ],
)
def test_an_error_is_returned_as_python_prints_it(code, message):
    ran = run(code)
    assert ran.exit_code in (1, 3) and message in ran.stderr
    assert "child_program" not in ran.stderr


WITHOUT_NAMESPACES = (
    "from tools_app.sandbox import isolation; isolation._unshare = lambda *_, **__: False\nchild_program.main("
)
WITHOUT_MOUNTS = (
    "from tools_app.sandbox import isolation; isolation._mount_in_memory = lambda *_: None\nchild_program.main("
)


@pytest.fixture(params=["", WITHOUT_NAMESPACES, WITHOUT_MOUNTS], ids=["all", "without namespaces", "without mounts"])
def every_kernel(request, monkeypatch):
    """Repeat the test on kernels without namespaces, or that grant them without mounts."""
    if request.param:
        program = python_process._PROGRAM.replace("\ndel sys.path[0]", "").replace("child_program.main(", request.param)
        monkeypatch.setattr(python_process, "_PROGRAM", program)


FLOODS = {
    "files": "for number in range(200): open(str(number), 'wb').write(bytes(2 ** 20))",
    "empty folders": "for number in range(100_000): os.mkdir(str(number))",
    "links": """
        open('0', 'w').close()
        for number in range(100_000): os.symlink('0', f'l{number}')
        """,
    "files in folders that nobody may list": """
        os.mkdir('a')
        opened = os.open('a', os.O_RDONLY)
        os.fchmod(opened, 0o300)
        for number in range(200): open(f'a/{number}', 'wb').write(bytes(2 ** 20))
        """,
    "files after the output is closed": """
        os.close(1), os.close(2)
        for number in range(200): open(str(number), 'wb').write(bytes(2 ** 20))
        """,
}


@pytest.mark.whole
@pytest.mark.parametrize("code", FLOODS.values(), ids=FLOODS)
def test_all_files_together_are_limited(code, every_kernel):
    ran = run(f"import os\n{textwrap.dedent(code)}\nprint('all')\nwhile True: pass", seconds=60)
    refused = ran.why == "" and ran.exit_code != 0  # by the kernel: "No space left on device"
    assert refused or ran.why == "It wrote too many files."


def test_a_file_that_is_removed_while_it_is_open_counts_where_files_are_in_memory():
    code = (
        "kept = []\nfor _ in range(20): kept.append(open('a', 'wb', 0)); kept[-1].write(bytes(2 ** 23)); os.unlink('a')"
    )
    assert "No space left on device" in run(f"import os\n{code}").stderr


@pytest.mark.parametrize("name", [pytest.param("a", marks=pytest.mark.whole), "long" * 60])
def test_folders_of_any_depth_are_removed(name, every_kernel):
    ran = run(f"import os\nfor _ in range(1500): os.mkdir({name!r}); os.chdir({name!r})\nprint('made')")
    assert ran.stdout == "made\n" or ran.why == "It wrote too many files."


def test_folders_that_nobody_may_use_are_removed(every_kernel):
    assert run("import os\nos.makedirs('a/b')\nfor name in 'a/b', 'a': os.fchmod(os.open(name, 0), 0)").exit_code == 0


@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/passwd')",
        "open('/proc/1/environ')",
        f"open({str(Path(__file__))!r})",
        "import os; os.listdir('/')",
        "import os; os.symlink('/etc/passwd', 'a'); open('a').read()",
        "open('/tmp/komand-escape', 'w')",
    ],
)
def test_it_reaches_no_file_elsewhere(code):
    ran = run(code)
    assert ran.exit_code == 1 and ran.stdout == ""
    assert "PermissionError" in ran.stderr


def test_it_reaches_no_network():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        ran = run(f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)")
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert ran.exit_code == 1


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.fork()",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.system('true')",
        "import ctypes; ctypes.CDLL(None)",
        "import os; os.kill(os.getppid(), 9)",
    ],
)
def test_it_starts_and_stops_no_other_process(code):
    ran = run(code)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "not allowed here" in ran.stderr


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("while True: pass", "time"),
        ("import signal, time\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\ntime.sleep(99)", "time"),
        ("import os, time; os.close(1); os.close(2); time.sleep(99)", "time"),
        ("while True: print('x' * 1000)", "printed too much"),
        ("import sys\nwhile True: sys.stderr.write('x' * 1000)", "printed too much"),
    ],
    ids=["loops", "ignores signals", "closes its output", "prints for ever", "complains for ever"],
)
def test_what_does_not_end_is_ended(code, why):
    started = time.monotonic()
    ran = run(code, SECONDS)
    assert time.monotonic() - started < SECONDS + 15
    assert (ran.exit_code, why in ran.why) == (None, True)
    assert len(ran.stdout) <= python_process.MAX_OUTPUT_BYTES


@pytest.mark.parametrize(
    "code", ["x = 'a' * 10**10", "open('big', 'wb').write(b'a' * 10**8)", "a = []\nwhile 1: a.append('x' * 10**6)"]
)
def test_it_cannot_have_much(code):
    assert run(code).exit_code != 0


def test_bytes_are_returned_as_text():
    assert "\ufffd" in run("import sys; sys.stdout.buffer.write(bytes(range(256)))").stdout


def test_it_knows_nothing_of_its_surroundings(monkeypatch):
    monkeypatch.setenv("KOMAND_SECRET_KEY", "hunter2")
    assert "hunter2" not in run("import os; print(dict(os.environ))").stdout
    assert run("import os; print(os.getpid(), os.getppid())").stdout == "1 0\n"


def test_it_is_of_high_risk():
    assert (Python.spec.risk, Python.spec.effect) == (Risk.HIGH, Effect.READ)


# What no audit hook hears of.
FORKS = """
import _posixsubprocess, os
reading, writing = os.pipe()
nothing = (None, None, -1, -1, -1, -1, -1, -1, reading, writing, True, True, 0, None, None, None, -1, None, False)
print(_posixsubprocess.fork_exec([b"x"], [b"/bin/true"], True, (writing,), *nothing))
"""


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="SECCOMP NOT TESTED: unknown architecture")
@pytest.mark.parametrize(
    "code", [FORKS, "import os; os.memfd_create('x')", "import threading; threading.Thread(target=print).start()"]
)
def test_the_kernel_lets_it_start_nothing_whatever_it_calls(code):
    ran = run(code)
    assert "programs" in ran.held
    assert (ran.exit_code, ran.stdout) == (1, "")


def test_root_is_not_what_the_code_runs_as():
    if os.getuid() == 0:
        ran = run("import os; os.setuid(0); open('/proc/self/oom_score_adj', 'w').write('-1000')")
        assert ran.exit_code == 1
