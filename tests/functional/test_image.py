# SPDX-License-Identifier: Apache-2.0
"""The image of ``deploy/Containerfile``: buildah builds it on a Debian base, and its programs run as its user."""

import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from tests import suites
from tests.debian_root import files_of_pip

pytestmark = pytest.mark.heavy

ROOT = pathlib.Path(__file__).parents[2]

#: The base image of the Containerfile, which the test makes of Debian because it pulls nothing.
BASE = "docker.io/library/python:3.13-slim"


#: The programs of Tonnage that pods of the chart run.
PROGRAMS = {"tonnage-api", "tonnage-publisher", "tonnage-manage", "tonnage-scheduler", "tonnage-agent"}


def pod_commands(source: pathlib.Path) -> list[list[str]]:
    """Return the commands of Tonnage in the manifests and in the parts of the chart."""
    texts = [
        path.read_text("utf-8")
        for name in ("kubernetes", "parts")
        for path in (source / "deploy" / name).glob("*.yaml")
    ]
    lists = [line for text in texts for line in re.findall(r"^ +command: (\[tonnage-.*\])$", text, re.MULTILINE)]
    return [yaml.safe_load(line) for line in lists]


def configuration(source: pathlib.Path) -> str:
    """Return ``tonnage.conf`` of the manifests."""
    body = yaml.safe_load((source / "deploy" / "kubernetes" / "configuration.yaml").read_text("utf-8"))
    text: str = body["data"]["tonnage.conf"]
    return text


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
    # The commands of the pods of the chart, with the files of the manifests and folders that the pods mount.
    made = {"tonnage.conf": configuration(source), "secret.conf": f"[database]\nconnection = {database}\n"}
    for name, text in made.items():
        (folder / "etc").mkdir(exist_ok=True)
        (folder / "etc" / name).write_text(text, encoding="utf-8")
    mounts = [f"--volume={folder / 'etc'}:{place}:ro" for place in ("/etc/tonnage", "/etc/tonnage-agent")]
    commands = pod_commands(source)
    assert {command[0] for command in commands} == PROGRAMS
    for command in commands:
        ends = command[0] == "tonnage-manage"
        answer = buildah("run", *mounts, container, "--", *command, *([] if ends else ["--help"]))
        assert ("is at revision" if ends else "usage: ") in answer
    buildah("run", container, "--", "python", "-c", "import kubernetes, psycopg, pymysql, grpc")
