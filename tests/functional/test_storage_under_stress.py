# SPDX-License-Identifier: Apache-2.0
"""Real file systems that fill up, change or fail: the next report is right, and the ledger finds the causes."""

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

from tests.functional.deployment import GIB, Addresses, Deployment
from tests.servers.base import wait_for
from tests.unit.drivers import mounts

KINDS = ("ext4", "xfs")

#: One file system is enough for the normal suite; `make test-heavy` tests the other too.
on_ext4 = pytest.mark.parametrize("kind", ["ext4", pytest.param("xfs", marks=pytest.mark.heavy)])
on_xfs = pytest.mark.parametrize("kind", [pytest.param("ext4", marks=pytest.mark.heavy), "xfs"])

#: A module for the process with the drivers. If the file ``fill`` exists, the disk is filled before the allocation of
#: space for a volume. If the file ``kill`` exists, the process is killed after the allocation.
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
            deployment.rest.create_type(f"{kind}-thin", volume_backend_name=kind, provisioning__type="thin")
            deployment.rest.create_type(f"{kind}-thick", volume_backend_name=kind, provisioning__type="thick")
        yield deployment


@pytest.fixture
def tonnage(deployment: Deployment) -> Iterator[Deployment]:
    """The deployment, without volumes before and after the test."""
    yield deployment
    deployment.rest.delete(*(volume["id"] for volume in deployment.rest.volumes()))


def figures(tonnage: Deployment, kind: str) -> dict[str, float]:
    """Return the reported total, free and provisioned capacity of a pool in GiB."""
    shown = tonnage.rest.pools()[tonnage.pool(kind)]
    return {name: shown[f"{name}_capacity_gb"] for name in ("total", "free", "provisioned")}


def free_gb(disk: Path) -> float:
    """Return the free space of a file system in GiB, rounded down as in a report."""
    system = os.statvfs(disk)
    return system.f_bavail * system.f_frsize * 100 // GIB / 100


def check_report(tonnage: Deployment, kind: str, disk: Path, provisioned: float) -> None:
    """Wait until a report has the free space of the file system and this provisioned capacity in GiB."""

    def reported_right() -> bool:
        reported = figures(tonnage, kind)
        return (reported["free"], reported["provisioned"]) == (free_gb(disk), provisioned)

    wait_for(reported_right, f"a report shows the free space and {provisioned} GiB provisioned")


def causes(tonnage: Deployment) -> dict[str, str]:
    """Return the cause of each finding of ``ledger check`` by its subject."""
    ended = tonnage.run_command("manage", None, "ledger", "check", "--json")
    assert ended.code in (0, 3), ended.error
    findings: list[dict[str, Any]] = json.loads(ended.output)["findings"]
    assert (ended.code == 3) == any(finding["drift"] for finding in findings)
    return {finding["subject"]: finding["cause"] for finding in findings}


def write_until_full(file: io.FileIO) -> int:
    """Write to a file until its file system is full, and return the number of bytes written."""
    written = 0
    while True:
        try:
            written += file.write(bytes(1 << 20))
            os.fsync(file.fileno())
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return written


def remove_filler(filler: Path) -> None:
    """Remove a file and free its space at once. xfs frees the space of a file that is only unlinked later."""
    os.truncate(filler, 0)
    filler.unlink()


@pytest.mark.parametrize("kind", KINDS)
def test_a_create_fails_cleanly_when_the_disk_fills_up(
    tonnage: Deployment, disks: dict[str, Path], traps: Path, kind: str
) -> None:
    kept = tonnage.rest.create(1, f"{kind}-thick")
    tonnage.rest.wait_until_available(kept)
    filler = disks[kind] / "filler"
    (traps / "fill").write_text(str(filler))
    failed = tonnage.rest.create(2, f"{kind}-thick")
    wait_for(lambda: tonnage.rest.volume(failed)["status"] == "error", "the creation has failed")
    assert "No space left on device" in tonnage.rest.volume(failed)["status_reason"]
    assert [file.name for file in (disks[kind] / "volumes").iterdir() if file.is_file()] == [kept]
    check_report(tonnage, kind, disks[kind], 1)
    assert figures(tonnage, kind)["free"] < 0.1
    assert tonnage.rest.extend(kept, 2).status_code == 409
    wait_for(lambda: causes(tonnage) == {}, "the check of the ledger finds nothing")
    remove_filler(filler)
    check_report(tonnage, kind, disks[kind], 1)
    tonnage.rest.wait_until_available(tonnage.rest.create(2, f"{kind}-thick"))


@on_ext4
def test_an_extend_is_completed_after_a_kill_of_the_agent(
    tonnage: Deployment, disks: dict[str, Path], traps: Path, kind: str
) -> None:
    volume = tonnage.rest.create(1, f"{kind}-thick")
    tonnage.rest.wait_until_available(volume)
    (traps / "kill").touch()
    with contextlib.suppress(requests.ConnectionError):  # the process may be killed before its answer
        assert tonnage.rest.extend(volume, 2).status_code == 202
    assert tonnage.processes["standalone"].wait() == -signal.SIGKILL
    file = disks[kind] / "volumes" / volume
    assert (file.stat().st_size, file.stat().st_blocks * 512 // GIB) == (GIB, 2), (
        "the process was not killed in the middle"
    )
    tonnage.kill()
    tonnage.start()
    assert tonnage.rest.wait_until_available(volume)["size"] == 2
    assert (file.stat().st_size, file.stat().st_blocks * 512 // GIB) == (2 * GIB, 2)
    check_report(tonnage, kind, disks[kind], 2)
    wait_for(lambda: causes(tonnage) == {}, "the check of the ledger finds nothing")


@on_xfs
def test_changes_by_others_are_reported_and_found(tonnage: Deployment, disks: dict[str, Path], kind: str) -> None:
    lost, grown, kept = (tonnage.rest.create(1, f"{kind}-thin") for _ in range(3))
    for volume in (lost, grown, kept):
        tonnage.rest.wait_until_available(volume)
    folder = disks[kind] / "volumes"
    (folder / lost).unlink()
    os.truncate(folder / grown, 2 * GIB)
    (folder / "by-hand").touch()
    os.truncate(folder / "by-hand", 3 * GIB)
    check_report(tonnage, kind, disks[kind], 6)
    expected = {lost: "lost", grown: "size", "by-hand": "orphan"}
    wait_for(lambda: expected.items() <= causes(tonnage).items(), "the check of the ledger finds the causes")
    # All files count: less than 6 of 12 GiB are left.
    assert tonnage.rest.request_volume(6, f"{kind}-thin").status_code == 409
    (folder / "by-hand").unlink()
    os.truncate(folder / grown, GIB)
    check_report(tonnage, kind, disks[kind], 2)


@on_ext4
def test_a_full_pool_takes_no_more_thin_volumes(tonnage: Deployment, disks: dict[str, Path], kind: str) -> None:
    """Another file leaves 100 MiB, so filling the disk does not take long."""
    volume = tonnage.rest.create(1, f"{kind}-thin")
    tonnage.rest.wait_until_available(volume)
    filler = disks[kind] / "filler"
    with filler.open("wb") as file:
        system = os.fstatvfs(file.fileno())
        os.posix_fallocate(file.fileno(), 0, system.f_bavail * system.f_frsize - (100 << 20))
    with (disks[kind] / "volumes" / volume).open("r+b", buffering=0) as file:
        assert 0 < write_until_full(file) < GIB
    check_report(tonnage, kind, disks[kind], 1)
    assert figures(tonnage, kind)["free"] == 0
    assert "free 0" in tonnage.rest.refusal(1, f"{kind}-thin")["message"]
    assert tonnage.rest.extend(volume, 2).status_code == 409
    assert causes(tonnage) == {}
    tonnage.rest.delete(volume)
    remove_filler(filler)
    check_report(tonnage, kind, disks[kind], 0)


@on_xfs
def test_a_read_only_file_system_takes_no_volumes(tonnage: Deployment, disks: dict[str, Path], kind: str) -> None:
    volume = tonnage.rest.create(1, f"{kind}-thin")
    tonnage.rest.wait_until_available(volume)
    check_report(tonnage, kind, disks[kind], 1)
    mounts.remount(disks[kind], "ro")
    try:
        wait_for(lambda: figures(tonnage, kind)["free"] == 0, "the report shows no free space")
        assert figures(tonnage, kind)["provisioned"] == 1
        assert "free 0" in tonnage.rest.refusal(1, f"{kind}-thin")["message"]
        assert tonnage.rest.request("DELETE", f"volumes/{volume}").status_code == 202
        wait_for(lambda: tonnage.rest.volume(volume)["status"] == "error_deleting", "the deletion has failed")
        assert "Read-only file system" in tonnage.rest.volume(volume)["status_reason"]
        assert causes(tonnage) == {}
    finally:
        mounts.remount(disks[kind], "rw")
    check_report(tonnage, kind, disks[kind], 1)
