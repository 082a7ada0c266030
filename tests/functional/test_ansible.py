# SPDX-License-Identifier: Apache-2.0
"""Ansible's modules for volumes against a real Tonnage. A separate environment has Ansible and is reused."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests import suites
from tests.functional.deployment import standalone

HERE = pathlib.Path(__file__).parent
CACHE = pathlib.Path.home() / ".cache" / "tonnage-tests" / "ansible-12.3.0"
#: This release of the collection does not work with openstacksdk from 4.5 on.
PACKAGES = ("ansible==12.3.0", "openstacksdk==4.4.0")


@pytest.fixture(scope="module")
def ansible() -> pathlib.Path:
    """The folder of Ansible's commands."""
    if not (CACHE / "bin" / "ansible-playbook").exists():
        pip = [CACHE / "bin" / "python", "-m", "pip", "install", "--quiet", *PACKAGES]
        for command in ([sys.executable, "-m", "venv", "--clear", CACHE], pip):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                suites.cannot_run("Ansible", f"{' '.join(PACKAGES)} cannot be installed: {done.stderr[-300:]}")
    return CACHE / "bin"


@pytest.mark.heavy
def test_a_playbook_creates_and_deletes_volumes(ansible: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with standalone() as tonnage:
        clouds = (
            (HERE.parents[1] / "etc" / "clouds.yaml").read_text().replace("http://127.0.0.1:8776", tonnage.rest.url)
        )
        (tmp_path / "clouds.yaml").write_text(clouds)
        environ = {key: value for key, value in os.environ.items() if not key.startswith(("OS_", "ANSIBLE_"))}
        environ |= {"HOME": str(tmp_path), "OS_CLIENT_CONFIG_FILE": str(tmp_path / "clouds.yaml")}
        interpreter = f"ansible_python_interpreter={ansible / 'python'}"
        command = [ansible / "ansible-playbook", "-i", "localhost,", "-e", interpreter, HERE / "playbook.yml"]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "failed=0" in done.stdout
