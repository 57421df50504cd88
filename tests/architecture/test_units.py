"""The units of `deploy/systemd` take from each process what it does not need."""

import re
from pathlib import Path

import pytest
from django.conf import settings

FOLDER = Path(settings.BASE_DIR) / "deploy" / "systemd"
SERVICES = {path.stem.rstrip("@"): path for path in FOLDER.glob("*.service")}
# They run code of others, which isolates itself: the python tool, and programs of MCP servers.
ISOLATING = {"komand-tools", "komand-runs"}
OF_ALL = {
    **dict.fromkeys(("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "ProtectClock"), "yes"),
    **dict.fromkeys(("ProtectHostname", "ProtectKernelTunables", "ProtectKernelModules", "ProtectKernelLogs"), "yes"),
    **dict.fromkeys(("ProtectControlGroups", "RestrictRealtime", "RestrictSUIDSGID", "LockPersonality"), "yes"),
    "User": "komand",
    "UMask": "0077",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "SystemCallArchitectures": "native",
    "SystemCallErrorNumber": "EPERM",
}


def options(unit: str) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.*)$", SERVICES[unit].read_text(), re.MULTILINE))


@pytest.mark.parametrize("unit", sorted(SERVICES))
def test_a_unit_has_the_whole_list_and_a_limit_of_memory(unit: str) -> None:
    found = options(unit)
    assert OF_ALL.items() <= found.items()
    assert re.fullmatch(r"\d+[MG]", found["MemoryMax"])


@pytest.mark.parametrize("unit", sorted(SERVICES))
def test_a_unit_writes_to_the_data_folder_of_the_example_alone(unit: str) -> None:
    example = (FOLDER.parent / "komand.env.example").read_text()
    [folder] = re.findall(r"^KOMAND_DATA_DIR=(.*)$", example, re.MULTILINE)
    assert options(unit).get("ReadWritePaths", folder) == folder
    assert ("ReadWritePaths" in options(unit)) == ("EnvironmentFile" in options(unit))


def test_units_that_isolate_code_may_mount_and_make_namespaces() -> None:
    assert set(SERVICES) > ISOLATING
    for unit in SERVICES:
        found = options(unit)
        if unit in ISOLATING:
            denied = found["SystemCallFilter"].removeprefix("~").split()
            assert "RestrictNamespaces" not in found and found["SystemCallFilter"].startswith("~")
            assert {"@mount", "@privileged", "@process", "@sandbox"}.isdisjoint(denied)
            assert found["OOMPolicy"] == "continue"
        else:
            assert (found["RestrictNamespaces"], found["SystemCallFilter"]) == ("yes", "@system-service")
