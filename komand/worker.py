"""The command of a worker: `python -m komand.worker -Q runs -P solo` or `… -Q tools -P prefork`.

It has the options of `celery worker`. The command `celery` imports the modules of all its subcommands, which takes 8 MB
of memory in each process of a worker.
"""

import sys
from collections.abc import Sequence

from celery.bin.base import CLIContext
from celery.bin.worker import worker

from komand.celery import app


def main(arguments: Sequence[str]) -> None:
    """Run a worker until it stops."""
    context = CLIContext(app=app, no_color=False, workdir=None, quiet=True)
    worker.main(arguments, prog_name="python -m komand.worker", obj=context)


if __name__ == "__main__":
    main(sys.argv[1:])
