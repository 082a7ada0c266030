# SPDX-License-Identifier: Apache-2.0
"""The image of ``deploy/Containerfile``: buildah builds it on a Debian base, and its programs run as its user."""

import pathlib
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests import suites
from tests.debian_root import files_of_pip

pytestmark = pytest.mark.heavy

ROOT = pathlib.Path(__file__).parents[2]

#: The base image of the Containerfile, which the test makes of Debian because it pulls nothing.
BASE = "docker.io/library/python:3.13-slim"


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder for the images, which take much space and are removed at the end."""
    suites.require_programs("image", "buildah", "mmdebstrap")
    (tmp_path / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    yield tmp_path
    shutil.rmtree(tmp_path)


def test_the_image_is_built_and_runs_as_its_user(folder: pathlib.Path) -> None:
    def run(*command: str | pathlib.Path) -> str:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def buildah(command: str, *arguments: str | pathlib.Path) -> str:
        storage = ("--root", folder / "root", "--runroot", folder / "runroot", "--storage-driver", "vfs")
        policy = ("--signature-policy", folder / "policy.json") if command in ("from", "commit", "bud") else ()
        isolation = ("--isolation", "chroot") if command in ("bud", "run") else ()
        return run("buildah", *storage, command, *policy, *isolation, *arguments)

    run("mmdebstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates", "bookworm", "base.tar")
    base = buildah("from", "scratch")
    buildah("add", base, "base.tar", "/")
    buildah("run", base, "--", "ln", "-s", "/usr/bin/python3", "/usr/local/bin/python")
    buildah("commit", base, BASE)
    run("git", "-C", ROOT, "archive", "--output", folder / "source.tar", "--prefix=source/", "HEAD")
    run("tar", "--extract", "--file", "source.tar")
    volumes = [f"--volume={path}:{path}:ro" for path in sorted(files_of_pip())]
    source = folder / "source"
    buildah("bud", "--pull-never", *volumes, "--file", source / "deploy" / "Containerfile", "--tag", "tonnage", source)
    container = buildah("from", "--pull-never", "localhost/tonnage")
    assert buildah("run", container, "--", "id", "-u") == "65532"
    assert buildah("run", container, "--", "tonnage", "--version").startswith("tonnage ")
    assert "pools" in buildah("run", container, "--", "tonnage", "--help")
    samples = buildah("run", container, "--", "tonnage-manage", "sample-config", "/tmp/samples")
    assert "/tmp/samples/tonnage.conf.sample" in samples
    database = "sqlite:////tmp/tonnage.sqlite"
    write = f"printf '[database]\\nconnection = {database}\\n' >/tmp/t.conf"
    sync = f"{write}; tonnage-manage --config-file /tmp/t.conf db sync"
    assert "is at revision" in buildah("run", container, "--", "sh", "-c", sync)
    refused = buildah("run", container, "--", "sh", "-c", "touch /opt/tonnage/x 2>&1 || true")
    assert "denied" in refused.lower()
