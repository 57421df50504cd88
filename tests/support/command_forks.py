"""Commands of manage.py, each in a fork of one process that has loaded Django: a start takes seconds of CPU time.

`python -m tests.support.command_forks` serves requests: lines of JSON with the arguments and the files for the output.
It writes the exit code of each, and ends with its input.
"""

import gc
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

import django
from django.urls import get_resolver

from komand import command_line

_ROOT = Path(__file__).parents[2]


class CommandForks:
    """Runs commands one at a time, with the settings as they were when the first began.

    environment: of the process that is forked
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._lock = Lock()
        self._process: subprocess.Popen[str] | None = None

    def run(self, arguments: Sequence[str], seconds: float) -> "subprocess.CompletedProcess[str]":
        """Run a command. seconds: after which it is killed. Raises as `subprocess.run` does."""
        command = ["manage.py", *arguments]
        with self._lock, TemporaryDirectory() as folder:
            server = self._process = self._process or self._start()
            assert server.stdin and server.stdout
            out, problems = Path(folder, "out"), Path(folder, "problems")
            server.stdin.write(json.dumps([command, str(out), str(problems)]) + "\n")
            server.stdin.flush()
            if not select.select([server.stdout], [], [], seconds)[0]:
                self.close()
                raise subprocess.TimeoutExpired(command, seconds)
            code = server.stdout.readline()
            assert code, "the process that forks the commands has ended"
            return subprocess.CompletedProcess(command, int(code), out.read_text(), problems.read_text())

    def close(self) -> None:
        """Kill the process and the command that it runs. The next command starts another one."""
        if self._process:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None

    def _start(self) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "tests.support.command_forks"]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, cwd=_ROOT, env=self._environment, stdin=pipe, stdout=pipe, text=True, start_new_session=True
        )


def _serve() -> None:
    """Fork a command at each request. Returns in the forks alone."""
    for line in sys.stdin:
        command, *files = json.loads(line)
        child = os.fork()
        if not child:
            sys.argv = command
            with open(os.devnull) as nothing, open(files[0], "w") as out, open(files[1], "w") as problems:
                for number, file in enumerate((nothing, out, problems)):
                    os.dup2(file.fileno(), number)
            return
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()
    sys.exit()


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "komand.settings.web")
    django.setup()
    len(get_resolver().url_patterns)  # loaded once, for the checks that precede each command
    gc.freeze()
    _serve()
    sys.exit(command_line.main())
