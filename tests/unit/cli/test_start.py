# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata

import pytest

#: A slow module that catches all exceptions during its import.
SLOW = """
import signal
import time

print("importing", flush=True)
try:
    time.sleep(60)
except BaseException:
    print("caught", flush=True)


def main():
    raise SystemExit(f"main: {signal.getsignal(signal.SIGINT)}")
"""

START = "from tonnage.cli import start; raise SystemExit(start.run('slow_command'))"


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "slow_command.py").write_text(SLOW)
    return tmp_path


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Enable SIGINT for the processes of these tests, even if the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def begin(folder: pathlib.Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", START],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ctrl_c_during_the_import_ends_a_command_quietly(folder: pathlib.Path) -> None:
    process = begin(folder)
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        try:
            assert process.communicate(timeout=30) == ("", "")
        finally:
            process.kill()
    assert process.returncode == 130


def test_ctrl_c_after_the_import_raises_an_exception(folder: pathlib.Path) -> None:
    (folder / "slow_command.py").write_text(SLOW.replace("sleep(60)", "sleep(0)"))
    process = begin(folder)
    assert "main: <built-in function default_int_handler>" in process.communicate(timeout=30)[1]


def test_garbage_is_collected_after_the_import(folder: pathlib.Path) -> None:
    (folder / "slow_command.py").write_text(
        "import gc\nduring = gc.isenabled()\ndef main():\n    raise SystemExit(f'{during}, then {gc.isenabled()}')\n"
    )
    assert "False, then True" in begin(folder).communicate(timeout=30)[1]


def test_every_command_starts_its_own_module() -> None:
    scripts = metadata.distribution("tonnage").entry_points.select(group="console_scripts")
    assert len(scripts) == 10
    started: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        for script in scripts:
            patched.setattr(
                sys.modules[script.load().__module__], "run", lambda module, extra="": started.append(module)
            )
            script.load()()
    expected = {script.name.removeprefix("tonnage-").replace("-", "_") for script in scripts}
    assert {module.rpartition(".")[2] for module in started} == expected
