# SPDX-License-Identifier: Apache-2.0
"""The sample systemd units start commands that exist, in a way that systemd accepts."""

import configparser
import importlib.metadata
import pathlib
import re
import shutil
import subprocess

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "etc" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
SCRIPTS = {
    script.name for script in importlib.metadata.distribution("tonnage").entry_points.select(group="console_scripts")
}


#: Restrictions of every unit.
RESTRICTIONS = {
    "UMask": "0077",
    "StateDirectoryMode": "0700",
    "ProtectProc": "invisible",
    "SystemCallArchitectures": "native",
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
}
#: The highest exposure, of 100, that ``systemd-analyze security`` may find.
EXPOSURE = 25

needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd on this machine")


def service_of(unit: pathlib.Path) -> configparser.SectionProxy:
    """Return the section with the settings of a service."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read(unit, encoding="utf-8")
    return parser["Service"]


def test_each_daemon_has_a_unit() -> None:
    # The scheduler for Cinder runs in the unit of Cinder's own, see docs/cinder-scheduler.rst.
    of_others = {"tonnage-cinder-scheduler"}
    assert {unit.stem for unit in UNITS} == SCRIPTS - of_others - {"tonnage", "tonnage-manage", "tonnage-status"}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_unit_starts_the_command_of_its_name(unit: pathlib.Path) -> None:
    service = service_of(unit)
    commands = [value.split() for key, value in service.items() if key in ("ExecStart", "ExecStartPre")]
    assert commands[-1] == [f"/opt/tonnage/bin/{unit.stem}", "--config-file", "/etc/tonnage/tonnage.conf"]
    assert {pathlib.Path(command[0]).name for command in commands} <= SCRIPTS
    assert service["User"] == "tonnage"
    assert service["Restart"] == "on-failure"
    # /var/lib/tonnage and /var/log/tonnage, where the samples of state_path and decision_log point to.
    assert (service["StateDirectory"], service["LogsDirectory"]) == ("tonnage", "tonnage")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_restricted(unit: pathlib.Path) -> None:
    service = service_of(unit)
    assert {name: service.get(name) for name in RESTRICTIONS} == RESTRICTIONS


def test_lvm_lifts_no_restriction_of_files_and_processes() -> None:
    lifted = set(service_of(FOLDER / "lvm" / "tonnage-agent.service.d" / "lvm.conf"))
    assert lifted & set(RESTRICTIONS) == {"SystemCallArchitectures", "NoNewPrivileges", "CapabilityBoundingSet"}


def test_the_units_that_the_documentation_reloads_can_be_reloaded() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (FOLDER.parents[1] / "docs").glob("*.rst"))
    reloaded = set(re.findall(r"systemctl reload (tonnage-\w+)", pages))
    assert reloaded >= {"tonnage-agent", "tonnage-scheduler"}
    for unit in reloaded:
        text = (FOLDER / f"{unit}.service").read_text(encoding="utf-8")
        assert "\nExecReload=/bin/kill -HUP $MAINPID\n" in text, unit


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_finds_little_exposure(unit: pathlib.Path, tmp_path: pathlib.Path) -> None:
    # Without the folder of the unit's additions for LVM.
    shutil.copy(unit, tmp_path)
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE}", str(tmp_path / unit.name)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout


@needs_systemd
def test_systemd_accepts_the_units(tmp_path: pathlib.Path) -> None:
    for unit in UNITS:  # it also wants the commands to be there
        text = re.sub(r"/opt/tonnage/bin/[a-z-]+", "/bin/true", unit.read_text(encoding="utf-8"))
        (tmp_path / unit.name).write_text(text, encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", *map(str, tmp_path.iterdir())]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    complaints = [line for line in done.stdout.splitlines() if "tonnage" in line]
    assert (done.returncode, complaints) == (0, [])
