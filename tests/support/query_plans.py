"""Finds the queries of some code that read a whole table or index.

The code is run, its statements are recorded with their parameters, and each is explained with these bound parameters:
SQLite chooses its indexes without the values.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.apps import apps
from django.db import connection

# Tables with one row per object that an operator has created, or per process. They may be read whole.
SMALL = {
    "komand_agent",
    "komand_model_provider",
    "komand_channel_account",
    "komand_process_life",
    "komand_control",
    "komand_mcp_server",
    "komand_skill",
    "komand_credential",
    "komand_push_subscription",  # some for each user who wants them, not for each message
    "auth_user",
    "django_content_type",
    "axes_accessattempt",
    "axes_accesslog",
}
_EXPLAINABLE = re.compile(r"^\s*(SELECT|UPDATE|DELETE|INSERT|WITH)\b", re.IGNORECASE)
_TABLE = re.compile(r'"?(komand_\w+|auth_\w+|django_\w+)"?(?:\s+(?:AS\s+)?"?(\w+)"?)?')
_KEYWORDS = {"WHERE", "SET", "ON", "INNER", "LEFT", "ORDER", "GROUP", "LIMIT", "VALUES", "USING", "AS"}
_WHOLE_WAYS = ("seqscan", "hashjoin", "mergejoin")

Statement = tuple[str, Any]


@contextmanager
def caught() -> Iterator[list[Statement]]:
    """Record the statements of this thread's connection in the block, each once."""
    found: dict[str, Statement] = {}

    def see(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if not many and _EXPLAINABLE.match(sql):
            found.setdefault(sql, (sql, params))
        return execute(sql, params, many, context)

    statements: list[Statement] = []
    with connection.execute_wrapper(see):
        yield statements
    statements += found.values()


def whole_reads(statements: list[Statement]) -> list[str]:
    """Return `<plan line>: <statement>` for each whole read, except of partial indexes, which are small."""
    find = _postgres_reads if connection.vendor == "postgresql" else _sqlite_reads
    return [f"{read}: {sql[:900]}" for sql, params in statements for read in find(sql, params)]


def _partial_indexes() -> set[str]:
    rules = [rule for model in apps.get_models() for rule in (*model._meta.indexes, *model._meta.constraints)]
    return {rule.name for rule in rules if getattr(rule, "condition", None) is not None}


def _sqlite_reads(sql: str, params: Any) -> Iterator[str]:
    tables = _aliases(sql)
    ends_soon = " LIMIT " in sql and " WHERE " not in sql  # it reads the first rows of an order
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}", params)
        lines = [row[3] for row in cursor.fetchall()]
    for line in lines:
        scan = re.match(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?", line)
        if scan is None:
            continue
        table, index = tables.get(scan[1]), scan[2]
        if table and table not in SMALL and index not in _partial_indexes() and not ends_soon:
            yield line


def _aliases(sql: str) -> dict[str, str]:
    """Return the tables by their names in the plan."""
    found = {}
    for table, alias in _TABLE.findall(sql):
        found[table] = table
        if alias and alias.upper() not in _KEYWORDS:
            found[alias] = table
    return found


def _postgres_reads(sql: str, params: Any) -> Iterator[str]:
    """Explain with whole reads disabled where an index can serve: of empty tables the planner prefers whole reads."""
    with connection.cursor() as cursor:
        for way in _WHOLE_WAYS:
            cursor.execute(f"SET enable_{way} = off")
        try:
            cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
            [[[explained]]] = cursor.fetchall()
        finally:
            for way in _WHOLE_WAYS:
                cursor.execute(f"RESET enable_{way}")
    if " LIMIT " not in sql or " WHERE " in sql:  # else it reads the first rows of some order
        yield from _node_reads(explained["Plan"])


def _node_reads(node: dict[str, Any]) -> Iterator[str]:
    kind, table = node["Node Type"], node.get("Relation Name", "")
    if table.startswith(("komand_", "auth_", "django_")) and table not in SMALL:
        if kind == "Seq Scan":
            yield f"Seq Scan on {table}"
        elif "Index" in kind and "Index Cond" not in node and node.get("Index Name") not in _partial_indexes():
            yield f"{kind} of all of {node.get('Index Name')}"
    for child in node.get("Plans", ()):
        yield from _node_reads(child)
