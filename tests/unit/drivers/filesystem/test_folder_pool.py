# SPDX-License-Identifier: Apache-2.0
"""A folder as a pool: its figures promise never too much, and another folder or owner in its place is noticed."""

import errno
import os
import pathlib
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers.filesystem import folder_pool, volume_files
from tonnage.drivers.filesystem.folder_pool import CopyInProgress, Pool
from tonnage.drivers.filesystem.volume_files import File


def pool_of(path: pathlib.Path, **values: Any) -> Pool:
    return Pool(
        **{
            "name": "p",
            "full_name": "host@fs#p",
            "section": "fs",
            "path": str(path),
            "limit_bytes": None,
            "provisioning_kinds": frozenset({Provisioning.THIN}),
            "capabilities": {"vendor_name": "Tonnage"},
            "storage_id": "machine:disk",
        }
        | values
    )


def checked(path: pathlib.Path) -> Pool:
    """Return a pool whose folder was checked at start."""
    pool = pool_of(path)
    with pool.open_folder("start") as folder:
        pool.identity = volume_files.identity(folder)
    return pool


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A file system of 100 GiB, 40 of them available and 10 reserved for root."""
    blocks = GIB // 4096
    disk = SimpleNamespace(f_frsize=4096, f_blocks=100 * blocks, f_bfree=50 * blocks, f_bavail=40 * blocks, f_flag=0)
    monkeypatch.setattr(os, "fstatvfs", lambda folder: disk)
    return disk


def figures(pool: Pool, *files: File, with_copies: bool = False) -> dict[str, Any]:
    return pool.figures(0, files, with_copies)


def test_space_that_is_reserved_for_root_is_no_capacity(tmp_path: pathlib.Path, disk: SimpleNamespace) -> None:
    report = figures(pool_of(tmp_path), File("v", 7 * GIB, 2 * GIB))
    assert (report["total_capacity_gb"], report["free_capacity_gb"]) == (90.0, 40.0)
    assert (report["provisioned_capacity_gb"], report["storage_free_capacity_gb"]) == (7.0, 40.0)
    assert (report["pool_name"], report["storage_id"], report["vendor_name"]) == ("p", "machine:disk", "Tonnage")


def test_a_limit_bounds_what_the_files_may_use(tmp_path: pathlib.Path, disk: SimpleNamespace) -> None:
    pool = pool_of(tmp_path, limit_bytes=10 * GIB)
    report = figures(pool, File("v", 30 * GIB, 4 * GIB))
    assert (report["total_capacity_gb"], report["free_capacity_gb"]) == (10.0, 6.0)
    assert figures(pool, File("v", 30 * GIB, 11 * GIB))["free_capacity_gb"] == 0.0


def test_figures_are_rounded_so_that_they_promise_too_little(tmp_path: pathlib.Path, disk: SimpleNamespace) -> None:
    disk.f_bavail -= 1
    report = figures(pool_of(tmp_path), File("v", GIB + 1, 0))
    assert (report["free_capacity_gb"], report["provisioned_capacity_gb"]) == (39.99, 1.01)


def test_copies_in_progress_count_for_checks_and_not_in_reports(tmp_path: pathlib.Path, disk: SimpleNamespace) -> None:
    pool = pool_of(tmp_path, limit_bytes=20 * GIB)
    pool.copies["v"] = CopyInProgress(size=8 * GIB, allocated=1 * GIB, to_write=3 * GIB)
    assert figures(pool)["provisioned_capacity_gb"] == 0.0
    report = figures(pool, with_copies=True)
    assert (report["provisioned_capacity_gb"], report["free_capacity_gb"]) == (8.0, 16.0)


def test_nothing_is_free_on_a_read_only_file_system(tmp_path: pathlib.Path, disk: SimpleNamespace) -> None:
    pool = pool_of(tmp_path)
    assert pool.problem(0) == ""
    disk.f_flag = os.ST_RDONLY
    assert figures(pool)["free_capacity_gb"] == 0.0
    assert pool.problem(0).startswith(f"pool host@fs#p: the file system of {tmp_path} is read-only")


def test_the_first_use_of_a_folder_claims_it(tmp_path: pathlib.Path) -> None:
    pool = checked(tmp_path)
    with pool.open_folder("use") as folder:
        assert pool.owner(folder) == "host@fs#p"


def test_a_folder_of_another_pool_is_not_used(tmp_path: pathlib.Path) -> None:
    with checked(tmp_path).open_folder("use"):
        pass
    other = checked(tmp_path)
    other.full_name = "host@other#p"
    belongs = r"^create: folder .* belongs to pool host@fs#p now"
    with pytest.raises(errors.DriverError, match=belongs), other.open_folder("create"):
        pytest.fail("the folder was opened")


@pytest.mark.parametrize("other_mark", [None, "another-mark"])
def test_a_folder_that_lost_the_mark_of_its_ledger_is_not_used(tmp_path: pathlib.Path, other_mark: str | None) -> None:
    """An emptied folder is the same folder, and nothing in it was deleted by Tonnage."""
    pool = checked(tmp_path)
    assert pool.ledger_mark() is None
    for name in ("mark-1", "mark-2"):
        pool.mark_ledger(name)
        assert (pool.ledger_mark(), pool.required_mark) == ("mark-1", "mark-1"), "the first mark stays"
    for mark in tmp_path.iterdir():
        mark.unlink()
    if other_mark is not None:
        (tmp_path / folder_pool.LEDGER_MARK).symlink_to(other_mark)
    left = sorted(tmp_path.iterdir())
    lost = pytest.raises(errors.DriverError, match=r"^create: folder .* has lost its mark .tonnage-ledger, mark-1 ")
    with lost as caught, pool.open_folder("create", clean=True):
        pytest.fail("the folder was opened")
    assert caught.value.clean
    assert sorted(tmp_path.iterdir()) == left, "nothing is written there, no mark either"


def test_another_folder_at_the_same_path_is_not_used(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "volumes"
    path.mkdir()
    pool = checked(path)
    path.rename(tmp_path / "moved")
    path.mkdir()
    replaced = pytest.raises(errors.DriverError, match="is another one than at start")
    with replaced as caught, pool.open_folder("create", clean=True):
        pytest.fail("the folder was opened")
    assert caught.value.clean
    assert list(path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "error"),
    [(errno.ENOSPC, errors.CapacityExceeded), (errno.EDQUOT, errors.CapacityExceeded), (errno.EIO, errors.DriverError)],
)
def test_an_error_of_the_system_tells_whether_space_is_missing(
    tmp_path: pathlib.Path, number: int, error: type[errors.TonnageError]
) -> None:
    message = f"^create: {os.strerror(number)} in {tmp_path}$"
    with pytest.raises(error, match=message), pool_of(tmp_path).open_folder("create"):
        raise OSError(number, os.strerror(number))


def test_a_location_leads_to_the_folder_on_this_machine_alone() -> None:
    location = folder_pool.location("/srv/volumes: 1")
    assert location == f"filesystem:{socket.gethostname()}:/srv/volumes: 1"
    assert folder_pool.folder_of_location(location) == "/srv/volumes: 1"


@pytest.mark.parametrize(
    "location",
    ["", "filesystem", "filesystem:elsewhere:/srv", "lvm:{host}:/srv", "filesystem::/srv", "filesystem:{host}:srv"],
)
def test_any_other_location_has_no_folder(location: str) -> None:
    assert folder_pool.folder_of_location(location.format(host=socket.gethostname())) is None


@pytest.mark.parametrize("name", ["gold", "7", "a_b-c.d", "x" * 255])
def test_a_safe_name_stays_within_its_folder(name: str) -> None:
    assert folder_pool.SAFE_NAME.fullmatch(name)


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "-x", "größe", "a\n", "x" * 256])
def test_any_other_name_is_refused(name: str) -> None:
    assert not folder_pool.SAFE_NAME.fullmatch(name)
