"""The command of a worker: `python -m komand.worker -Q runs -P solo` or `… -Q tools -P prefork`.

It has the options of `celery worker`. The command `celery` imports the modules of all its subcommands, which takes 8 MB
of memory in each process of a worker.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

from celery.bin.base import CLIContext
from celery.bin.worker import worker

from komand.celery import app

_asynpool: Any = import_module("celery.concurrency.asynpool")  # the types of Celery do not name what is changed here
_iterate = _asynpool.iterate_file_descriptors_safely


def main(arguments: Sequence[str]) -> None:
    """Run a worker until it stops."""
    skip_ended_children()
    context = CLIContext(app=app, no_color=False, workdir=None, quiet=True)
    worker.main(arguments, prog_name="python -m komand.worker", obj=context)


def skip_ended_children() -> None:
    """Have a prefork pool that connects again to its broker skip children that have just ended. Idempotent.

    For a moment they have None as file descriptor. kombu 5.7 refuses it with a ValueError, which celery 5.7 does not
    catch: the worker would end, and cut the calls of its other children.
    """
    _asynpool.iterate_file_descriptors_safely = _iterate_existing


def _iterate_existing(
    descriptors: Iterable[int | None], source: Any, method: Callable[..., Any], *args: Any, **options: Any
) -> None:
    _iterate([one for one in descriptors if one is not None], source, method, *args, **options)


if __name__ == "__main__":
    main(sys.argv[1:])
