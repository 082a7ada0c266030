# SPDX-License-Identifier: Apache-2.0
"""Real file systems in trouble: whatever happens there, the next report tells the truth and the ledger knows why."""

import contextlib
import errno
import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.functional.deployment import GIB, Addresses, Deployment, until
from tests.unit.drivers import mounts

KINDS = ("ext4", "xfs")

#: What one file system has to show; `make test-heavy` asks the other too.
on_ext4 = pytest.mark.parametrize("kind", ["ext4", pytest.param("xfs", marks=pytest.mark.heavy)])
on_xfs = pytest.mark.parametrize("kind", [pytest.param("ext4", marks=pytest.mark.heavy), "xfs"])

#: Loaded by the process that runs the drivers. Just before space for a volume is taken somebody else takes all that is
#: free, just after it was taken the process is killed: if a file of that name is there.
_TRAPS = """\
import os, pathlib, signal, sys

if sys.argv[0].endswith("tonnage-standalone"):
    from tonnage.drivers.filesystem import volume_files

    traps = pathlib.Path(os.environ["TRAPS"])
    fallocate = volume_files._fallocate

    def trapped(descriptor, mode, offset, length):
        if (traps / "fill").exists():
            place = (traps / "fill").read_text()
            (traps / "fill").unlink()
            file = os.open(place, os.O_CREAT | os.O_RDWR)
            free = os.fstatvfs(file)
            assert fallocate(file, 0, 0, free.f_bavail * free.f_frsize - (64 << 20)) == 0
            os.close(file)
        done = fallocate(descriptor, mode, offset, length)
        if (traps / "kill").exists():
            (traps / "kill").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    volume_files._fallocate = trapped
"""


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """A file system of each kind."""
    folder = tmp_path_factory.mktemp("disks")
    with mounts.mounted("ext4", folder, 4000) as ext4, mounts.mounted("xfs", folder, 4000) as xfs:
        yield {"ext4": ext4, "xfs": xfs}


@pytest.fixture(scope="module")
def traps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traps")
    (folder / "sitecustomize.py").write_text(_TRAPS)
    return folder


@pytest.fixture(scope="module")
def deployment(disks: dict[str, Path], traps: Path) -> Iterator[Deployment]:
    backends = {
        kind: {
            "filesystem_path": disks[kind] / "volumes",
            "filesystem_provisioning": "both",
            "max_over_subscription_ratio": 3,
        }
        for kind in KINDS
    }
    environment = {"PYTHONPATH": str(traps), "TRAPS": str(traps)}
    with Deployment(Addresses(), backends, environment, listing_interval=2) as deployment:
        deployment.start()
        for kind in KINDS:
            deployment.rest.new_type(f"{kind}-thin", volume_backend_name=kind, provisioning__type="thin")
            deployment.rest.new_type(f"{kind}-thick", volume_backend_name=kind, provisioning__type="thick")
        yield deployment


@pytest.fixture
def tonnage(deployment: Deployment) -> Iterator[Deployment]:
    """A deployment that has no volumes, before and after."""
    yield deployment
    deployment.rest.delete(*(volume["id"] for volume in deployment.rest.volumes()))


def figures(tonnage: Deployment, kind: str) -> dict[str, float]:
    """Return total, free and provisioned of a pool as they are reported."""
    shown = tonnage.rest.pools()[tonnage.pool(kind)]
    return {name: shown[f"{name}_capacity_gb"] for name in ("total", "free", "provisioned")}


def really_free(disk: Path) -> float:
    """Return what of a file system is free, as a report tells it."""
    system = os.statvfs(disk)
    return system.f_bavail * system.f_frsize * 100 // GIB / 100


def check_truth(tonnage: Deployment, kind: str, disk: Path, provisioned: float) -> None:
    """Soon, after two reports at most, the figures are those of the file system."""

    def told() -> bool:
        reported = figures(tonnage, kind)
        return (reported["free"], reported["provisioned"]) == (really_free(disk), provisioned)

    until(told, f"what is free and {provisioned} GiB provisioned is reported")


def causes(tonnage: Deployment) -> dict[str, str]:
    """Return what ``ledger check`` finds wrong now and whether it is drift, by what it is about."""
    ended = tonnage.attempt("manage", None, "ledger", "check", "--json")
    assert ended.code in (0, 3), ended.error
    findings: list[dict[str, Any]] = json.loads(ended.output)["findings"]
    assert (ended.code == 3) == any(finding["drift"] for finding in findings)
    return {finding["what"]: finding["cause"] for finding in findings}


def write_until_full(file: io.FileIO) -> int:
    """Write to a file until its file system has no room left; return how many bytes it took."""
    written = 0
    while True:
        try:
            written += file.write(bytes(1 << 20))
            os.fsync(file.fileno())
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return written


def give_back(filler: Path) -> None:
    """Remove a file, its space at once: of one that is unlinked only, xfs gives it back when it has time."""
    os.truncate(filler, 0)
    filler.unlink()


@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_that_fills_up_in_the_middle_of_a_create(
    tonnage: Deployment, disks: dict[str, Path], traps: Path, kind: str
) -> None:
    kept = tonnage.rest.create(1, f"{kind}-thick")
    tonnage.rest.made(kept)
    filler = disks[kind] / "filler"
    (traps / "fill").write_text(str(filler))
    failed = tonnage.rest.create(2, f"{kind}-thick")
    until(lambda: tonnage.rest.volume(failed)["status"] == "error", "the volume failed")
    assert "No space left on device" in tonnage.rest.volume(failed)["status_reason"]
    assert [file.name for file in (disks[kind] / "volumes").iterdir() if file.is_file()] == [kept]
    check_truth(tonnage, kind, disks[kind], 1)
    assert figures(tonnage, kind)["free"] < 0.1
    assert tonnage.rest.extend(kept, 2).status_code == 409
    until(lambda: causes(tonnage) == {}, "nothing is wrong with the ledger")
    give_back(filler)
    check_truth(tonnage, kind, disks[kind], 1)
    tonnage.rest.made(tonnage.rest.create(2, f"{kind}-thick"))


@on_ext4
def test_an_agent_that_is_killed_in_the_middle_of_an_extend(
    tonnage: Deployment, disks: dict[str, Path], traps: Path, kind: str
) -> None:
    volume = tonnage.rest.create(1, f"{kind}-thick")
    tonnage.rest.made(volume)
    (traps / "kill").touch()
    with contextlib.suppress(requests.ConnectionError):  # it may be killed before it has answered
        assert tonnage.rest.extend(volume, 2).status_code == 202
    assert tonnage.processes["standalone"].wait() == -signal.SIGKILL
    file = disks[kind] / "volumes" / volume
    assert (file.stat().st_size, file.stat().st_blocks * 512 // GIB) == (GIB, 2), "it was not in the middle"
    tonnage.kill()
    tonnage.start()
    assert tonnage.rest.made(volume)["size"] == 2
    assert (file.stat().st_size, file.stat().st_blocks * 512 // GIB) == (2 * GIB, 2)
    check_truth(tonnage, kind, disks[kind], 2)
    until(lambda: causes(tonnage) == {}, "nothing is wrong with the ledger")


@on_xfs
def test_what_is_done_behind_its_back(tonnage: Deployment, disks: dict[str, Path], kind: str) -> None:
    lost, grown, kept = (tonnage.rest.create(1, f"{kind}-thin") for _ in range(3))
    for volume in (lost, grown, kept):
        tonnage.rest.made(volume)
    folder = disks[kind] / "volumes"
    (folder / lost).unlink()
    os.truncate(folder / grown, 2 * GIB)
    (folder / "by-hand").touch()
    os.truncate(folder / "by-hand", 3 * GIB)
    check_truth(tonnage, kind, disks[kind], 6)
    expected = {lost: "lost", grown: "size", "by-hand": "orphan"}
    until(lambda: expected.items() <= causes(tonnage).items(), "the ledger's check tells the causes")
    # Their sizes count, whoever made them: 12 less 6 and a little.
    assert tonnage.rest.ask(6, f"{kind}-thin").status_code == 409
    (folder / "by-hand").unlink()
    os.truncate(folder / grown, GIB)
    check_truth(tonnage, kind, disks[kind], 2)


@on_ext4
def test_thin_volumes_that_are_written_until_the_pool_is_full(
    tonnage: Deployment, disks: dict[str, Path], kind: str
) -> None:
    """What others have taken leaves 100 MiB, so that it does not take long."""
    volume = tonnage.rest.create(1, f"{kind}-thin")
    tonnage.rest.made(volume)
    filler = disks[kind] / "filler"
    with filler.open("wb") as file:
        system = os.fstatvfs(file.fileno())
        os.posix_fallocate(file.fileno(), 0, system.f_bavail * system.f_frsize - (100 << 20))
    with (disks[kind] / "volumes" / volume).open("r+b", buffering=0) as file:
        assert 0 < write_until_full(file) < GIB
    check_truth(tonnage, kind, disks[kind], 1)
    assert figures(tonnage, kind)["free"] == 0
    assert "free 0" in tonnage.rest.refusal(1, f"{kind}-thin")["message"]
    assert tonnage.rest.extend(volume, 2).status_code == 409
    assert causes(tonnage) == {}
    tonnage.rest.delete(volume)
    give_back(filler)
    check_truth(tonnage, kind, disks[kind], 0)


@on_xfs
def test_a_file_system_that_becomes_read_only(tonnage: Deployment, disks: dict[str, Path], kind: str) -> None:
    volume = tonnage.rest.create(1, f"{kind}-thin")
    tonnage.rest.made(volume)
    check_truth(tonnage, kind, disks[kind], 1)
    mounts.remount(disks[kind], "ro")
    try:
        until(lambda: figures(tonnage, kind)["free"] == 0, "nothing is free")
        assert figures(tonnage, kind)["provisioned"] == 1
        assert "free 0" in tonnage.rest.refusal(1, f"{kind}-thin")["message"]
        assert tonnage.rest.call("DELETE", f"volumes/{volume}").status_code == 202
        until(lambda: tonnage.rest.volume(volume)["status"] == "error_deleting", "the delete failed")
        assert "Read-only file system" in tonnage.rest.volume(volume)["status_reason"]
        assert causes(tonnage) == {}
    finally:
        mounts.remount(disks[kind], "rw")
    check_truth(tonnage, kind, disks[kind], 1)
