"""Runs the evaluation and prints its table: `python -m tests.security.taint`."""

import sys

import pytest

sys.exit(pytest.main(["-q", "-m", "", "-rN", "tests/security/taint", "-k", "figures", *sys.argv[1:]]))
