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


def test_each_daemon_has_a_unit() -> None:
    assert {unit.stem for unit in UNITS} == SCRIPTS - {"tonnage", "tonnage-manage", "tonnage-status"}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_unit_starts_the_command_of_its_name(unit: pathlib.Path) -> None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read(unit, encoding="utf-8")
    service = parser["Service"]
    commands = [value.split() for key, value in service.items() if key in ("ExecStart", "ExecStartPre")]
    assert commands[-1] == [f"/opt/tonnage/bin/{unit.stem}", "--config-file", "/etc/tonnage/tonnage.conf"]
    assert {pathlib.Path(command[0]).name for command in commands} <= SCRIPTS
    assert service["User"] == "tonnage"
    assert service["Restart"] == "on-failure"
    # /var/lib/tonnage and /var/log/tonnage, where the samples of state_path and decision_log point to.
    assert (service["StateDirectory"], service["LogsDirectory"]) == ("tonnage", "tonnage")


def test_the_units_that_the_documentation_reloads_can_be_reloaded() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (FOLDER.parents[1] / "docs").glob("*.rst"))
    reloaded = set(re.findall(r"systemctl reload (tonnage-\w+)", pages))
    assert reloaded >= {"tonnage-agent", "tonnage-scheduler"}
    for unit in reloaded:
        text = (FOLDER / f"{unit}.service").read_text(encoding="utf-8")
        assert "\nExecReload=/bin/kill -HUP $MAINPID\n" in text, unit


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd on this machine")
def test_systemd_accepts_the_units(tmp_path: pathlib.Path) -> None:
    for unit in UNITS:  # it also wants the commands to be there
        text = re.sub(r"/opt/tonnage/bin/[a-z-]+", "/bin/true", unit.read_text(encoding="utf-8"))
        (tmp_path / unit.name).write_text(text, encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", *map(str, tmp_path.iterdir())]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    complaints = [line for line in done.stdout.splitlines() if "tonnage" in line]
    assert (done.returncode, complaints) == (0, [])
