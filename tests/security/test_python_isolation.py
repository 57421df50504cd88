"""Attacks by the code of the `python` tool, with the audit hook removed first: only the kernel is left to refuse.

The targets belong to the tests, and the attacks are bounded: one that succeeds does no harm to the machine.
"""

import os
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.live_server import ROOT, wait_for
from tools_app.builtin.python import Python
from tools_app.sandbox import python_process
from tools_app.types import ToolError

pytestmark = [
    pytest.mark.one_database,
    pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="ISOLATION NOT TESTED: architecture"),
]

ALL = ("network", "files", "programs", "processes")
# By its former global, and by its closure: it is no barrier, and nothing depends on it.
WITHOUT_HOOK = """
import gc, __main__
__main__._REFUSED = ()
for item in gc.get_objects():
    if getattr(item, "__name__", "") == "refuse":
        for cell in item.__closure__:
            if isinstance(cell.cell_contents, tuple):
                cell.cell_contents = ()
import ctypes, errno, fcntl, os, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""


@dataclass(frozen=True)
class Victims:
    """Objects of the same user outside of the sandbox."""

    process: "subprocess.Popen[bytes]"
    file: Path
    place: Path
    listeners: tuple[socket.socket, ...]
    port: int

    def names(self) -> str:
        """Return them as assignments of the attacking program."""
        values = {"PID": self.process.pid, "WORKER": os.getpid(), "PORT": self.port}
        paths = {"FILE": str(self.file), "FOLDER": str(self.file.parent), "SOCKET": str(self.place)}
        return "\n".join(f"{name} = {value!r}" for name, value in {**values, **paths}.items())

    def was_reached(self) -> list[str]:
        """Return what an attack has changed."""
        found = []
        for listener in self.listeners:
            try:
                listener.accept() if listener.type == socket.SOCK_STREAM else listener.recv(1)
                found.append(f"{listener.getsockname()}")
            except BlockingIOError:
                continue
        status = self.file.stat()
        if (self.file.read_text(), status.st_mode & 0o777, status.st_mtime) != ("secret", 0o600, 1):
            found.append("file")
        if sorted(path.name for path in self.file.parent.iterdir()) != ["file", "s"]:
            found.append("folder")
        if self.process.poll() is not None:
            found.append("process")
        return found


@pytest.fixture
def victims(monkeypatch: pytest.MonkeyPatch) -> Iterator[Victims]:
    with tempfile.TemporaryDirectory(prefix="k") as folder:
        file, place = Path(folder, "file"), Path(folder, "s")
        file.write_text("secret")
        file.chmod(0o600)
        os.utime(file, (1, 1))
        local, abstract, datagrams = (
            socket.socket(socket.AF_UNIX),
            socket.socket(socket.AF_UNIX),
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        )
        local.bind(str(place))
        abstract.bind(f"\0komand-{os.getpid()}")
        datagrams.bind(("127.0.0.1", 0))
        internet = socket.create_server(("127.0.0.1", 0))
        listeners = (local, abstract, datagrams, internet)
        for listener in listeners:
            listener.setblocking(False)
            if listener is not datagrams:
                listener.listen(1)
        with subprocess.Popen(["/bin/sleep", "600"], env={"TOKEN": "hunter2"}) as process:
            yield Victims(process, file, place, listeners, internet.getsockname()[1])
            process.kill()
        for listener in listeners:
            listener.close()


def attack(victims: Victims, code: str) -> python_process.Ran:
    program = f"{WITHOUT_HOOK}{victims.names()}\n{textwrap.dedent(code)}\nprint('succeeded')"
    return python_process.run(program, seconds=20)


ATTACKS = {
    "a local socket": "socket.socket(socket.AF_UNIX).connect(SOCKET)",
    "an abstract socket": "socket.socket(socket.AF_UNIX).connect(f'\\0komand-{WORKER}')",
    "the network": "socket.create_connection(('127.0.0.1', PORT), 2)",
    "a pair of sockets": "socket.socketpair()",
    "a signal to the worker": "os.kill(WORKER, 0)",
    "a signal to another process": "os.kill(PID, 9)",
    "a signal through a descriptor of a process": "signal.pidfd_send_signal(os.pidfd_open(PID), 9)",
    "a signal by the kernel": """
        reading, writing = os.pipe()
        fcntl.fcntl(reading, fcntl.F_SETOWN, PID)
        fcntl.fcntl(reading, 10, 9)  # F_SETSIG
        fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC)
        os.write(writing, b"x")
        """,
    "limits of another process": "import resource; resource.prlimit(PID, resource.RLIMIT_CPU, (0, 0))",
    "the priority of another process": "os.setpriority(os.PRIO_PROCESS, PID, 19)",
    "ptrace": "check(libc.ptrace(0x4206, PID, 0, 0))",  # PTRACE_SEIZE
    "the memory of another process": """
        buffer = ctypes.create_string_buffer(8)
        vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
        check(libc.process_vm_readv(PID, vector, 1, vector, 1, 0))
        """,
    "the environment of another process": "print(open(f'/proc/{PID}/environ').read())",
    "the environment of the worker": "print(open(f'/proc/{WORKER}/environ').read())",
    "the memory file of another process": "open(f'/proc/{PID}/mem', 'rb')",
    "reading a file": "print(open(FILE).read())",
    "writing a file": "open(FILE, 'a').write('x')",
    "truncating a file": "os.truncate(FILE, 0)",
    "opening modes": "os.open(FILE, os.O_RDONLY | os.O_TRUNC)",
    "the mode of a file": "os.chmod(FILE, 0o666)",
    "the owner of a file": "os.chown(FILE, 65534, 65534)",
    "the times of a file": "os.utime(FILE)",
    "attributes of a file": "os.setxattr(FILE, 'user.x', b'1')",
    "removing a file": "os.unlink(FILE)",
    "renaming a file": "os.rename(FILE, 'mine')",
    "a second name of a file": "os.link(FILE, 'mine'); print(open('mine').read())",
    "creating a file": "open(FOLDER + '/new', 'w')",
    "listing a folder": "os.listdir(FOLDER)",
    "a file that may be read": "os.open('../readable', os.O_RDONLY | os.O_TRUNC)",
    "a process": "os.fork()",
    "many processes": "for _ in range(50):\n    if os.fork() == 0:\n        os._exit(0)",
    "a thread": "import _thread; _thread.start_new_thread(print, ())",
    "a program": "os.posix_spawn('/bin/true', ['true'], {})",
    "another program": "os.execv('/bin/true', ['true'])",
    "a program in memory": "os.memfd_create('x')",
    "a session": "check(libc.setsid())",
    "other namespaces": "check(libc.unshare(0x10000000))",
    "a mount": "check(libc.mount(b'none', b'.', b'tmpfs', 0, None))",
    "another root": "os.chroot('.')",
    "another user": "os.setuid(0)",
    "a device": "os.mknod('null', 0o20666, os.makedev(1, 3))",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_code_without_the_hook_reaches_nothing_outside(victims: Victims, name: str) -> None:
    ran = attack(victims, ATTACKS[name])
    assert (ran.held, victims.was_reached()) == (ALL, [])
    assert "succeeded" not in ran.stdout and not {"secret", "hunter2"} & set(ran.stdout.split())
    assert ran.exit_code == 1 and "Error" in ran.stderr.splitlines()[-1]


# Numbers on x86-64 and ARM64.
RAW = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "sendto": (44, 206),
    "clone": (56, 220),
    "clone3": (435, 435),
    "execveat": (322, 281),
    "kill": (62, 129),
    "tkill": (200, 130),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "process_vm_writev": (311, 271),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "setns": (308, 268),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "io_uring_setup": (425, 425),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "seccomp": (317, 277),
    "landlock_create_ruleset": (444, 444),
    "open_by_handle_at": (304, 265),
    "shmget": (29, 194),
    "mq_open": (240, 180),
    "prctl": (157, 167),
    "openat2": (437, 437),
}


def test_raw_system_calls_are_refused_by_their_numbers(victims: Victims) -> None:
    column = os.uname().machine == "aarch64"
    numbers = {name: pair[column] for name, pair in RAW.items()}
    code = f"""
    for name, number in {numbers!r}.items():
        if libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != errno.EPERM:
            print(name)
    """
    assert attack(victims, code).stdout == "succeeded\n"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="other tables of system calls exist on x86-64 alone")
def test_the_tables_of_other_architectures_are_no_way_out(victims: Victims) -> None:
    """By `int 0x80` with getpid of i386, and by a number of x32."""
    code = """
    import mmap
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(bytes.fromhex("b814000000cd80c3"))
    print(libc.syscall(0x40000000 + 39), flush=True)
    print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))())
    """
    ran = attack(victims, code)
    assert ran.stdout in ("-1\n-1\nsucceeded\n", "-1\n")  # it crashes where the kernel knows no i386 at all


def test_other_processes_cannot_be_named(victims: Victims) -> None:
    assert attack(victims, "print(os.getpid(), os.getppid())").stdout == "1 0\nsucceeded\n"


def test_memory_and_time_stay_limited_without_the_hook(victims: Victims) -> None:
    code = """
    import resource
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):
        try:
            resource.setrlimit(limit, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        except (ValueError, PermissionError):
            continue
        print(limit)
    """
    assert attack(victims, code).stdout == "succeeded\n"


@pytest.mark.parametrize(("code", "seconds", "why"), [("while True: pass", 1, "time limit"), ("1/0", 20, "")])
def test_no_process_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, seconds: float, why: str
) -> None:
    """Neither the one that isolates itself nor its fork. Their command lines name the folder of the call."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert why in python_process.run(code, seconds=seconds).why
    wait_for(lambda: not any(str(tmp_path) in command_of(pid) for pid in psutil.pids()), 60, "the end of both")


def command_of(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""


LACKS = {
    "seccomp": "system_calls.restrict = lambda libc: False",
    "landlock": "isolation._restrict_files = lambda *_: 0",
    "namespaces": "isolation._unshare = lambda *_, **__: False",
}


@pytest.fixture
def kernel_without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that takes features of the kernel away from every following call."""

    def take(*lines: str) -> None:
        imports = "from tools_app.sandbox import isolation, system_calls"
        changed = "\n".join((imports, *lines, "child_program.main("))
        assert "\nchild_program.main(" in python_process._PROGRAM
        program = python_process._PROGRAM.replace("\ndel sys.path[0]", "").replace("child_program.main(", changed)
        monkeypatch.setattr(python_process, "_PROGRAM", program)

    return take


@pytest.mark.parametrize(
    ("lacking", "not_held"),
    [
        (("seccomp",), ("network", "files", "programs")),
        (("landlock",), ("files",)),
        (("seccomp", "landlock", "namespaces"), ALL),
    ],
)
def test_code_is_not_run_where_the_kernel_does_not_isolate_it(
    victims: Victims, kernel_without: Any, lacking: tuple[str, ...], not_held: tuple[str, ...]
) -> None:
    kernel_without(*(LACKS[name] for name in lacking))
    with pytest.raises(python_process.NotIsolated) as raised:
        attack(victims, "open(FILE, 'w')")
    assert not victims.was_reached()
    assert f"not granted: {', '.join(lacking)}" in str(raised.value)
    assert not set(python_process.examine().held) & set(not_held)


def test_a_kernel_without_the_features_refuses_in_words_and_runs_when_the_operator_says_so() -> None:
    code = """
from tools_app.sandbox import python_process
try:
    python_process.run("print(1)", seconds=20)
except python_process.NotIsolated as problem:
    print(problem)
print(python_process.run("print('ran')", seconds=20, unisolated=True))
"""
    command = [sys.executable, "-m", "tests.support.weaker_kernel", "-c", code]
    refusal, ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert refusal.startswith("not held: network (it can make an internet socket); files (")
    assert refusal.endswith("not granted: seccomp, landlock, namespaces")
    assert "stdout='ran\\n'" in ran and "held=()" in ran


def test_the_tool_says_why_it_refuses_and_what_an_operator_can_do(kernel_without: Any, settings: Any) -> None:
    kernel_without(LACKS["landlock"])
    settings.KOMAND_PYTHON_UNISOLATED = False
    context: Any = type("Context", (), {"timeout_seconds": 10})
    with pytest.raises(ToolError, match=r"read a file.*not granted: landlock.*KOMAND_PYTHON_TOOL=unisolated"):
        Python().run({"code": "print(1)"}, context)
    settings.KOMAND_PYTHON_UNISOLATED = True
    result = Python().run({"code": "print(1)"}, context)
    assert (result["stdout"], "files" in result["held_by_kernel"]) == ("1\n", False)


def test_namespaces_are_not_needed(victims: Victims, kernel_without: Any) -> None:
    """As in a container, or for a user who may not create them."""
    kernel_without(LACKS["namespaces"])
    for name in ("a local socket", "a signal to another process", "a signal by the kernel", "reading a file"):
        ran = attack(victims, ATTACKS[name])
        assert (ran.held, ran.exit_code, victims.was_reached()) == (ALL, 1, [])


def test_the_first_landlock_is_enough(victims: Victims, kernel_without: Any) -> None:
    """It knows neither truncation nor scopes."""
    first = "isolation._FILE_RIGHTS, isolation._TCP_FROM, isolation._SCOPES_FROM = {1: (1 << 13) - 1}, 99, 99"
    kernel_without(LACKS["namespaces"], first)
    for name in ("truncating a file", "opening modes", "a file that may be read", "an abstract socket"):
        ran = attack(victims, ATTACKS[name])
        assert (ran.held, ran.exit_code, victims.was_reached()) == (ALL, 1, [])
    assert python_process.run("import os; print(open('a', 'w').write('x'))", seconds=10).stdout == "1\n"


def test_the_worker_does_not_run_code_of_a_child_that_reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_process, "_PROGRAM", "raise SystemExit('no such module')")
    with pytest.raises(python_process.NotIsolated, match="no such module"):
        python_process.run("print(1)", seconds=10)


def test_a_call_whose_time_ends_before_the_self_test_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_process, "_PROGRAM", "import time; time.sleep(60)")
    ran = python_process.run("print(1)", seconds=0.5)
    assert (ran.stdout, ran.exit_code, ran.why, ran.held) == ("", None, "It exceeded its time limit.", ())


def test_the_hook_alone_refuses_openly_where_the_operator_accepts_that(kernel_without: Any) -> None:
    kernel_without(*LACKS.values())
    for code in ("open('/etc/passwd')", "import socket; socket.socket()", "import os; os.listdir('/')"):
        ran = python_process.run(code, seconds=10, unisolated=True)
        assert (ran.exit_code, ran.held) == (1, ())
        assert "PermissionError" in ran.stderr
    assert python_process.run("print(open('a', 'w').write('x'))", seconds=10, unisolated=True).stdout == "1\n"


def test_python_reads_its_own_files(victims: Victims) -> None:
    code = "import sqlite3, ssl, decimal, zoneinfo; print(zoneinfo.ZoneInfo('Europe/Berlin'))"
    assert python_process.run(code, seconds=20).stdout == "Europe/Berlin\n"


def test_the_interpreter_of_the_tests_is_the_one_that_is_isolated() -> None:
    assert python_process.run("import sys; print(sys.version)", seconds=10).stdout == f"{sys.version}\n"
