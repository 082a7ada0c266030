# SPDX-License-Identifier: Apache-2.0
"""The releases of Cinder, and the order of imports in its scheduler."""

import os
import pathlib
import subprocess
import sys

import pytest

from tonnage.capacity import errors
from tonnage.extensions.cinder import releases

#: A program in the place of Cinder's: it patches Python, as far as this test can tell, when it is imported.
_PROGRAM = """\
import sys
print("before:", *sorted(name for name in sys.modules if name.startswith("oslo")), flush=True)

class objects:
    register_all = staticmethod(lambda: None)

def main():
    print("started")
"""


def install(folder: pathlib.Path, version: str) -> dict[str, str]:
    """Install a Cinder that has a program alone, and return the environment in which Python finds it."""
    for package in ("cinder", "cinder/cmd", "cinder/scheduler"):
        (folder / package).mkdir()
        (folder / package / "__init__.py").touch()
    (folder / "cinder" / "cmd" / "scheduler.py").write_text(_PROGRAM)
    options = "from oslo_config import cfg\ncfg.CONF.register_opts([cfg.StrOpt('scheduler_manager')])\n"
    options += "cfg.CONF.register_opts([cfg.StrOpt('scheduler_driver')])\n"
    (folder / "cinder" / "scheduler" / "manager.py").write_text(options)
    metadata = folder / f"cinder-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: cinder\nVersion: {version}\n")
    return {**os.environ, "PYTHONPATH": str(folder)}


def run(code: str, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


DAEMON = "from tonnage.extensions.cinder.daemons.entry_points import cinder_scheduler; cinder_scheduler()"

#: What the stock program imports where its configuration names Tonnage's classes.
MANAGER = "import tonnage.extensions.cinder.scheduler.cinder_manager"


@pytest.mark.parametrize("version", ["25.3.1", "28.0.0", "29.0.0"])
def test_cinder_is_imported_before_the_libraries_that_eventlet_patches(tmp_path: pathlib.Path, version: str) -> None:
    done = run(DAEMON, install(tmp_path, version))
    assert done.stdout.splitlines() == ["before:", "started"], done.stderr


@pytest.mark.parametrize(
    ("code", "output"),
    [(DAEMON, "tonnage-cinder-scheduler: {}"), (MANAGER, "{}")],
)
@pytest.mark.parametrize("version", ["24.5.0", "22.1.0"])
def test_an_old_release_is_refused_in_one_line(tmp_path: pathlib.Path, version: str, code: str, output: str) -> None:
    done = run(code, install(tmp_path, version))
    line = (
        f"Cinder {version} is too old: Tonnage runs in Cinder 25 to 29 (2024.2 to 2026.2). Until the cloud is "
        "upgraded, tonnage-cinder-shadow watches its schedulers from an environment of its own"
    )
    assert done.stderr.splitlines() == [output.format(line)]
    assert done.returncode == 1


def test_a_later_release_runs_with_a_warning(tmp_path: pathlib.Path) -> None:
    environment = install(tmp_path, "30.0.0.0rc1")
    done = run("import tonnage.extensions.cinder.scheduler", environment)
    assert done.stderr.splitlines() == [
        "Cinder 30.0.0.0rc1 is later than those that Tonnage was tried with: Cinder 25 to 29 (2024.2 to 2026.2)"
    ]
    assert done.returncode == 0


def test_without_cinder_the_daemon_names_the_releases() -> None:
    done = run(DAEMON, dict(os.environ))
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("tonnage-cinder-scheduler: Cinder cannot be imported (No module named 'cinder'): install")
    assert line.endswith("which is one of Cinder 25 to 29 (2024.2 to 2026.2)")


@pytest.mark.parametrize("version", ["25.0.0", "26.3.0", "27.0.1.dev4", "28.1.0", "29.0.0"])
def test_a_release_in_the_range_has_no_remark(version: str) -> None:
    assert releases.check(version) is None


def test_the_error_about_an_old_release_is_one_of_the_environment() -> None:
    with pytest.raises(errors.ConfigurationError, match=r"Cinder 23\.0\.0 is too old"):
        releases.check("23.0.0")
