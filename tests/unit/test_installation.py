# SPDX-License-Identifier: Apache-2.0
"""Plug-ins of packages that are installed while the process runs, and the commands in hints."""

import json
import pathlib
import shlex
import sys

import pytest

from tonnage import installation


def test_a_plugin_that_was_installed_later_is_found(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installation.load_plugins("tonnage.test", "Answer") == []
    (tmp_path / "later.py").write_text("ANSWER = 42\n")
    info = tmp_path / "later-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: later\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tonnage.test]\nAnswer = later:ANSWER\n")
    assert installation.load_plugins("tonnage.test", "Answer") == [42]
    assert [point.name for point in installation.entry_points("tonnage.test")] == ["Answer"]


@pytest.mark.parametrize(
    ("origin", "here", "command"),
    [
        ({"dir_info": {"editable": True}}, True, ".venv/bin/pip install --editable '.[mysql]'"),
        ({"dir_info": {"editable": True}}, False, "{}/.venv/bin/pip install --editable '{}[mysql]'"),
        ({"dir_info": {}}, False, "{}/.venv/bin/pip install '{}[mysql]'"),
        (None, False, "{}/.venv/bin/pip install 'tonnage[mysql]'"),
    ],
    ids=["in a checkout", "a checkout elsewhere", "from a folder", "from an index"],
)
def test_the_command_suits_the_installation(
    tmp_path: pathlib.Path, origin: dict[str, object] | None, here: bool, command: str
) -> None:
    checkout = tmp_path / "checkout"
    programs = checkout / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "pip").touch()
    direct_url = None if origin is None else json.dumps({"url": checkout.as_uri(), **origin})
    folder = checkout if here else pathlib.Path("/")
    told = installation.pip_command("mysql", direct_url, programs / "python", folder)
    # shlex quotes a path only where it has to.
    assert told == command.format(checkout, checkout)


def test_a_wheel_is_named_as_long_as_it_is_there(tmp_path: pathlib.Path) -> None:
    wheel, python = tmp_path / "tonnage-1.0-py3-none-any.whl", pathlib.Path("/opt/tonnage/bin/python")
    origin = json.dumps({"url": wheel.as_uri(), "archive_info": {}})
    gone = f"{python} -m pip install 'tonnage[csi]'"
    assert installation.pip_command("csi", origin, python, pathlib.Path("/")) == gone
    wheel.touch()
    there = f"{python} -m pip install '{wheel}[csi]'"
    assert installation.pip_command("csi", origin, python, pathlib.Path("/")) == there


@pytest.mark.parametrize(
    ("package", "extras"),
    [("falcon", ["api"]), ("oslo_policy", ["api"]), ("cotyledon", ["agent"]), ("numpy", [""]), ("json", [])],
)
def test_the_extra_of_a_library_is_that_of_setup_cfg(package: str, extras: list[str]) -> None:
    assert installation.extras_with(package) == extras


def test_a_missing_library_is_a_line_with_the_command_that_installs_its_extra() -> None:
    line = installation.missing_library(ModuleNotFoundError("No module named 'oslo_policy'", name="oslo_policy"))
    assert line is not None
    assert line.startswith("the library oslo_policy is not installed; install it with: ")
    assert installation.install_command("api") in line


def test_a_library_without_a_module_is_too_old_and_a_program_may_name_its_own_extra() -> None:
    error = ModuleNotFoundError("No module named 'cotyledon.types'", name="cotyledon.types")
    line = installation.missing_library(error, "all")
    assert line is not None
    assert line.startswith("the library cotyledon is too old, it has no module types; install it with: ")
    assert installation.install_command("all") in line


def test_a_missing_module_of_no_requirement_is_a_bug() -> None:
    assert installation.missing_library(ModuleNotFoundError("No module named 'odd'", name="odd")) is None
    assert installation.missing_library(ModuleNotFoundError("a bug", name="tonnage.odd")) is None
    assert installation.missing_library(ModuleNotFoundError("raised by hand")) is None


def test_no_extra_stands_for_the_package_alone(tmp_path: pathlib.Path) -> None:
    told = installation.pip_command("", None, pathlib.Path("/opt/tonnage/bin/python"), tmp_path)
    assert told == "/opt/tonnage/bin/python -m pip install tonnage"


def test_the_command_for_the_installation_of_the_tests_names_its_pip() -> None:
    program, *arguments = shlex.split(installation.install_command("mysql"))
    assert pathlib.Path(program).resolve().parent == pathlib.Path(sys.executable).parent.resolve()
    assert arguments[-1].endswith("[mysql]")
