"""The distribution: the name of its main package is taken on the public registry, so no text may install that."""

import re
import subprocess
import tomllib

import pytest

from tests.architecture.source import PACKAGES, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TAKEN = "komand"  # on the registry
INSTALLERS = r"\b(?:pip[23x]?|uvx?|poetry|pdm|hatch|rye|conda|mamba|easy_install)\b"
WORD = rf"(?<![\w./-]){TAKEN}(?![\w/-]|\.\w)"
COMMAND = re.compile(rf"{INSTALLERS}[^\n`|;&]*\s[\"']?{WORD}|{INSTALLERS}[^\n`|;&]*==?{WORD}", re.IGNORECASE)
REQUIREMENT = re.compile(rf"(?<![\w./-]){TAKEN}(?:\[[\w, -]+\]|\s?(?:[=~<>!]=|@ )\s?[\w.]+)")
EXAMPLES = (
    "pip install {}",
    "python -m pip install -U '{}'",
    'pip install "{}[oidc]"',
    "pipx install {}",
    "pipx run {} up",
    "uv tool install {}",
    "uv pip install {}==0.3.0",
    "uvx {} up",
    "uvx --from={} {}",
    "poetry add {}",
    "the extra `{}[oidc]`",
    "{}>=0.3",
)


def tells_to_install(text: str) -> list[str]:
    """Return the lines that install the registry's package of that name, or require it."""
    return [line for line in text.splitlines() if COMMAND.search(line) or REQUIREMENT.search(line)]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_installation_of_the_taken_name_is_found(example: str) -> None:
    assert tells_to_install(example.format(TAKEN, TAKEN))
    assert not tells_to_install(example.format(PROJECT["name"], PROJECT["name"]))


def test_no_text_tells_to_install_the_taken_name() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in filter(None, listed.split("\0"))]
    texts = {file: file.read_text(errors="ignore") for file in files if file.is_file()}
    assert len(texts) > 1000
    found = {str(file.relative_to(ROOT)): lines for file, text in texts.items() if (lines := tells_to_install(text))}
    assert not found


def test_the_distribution_has_a_name_of_its_own_and_the_program_keeps_its() -> None:
    assert PROJECT["name"] not in {TAKEN, *PACKAGES}
    assert PROJECT["scripts"] == {"komand": "komand.command_line:main"}
