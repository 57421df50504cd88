"""The allow-list of system calls, compared with the kernel's headers where they are installed."""

import re
from pathlib import Path

import pytest

from tools_app.sandbox import system_calls

HEADERS = (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm-generic/unistd.h"))


def numbers_of(header: Path) -> dict[str, str]:
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    return {"newfstatat": "79", **dict(found)}  # the generic header defines that one by another macro


@pytest.mark.parametrize("column", [0, 1], ids=["x86-64", "ARM64"])
def test_the_numbers_are_those_of_the_kernel(column: int) -> None:
    if not HEADERS[column].exists():
        pytest.skip("no header of this architecture")
    known = numbers_of(HEADERS[column])
    for entry in system_calls._ALLOWED.split():
        name, *numbers = entry.split(":")
        assert numbers[column] == known.get(name, ""), name


def test_no_call_is_listed_twice() -> None:
    names = [entry.partition(":")[0] for entry in system_calls._ALLOWED.split()]
    assert len(names) == len(set(names))
