"""Compiling the statements of all apps before the first message, so that none waits for it."""

import sys
from contextlib import nullcontext
from typing import Any

from django.apps import apps
from django.db import connection, transaction

from audit_app.kernel.compiled_queries import CompiledInsert, CompiledStatement

# Of each app; a test holds that no other has any.
_MODULES = ("hot_queries", "runs.transitions", "executions.transitions")


def compile_all() -> None:
    """Compile the statements of the apps' imported modules, so that no request waits for it. Sends none of them."""
    # Django compiles FOR UPDATE only inside of a transaction. On SQLite, which has none, it would block other writers.
    with transaction.atomic() if connection.features.has_select_for_update else nullcontext():
        for statement in _statements():
            statement.compile()


def forget_all() -> None:
    """Compile every statement anew at the next use. For tests and benchmarks."""
    for statement in _statements():
        statement._compiled.clear()


def _statements() -> "list[CompiledStatement | CompiledInsert[Any]]":
    """Return the statements of the modules that have some. After a fork, looking through all would copy pages."""
    names = [f"{config.name}.{module}" for config in apps.get_app_configs() for module in _MODULES]
    values = [value for name in names if name in sys.modules for value in vars(sys.modules[name]).values()]
    return [value for value in values if isinstance(value, CompiledStatement | CompiledInsert)]
