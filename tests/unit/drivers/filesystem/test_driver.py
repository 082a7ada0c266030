# SPDX-License-Identifier: Apache-2.0
"""The behaviour of the file-system driver beyond the contract (tests/contract/test_filesystem.py)."""

import ctypes
import errno
import functools
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tonnage
from tests.unit.drivers import configured, mounts
from tests.unit.drivers.filesystem import overtaken
from tests.unit.drivers.filesystem.overtaken import OvertakenDriver
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers import contract, loader
from tonnage.drivers.base import Terms, Volume
from tonnage.drivers.filesystem.driver import FilesystemDriver

MARK = ".tonnage-pool"
THIN, THICK = Provisioning.THIN, Provisioning.THICK
GENEROUS = Terms(ratio=1000.0, calculation=Calculation.STANDARD)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for volumes, removed at the end: pytest keeps its own for three more runs, with thick volumes."""
    path = tmp_path / "volumes"
    yield path
    shutil.rmtree(path, ignore_errors=True)


RefuseSync = Callable[..., None]


@pytest.fixture
def refuse_sync(monkeypatch: pytest.MonkeyPatch) -> RefuseSync:
    """A function that makes each sync of a file (or of a folder) fail for a full disk or another reason."""
    fsync = os.fsync

    def refuse(folders: bool, number: int = errno.EDQUOT) -> None:
        def fail(descriptor: int) -> None:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode) == folders:
                raise OSError(number, os.strerror(number))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", fail)

    return refuse


def load(folder: Path, text: str = "", sections: str = "") -> OvertakenDriver:
    text = f"[fs]\nvolume_driver = filesystem\nfilesystem_path = {folder}\n{textwrap.dedent(text)}\n"
    conf = configured.conf(folder.parent, text + textwrap.dedent(sections))
    driver = loader.build(OvertakenDriver, "host@fs", "fs", conf)
    assert isinstance(driver, OvertakenDriver)
    return driver


def make(folder: Path, text: str = "", sections: str = "") -> OvertakenDriver:
    driver = load(folder, text, sections)
    driver.check()
    return driver


def volume(
    name: str, size_gb: int = 1, kind: Provisioning = THIN, pool: str = "fs", terms: Terms | None = None
) -> Volume:
    return Volume(id=name, pool=pool, size_gb=size_gb, provisioning=kind, terms=terms)


def used(path: Path) -> int:
    return path.stat().st_blocks * 512


def names(folder: Path) -> list[str]:
    """Return the names in a folder, without the mark of its owner."""
    return sorted(path.name for path in folder.iterdir() if path.name != MARK)


def figures(driver: FilesystemDriver, pool: str = "fs") -> dict[str, Any]:
    return next(dict(one) for one in driver.report() if one["pool_name"] == pool)


# Files on the disk


def test_a_thin_volume_is_a_sparse_file(folder: Path) -> None:
    make(folder, "max_over_subscription_ratio = 1000").create(volume("v", 50))
    path = folder / "v"
    assert path.stat().st_size == 50 * GIB
    assert used(path) == 0
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_thick_volume_has_its_blocks_allocated(folder: Path) -> None:
    driver = make(folder, "filesystem_provisioning = thick")
    driver.create(volume("v", 1, THICK))
    assert (folder / "v").stat().st_size == GIB <= used(folder / "v")
    driver.extend(volume("v", 1, THICK), 2)
    assert (folder / "v").stat().st_size == 2 * GIB <= used(folder / "v")


def test_a_thin_volume_stays_sparse_and_keeps_its_data_when_extended(folder: Path) -> None:
    driver = make(folder)
    driver.create(volume("v"))
    with (folder / "v").open("r+b") as file:
        file.write(b"data")
    driver.extend(volume("v"), 3)
    assert (folder / "v").stat().st_size == 3 * GIB
    assert used(folder / "v") < 1 << 20
    with (folder / "v").open("rb") as file:
        assert file.read(5) == b"data\0"


def test_a_new_folder_belongs_to_its_user_alone(folder: Path) -> None:
    make(folder, "filesystem_pools = a")
    assert (folder / "a").stat().st_mode & 0o777 == 0o700


def test_the_mode_of_an_existing_folder_stays_unchanged(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    make(folder)
    assert folder.stat().st_mode & 0o777 == 0o755


# Reports


def test_capabilities(folder: Path) -> None:
    reported = figures(make(folder, "volume_backend_name = files\nfilesystem_provisioning = both"))
    assert {key: value for key, value in reported.items() if not key.endswith("_gb") and key != "storage_id"} == {
        "pool_name": "fs",
        "volume_backend_name": "files",
        "reserved_percentage": 0,
        "max_over_subscription_ratio": None,
        "vendor_name": "Tonnage",
        "driver_version": tonnage.__version__,
        "storage_protocol": "file",
        "QoS_support": False,
        "multiattach": False,
        "location_info": f"filesystem:{socket.gethostname()}:{folder}",
        "thin_provisioning_support": True,
        "thick_provisioning_support": True,
    }


@pytest.mark.parametrize(
    ("kind", "thin", "thick"), [("thin", True, False), ("thick", False, True), ("both", True, True)]
)
def test_the_configured_provisioning_is_reported(folder: Path, kind: str, thin: bool, thick: bool) -> None:
    driver = make(folder, f"filesystem_provisioning = {kind}")
    reported = figures(driver)
    assert (reported["thin_provisioning_support"], reported["thick_provisioning_support"]) == (thin, thick)
    for provisioning, supported in ((THIN, thin), (THICK, thick)):
        if not supported:
            with pytest.raises(
                errors.DriverError, match=f"no {provisioning} volumes.*filesystem_provisioning"
            ) as caught:
                driver.create(volume("v", 1, provisioning))
            assert caught.value.clean
    assert driver.list_volumes() == []


def test_without_a_limit_the_size_of_the_file_system_is_the_limit(folder: Path) -> None:
    reported = figures(make(folder))
    system = os.statvfs(folder)
    total = (system.f_blocks - system.f_bfree + system.f_bavail) * system.f_frsize / GIB
    assert reported["total_capacity_gb"] <= total < reported["total_capacity_gb"] + 0.5
    assert reported["free_capacity_gb"] == reported["storage_free_capacity_gb"]


def test_a_limit_above_the_file_system_has_no_effect(folder: Path) -> None:
    unlimited = figures(make(folder))
    limited = figures(make(folder, "filesystem_size_limit_gb = 1000000"))
    assert limited["total_capacity_gb"] == pytest.approx(unlimited["total_capacity_gb"], abs=0.5)


def test_files_of_other_programs_count(folder: Path) -> None:
    driver = make(folder, "filesystem_size_limit_gb = 4")
    os.truncate(_touched(folder / "image.raw"), 3 * GIB // 2)
    (folder / ".hidden").write_bytes(b"x" * (64 << 20))
    (folder / os.fsdecode(b"\xff\xfe")).touch()
    reported = figures(driver)
    assert reported["provisioned_capacity_gb"] == 1.57  # 1.5 and 1/16, rounded up
    assert reported["free_capacity_gb"] == 3.93  # 4 - 1/16, rounded down
    assert {(one.id, one.size_gb) for one in driver.list_volumes()} == {
        ("image.raw", 1.5),
        (".hidden", 0.0625),
        (r"\xff\xfe", 0.0),
    }


def test_entries_that_are_not_regular_files_do_not_count(folder: Path) -> None:
    driver = make(folder)
    os.truncate(_touched(folder.parent / "outside"), 5 * GIB)
    (folder / "link").symlink_to(folder.parent / "outside")
    (folder / "lost+found").mkdir()
    os.truncate(_touched(folder / "lost+found" / "v"), GIB)
    os.mkfifo(folder / "pipe")
    assert driver.list_volumes() == []
    assert figures(driver)["provisioned_capacity_gb"] == 0


def test_a_file_with_two_names_counts_once(folder: Path) -> None:
    driver = make(folder)
    driver.create(volume("v"))
    os.link(folder / "v", folder / "w")
    assert figures(driver)["provisioned_capacity_gb"] == 1
    assert len(driver.list_volumes()) == 1


def test_a_written_volume_uses_space(folder: Path) -> None:
    driver = make(folder, "filesystem_size_limit_gb = 2")
    driver.create(volume("v", 2))
    with (folder / "v").open("r+b") as file:
        file.write(b"x" * (64 << 20))
    reported = figures(driver)
    assert reported["free_capacity_gb"] == 1.93  # 2 - 1/16, rounded down
    assert reported["provisioned_capacity_gb"] == 2


def test_nothing_is_free_above_the_limit(folder: Path) -> None:
    make(folder, "filesystem_provisioning = thick").create(volume("v", 2, THICK))
    reported = figures(make(folder, "filesystem_size_limit_gb = 1"))
    assert (reported["total_capacity_gb"], reported["free_capacity_gb"]) == (1, 0)


def test_a_report_scans_a_folder_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = make(folder, "max_over_subscription_ratio = 1000")
    for number in range(1000):
        os.truncate(_touched(folder / f"v{number}"), GIB)
    passes = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (passes.append(path), real(path))[1])
    assert figures(driver)["provisioned_capacity_gb"] == 1000
    assert len(passes) == 1


# Several pools


def test_each_pool_has_its_own_folder_limit_ratio_and_reserve(folder: Path) -> None:
    driver = make(
        folder,
        """
        filesystem_pools = gold, silver, bronze
        filesystem_size_limit_gb = 4
        reserved_percentage = 25
        """,
        f"""
        [fs:gold]
        filesystem_path = {folder / "elsewhere"}
        filesystem_size_limit_gb = 2
        max_over_subscription_ratio = 5
        reserved_percentage = 0
        extra_capabilities = {{"media": "ssd"}}
        [fs:bronze]
        filesystem_provisioning = both
        max_over_subscription_ratio = auto
        """,
    )
    gold, silver, bronze = driver.report()
    columns = ("pool_name", "total_capacity_gb", "reserved_percentage", "max_over_subscription_ratio", "media")
    assert [[one.get(column) for column in columns] for one in (gold, silver, bronze)] == [
        ["gold", 2, 0, 5.0, "ssd"],
        ["silver", 4, 25, None, None],
        ["bronze", 4, 25, "auto", None],
    ]
    assert len({one["storage_id"] for one in (gold, silver, bronze)}) == 1
    driver.create(volume("g", 9, pool="gold"))
    driver.create(volume("s", 1, pool="silver"))
    driver.create(volume("b", 1, THICK, pool="bronze"))
    assert (folder / "elsewhere" / "g").stat().st_size == 9 * GIB
    assert (folder / "silver" / "s").stat().st_size == GIB
    assert used(folder / "bronze" / "b") >= GIB
    assert {(one.pool, one.id, one.size_gb) for one in driver.list_volumes()} == {
        ("gold", "g", 9),
        ("silver", "s", 1),
        ("bronze", "b", 1),
    }
    assert [one["provisioned_capacity_gb"] for one in driver.report()] == [9, 1, 1]
    assert [one["free_capacity_gb"] for one in driver.report()] == [2, 4, 3]
    with pytest.raises(errors.CapacityExceeded, match=r"host@fs#gold .* headroom 1\.00 .* ratio 5"):
        driver.create(volume("more", 2, pool="gold"))


@pytest.mark.parametrize("name", ["..", ".", "a/b", "/etc", "-x", "a#b", "a b", "\N{LATIN SMALL LETTER E WITH ACUTE}"])
def test_invalid_pool_names_are_refused(folder: Path, name: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"\[fs\] filesystem_pools: .* is no name for a pool"):
        load(folder, f"filesystem_pools = {name}")


def test_two_pools_of_one_name_are_refused(folder: Path) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"\[fs\] filesystem_pools = a, b, a: "):
        load(folder, "filesystem_pools = a, b, a")


def test_two_pools_in_one_folder_are_refused(folder: Path) -> None:
    driver = load(folder, "filesystem_pools = a, b", f"[fs:b]\nfilesystem_path = {folder / 'a'}")
    with pytest.raises(errors.ConfigurationError, match=r"\[fs:b\] filesystem_path: .*/a is the folder of pool 'a'"):
        driver.check()


def test_a_missing_path_is_refused(tmp_path: Path) -> None:
    conf = configured.conf(tmp_path, "[fs]\nvolume_driver = filesystem")
    with pytest.raises(errors.ConfigurationError, match=r"\[fs\] filesystem_path is not set"):
        loader.load("host@fs", "fs", conf)


def test_an_unreadable_pool_does_not_affect_the_others(folder: Path) -> None:
    driver = make(folder, "filesystem_pools = a, b")
    shutil.rmtree(folder / "a")
    assert [one["pool_name"] for one in driver.report()] == ["b"]
    shutil.rmtree(folder / "b")
    with pytest.raises(errors.DriverError, match=r"cannot be measured: No such file or directory in .*/b"):
        driver.report()


# Unsafe names


@pytest.mark.parametrize(
    "name",
    ["../v", "/tmp/v", "..", ".", "", ".v", "a/b", "a\0b", "a\n", "-rf", "v" * 256, "\N{GREEK SMALL LETTER ALPHA}"],
)
def test_names_cannot_leave_the_folder(folder: Path, name: str) -> None:
    driver = make(folder)
    before = sorted(folder.parent.rglob("*"))
    for operation in (driver.create, driver.delete, lambda one: driver.extend(one, 2)):
        with pytest.raises(errors.DriverError, match="is no name for a file") as caught:
            operation(volume(name))
        assert caught.value.clean
    assert sorted(folder.parent.rglob("*")) == before


@pytest.mark.parametrize("prepare", [lambda path: path.symlink_to("../outside"), os.mkfifo, os.mkdir])
def test_entries_that_are_not_regular_files_stay_unchanged(folder: Path, prepare: Callable[[Path], None]) -> None:
    driver = make(folder)
    outside = _touched(folder.parent / "outside")
    prepare(folder / "v")
    for operation in (driver.create, driver.delete, lambda one: driver.extend(one, 2)):
        with pytest.raises(errors.DriverError, match="not a regular file"):
            operation(volume("v"))
    assert os.path.lexists(folder / "v")
    assert outside.stat().st_size == 0


def test_a_create_never_replaces_a_taken_name(folder: Path) -> None:
    driver = make(folder)
    driver.meanwhile = lambda: (folder / "v").write_text("precious", encoding="utf-8")
    with pytest.raises(errors.DriverError, match="File exists in") as caught:
        driver.create(volume("v"))
    assert caught.value.clean
    assert (folder / "v").read_text(encoding="utf-8") == "precious"


def test_a_folder_that_is_a_symbolic_link_is_refused(folder: Path) -> None:
    (folder.parent / "real").mkdir()
    folder.symlink_to("real")
    with pytest.raises(errors.ConfigurationError, match=r"\[fs\] filesystem_path: .*/volumes cannot be used"):
        make(folder)
    folder.unlink()


def test_a_replaced_folder_is_not_used(folder: Path) -> None:
    driver = make(folder)
    driver.create(volume("v"))
    folder.rename(folder.parent / "moved")
    folder.mkdir()
    for operation in (
        lambda: driver.create(volume("w")),
        lambda: driver.delete(volume("v")),
        driver.list_volumes,
        driver.report,
    ):
        with pytest.raises(errors.DriverError, match="is another one than at start"):
            operation()
    assert list(folder.iterdir()) == []


# Unusable folders


def test_an_unwritable_folder_is_refused(tmp_path: Path, folder: Path) -> None:
    folder.mkdir(mode=0o555)
    driver = load(folder)
    with _unprivileged(tmp_path), pytest.raises(errors.ConfigurationError) as caught:
        driver.check()
    assert str(caught.value) == (
        f"[fs] filesystem_path: {folder} cannot be used: Permission denied; "
        "name a folder (no symbolic link) that this user may read and write"
    )


def test_a_folder_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "parent").mkdir(mode=0o555)
    driver = load(tmp_path / "parent" / "volumes") if os.geteuid() == 0 else None
    if driver is None:
        conf = configured.conf(
            tmp_path, f"[fs]\nvolume_driver = filesystem\nfilesystem_path = {tmp_path}/parent/volumes"
        )
        driver = loader.load("host@fs", "fs", conf)
    with _unprivileged(tmp_path), pytest.raises(errors.ConfigurationError, match="cannot be used: Permission denied"):
        driver.check()


def test_a_path_that_is_a_file_is_refused(folder: Path) -> None:
    folder.write_text("", encoding="utf-8")
    with pytest.raises(errors.ConfigurationError, match=r"filesystem_path: .*/volumes cannot be used: File exists"):
        make(folder)
    folder.unlink()


def test_a_file_system_without_unnamed_files_is_refused(tmp_path: Path) -> None:
    conf = configured.conf(tmp_path, "[fs]\nvolume_driver = filesystem\nfilesystem_path = /proc/self")
    with pytest.raises(errors.ConfigurationError, match=r"\[fs\] filesystem_path: "):
        loader.load("host@fs", "fs", conf).check()


# Failures


def test_an_error_of_the_disk_names_the_folder_and_leaves_nothing(folder: Path, refuse_sync: RefuseSync) -> None:
    driver = make(folder)
    refuse_sync(folders=False, number=errno.EIO)
    with pytest.raises(errors.DriverError, match=f"volume v in pool host@fs#fs: .*error in {folder}") as caught:
        driver.create(volume("v"))
    assert caught.value.clean
    assert names(folder) == []


def test_a_volume_above_the_largest_file_size_does_not_fit(folder: Path) -> None:
    driver = make(folder)
    # File systems have different limits, and that of tmpfs exceeds all volumes; a limit of the process has the same
    # error.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**30, hard))
    try:
        with pytest.raises(errors.CapacityExceeded):
            driver.create(volume("v", 2, terms=Terms(ratio=1e9, calculation=Calculation.STANDARD)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(folder) == []


def test_the_space_of_an_interrupted_extend_is_freed_at_start(folder: Path) -> None:
    driver = make(folder, "filesystem_provisioning = thick\nfilesystem_size_limit_gb = 3")
    driver.create(volume("v", 1, THICK))
    foreign = folder / "foreign"
    foreign.write_text("text", encoding="utf-8")
    for path in (folder / "v", foreign):
        with path.open("r+b") as file:
            _allocate_beyond(file.fileno(), GIB, GIB)
    assert figures(driver)["free_capacity_gb"] == 0, "all allocated space counts"
    written = foreign.stat().st_mtime_ns
    driver.check()
    assert GIB <= used(folder / "v") < GIB + GIB // 128
    assert used(foreign) >= GIB, "a file that is not a volume stays unchanged"
    assert foreign.stat().st_mtime_ns == written
    foreign.unlink()
    assert figures(driver)["free_capacity_gb"] == 2


def test_repeating_an_interrupted_extend_finishes_it(folder: Path) -> None:
    driver = make(folder, "filesystem_provisioning = thick\nfilesystem_size_limit_gb = 3")
    driver.create(volume("v", 1, THICK))
    with (folder / "v").open("r+b") as file:
        _allocate_beyond(file.fileno(), GIB, GIB // 2)
    driver.check()
    driver.extend(volume("v", 1, THICK), 2)
    assert (folder / "v").stat().st_size == 2 * GIB <= used(folder / "v")
    assert figures(driver)["free_capacity_gb"] == 1


def test_two_drivers_in_one_folder_enforce_its_limit(folder: Path) -> None:
    """Two processes of one backend are a mistake, but they do not over-provision."""
    drivers = [make(folder, "filesystem_size_limit_gb = 3") for _ in range(2)]
    made = 0
    for number in range(8):
        try:
            drivers[number % 2].create(volume(f"v{number}"))
            made += 1
        except errors.CapacityExceeded:
            pass
    assert made == 3


# Full disks


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_a_disk_that_fills_up_during_an_operation(tmp_path: Path, kind: str) -> None:
    with mounts.mounted(kind, tmp_path, 3000) as point:
        driver = make(point / "volumes", "filesystem_provisioning = thick")
        driver.create(volume("v", 1, THICK))
        before = figures(driver)
        assert before["free_capacity_gb"] < 2
        # Other programs take the space after the check, which sees a larger disk.
        driver.meanwhile = overtaken.nothing
        with pytest.raises(errors.CapacityExceeded, match=f"volume w in pool host@fs#fs: .*No space left.* {point}"):
            driver.create(volume("w", 2, THICK))
        with pytest.raises(errors.CapacityExceeded, match="No space left"):
            driver.extend(volume("v", 1, THICK), 3)
        assert [(one.id, one.size_gb) for one in driver.list_volumes()] == [("v", 1)]
        mounts.commit(point)
        after = figures(driver)
        assert after["provisioned_capacity_gb"] == 1
        assert after["free_capacity_gb"] == pytest.approx(before["free_capacity_gb"], abs=0.05)
        driver.meanwhile = None
        driver.delete(volume("v", 1, THICK))
        mounts.commit(point)
        driver.create(volume("w", 2, THICK))


def test_volumes_can_be_deleted_on_a_disk_that_is_full_at_start(tmp_path: Path) -> None:
    with mounts.mounted("tmpfs", tmp_path, 64) as point:
        make(point / "volumes").create(volume("v", terms=GENEROUS))
        with (point / "filler").open("wb") as filler:
            assert os.write(filler.fileno(), b"x" * (65 << 20)) < 65 << 20
        driver = make(point / "volumes", "filesystem_provisioning = both")
        assert figures(driver)["free_capacity_gb"] == 0
        driver.delete(volume("v"))
        assert driver.list_volumes() == []


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_on_a_read_only_file_system_nothing_is_free(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """A kernel makes a file system read-only after an error. Existing volumes stay and count, and nothing is free."""
    caplog.set_level("INFO")
    with mounts.mounted(kind, tmp_path, 1500) as point:
        driver = make(point / "volumes", "filesystem_provisioning = both")
        driver.create(volume("v"))
        (before,) = contract.figures(driver)
        restarted = load(point / "volumes", "filesystem_provisioning = both")
        mounts.remount(point, "ro")
        restarted.check()
        for each in (driver, restarted):
            assert contract.figures(each) == [before._replace(free=0.0)]
            assert contract.sizes(each) == {"v": 1}
            for operation in (
                functools.partial(each.create, volume("w")),
                functools.partial(each.extend, volume("v"), 2),
                functools.partial(each.delete, volume("v")),
            ):
                with pytest.raises(errors.TonnageError, match=r"Read-only file system|free 0"):
                    operation()
        assert contract.sizes(driver) == {"v": 1}
        assert caplog.text.count("is read-only; nothing is free until it is not") == 2, "once for each driver"
        mounts.remount(point, "rw")
        assert contract.figures(driver) == [before]
        assert "works again" in caplog.text
        driver.delete(volume("v"))


def test_pools_on_different_file_systems_have_different_storage_ids(tmp_path: Path, folder: Path) -> None:
    with mounts.mounted("ext4", tmp_path, 64) as disk, mounts.mounted("tmpfs", tmp_path, 64) as memory:
        driver = make(
            folder,
            "filesystem_pools = here, there, disk, nested, memory",
            f"""
            [fs:disk]
            filesystem_path = {disk / "volumes"}
            [fs:nested]
            filesystem_path = {disk / "volumes" / "nested"}
            [fs:memory]
            filesystem_path = {memory}
            """,
        )
        storages = {one["pool_name"]: one["storage_id"] for one in driver.report()}
        assert storages["here"] == storages["there"]
        assert storages["disk"] == storages["nested"]
        assert len(set(storages.values())) == 3
        again = make(folder.parent / "other")
        assert figures(again)["storage_id"] == storages["here"]


# Crashes

_WORKER = """
import pathlib, sys, threading
import tonnage
from tests.unit.drivers import configured
from tonnage.capacity.request import Provisioning
from tonnage.drivers import loader
from tonnage.drivers.base import Volume

driver = loader.load("host@fs", "fs", configured.conf(pathlib.Path(sys.argv[1]), sys.argv[2]))
driver.check()

def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
    sys.stdout.flush()

def work(number):
    kind = list(Provisioning)[number % 2]
    for round in range(10000):
        volume = Volume(id=f"{number}-{round}", pool="fs", size_gb=1, provisioning=kind)
        driver.create(volume)
        say("created", volume.id)
        driver.extend(volume, 2)
        say("extended", volume.id)
        if kind is Provisioning.THICK or round % 3:
            say("deleting", volume.id)
            driver.delete(volume)
            say("deleted", volume.id)

threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
[thread.start() for thread in threads]
"""


@pytest.mark.parametrize("lines", [1, 50, 301])
def test_a_killed_process_leaves_no_incomplete_volumes(tmp_path: Path, folder: Path, lines: int) -> None:
    text = f"""
    [fs]
    volume_driver = filesystem
    filesystem_path = {folder}
    filesystem_provisioning = both
    max_over_subscription_ratio = 1000
    """
    worker = subprocess.Popen(
        [sys.executable, "-c", _WORKER, tmp_path, text],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    with worker.stdout as output:
        output_lines = [output.readline() for _ in range(lines)]
        worker.send_signal(signal.SIGKILL)
        output_lines += output.readlines()
    assert worker.wait(timeout=60) == -signal.SIGKILL

    known_sizes: dict[str, int] = {}
    deleting: set[str] = set()
    for verb, name in (line.split() for line in output_lines if line.endswith("\n")):
        if verb in ("created", "extended"):
            known_sizes[name] = 1 if verb == "created" else 2
        elif verb == "deleting":
            deleting.add(name)
        else:
            del known_sizes[name]
    driver = load(folder, "filesystem_provisioning = both\nmax_over_subscription_ratio = 1000")
    driver.check()
    found = {one.id: one.size_gb for one in driver.list_volumes()}
    assert known_sizes.keys() - deleting <= found.keys()
    for name, size in found.items():
        assert size in (1, 2)
        assert size >= known_sizes.get(name, 0)
    assert len(found.keys() - known_sizes.keys()) <= 4, "each thread works on one volume"
    assert figures(driver)["provisioned_capacity_gb"] == sum(found.values())
    for name, size in found.items():
        kind = list(Provisioning)[int(name.partition("-")[0]) % 2]
        allocated = used(folder / name)
        assert allocated == 0 if kind is THIN else GIB * size <= allocated < GIB * size * 129 / 128
        driver.extend(volume(name, 1, kind), 2)
        driver.delete(volume(name, 2, kind))
    assert names(folder) == []


# Helpers


def _touched(path: Path) -> Path:
    path.touch()
    return path


def _allocate_beyond(descriptor: int, offset: int, length: int) -> None:
    """Allocate blocks without a change of the size, as an extend does just before it is interrupted."""
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    assert fallocate(descriptor, 1, offset, length) == 0, os.strerror(ctypes.get_errno())


class _unprivileged:  # noqa: N801 -- reads as a statement
    """Drop the rights of root within the context: root may write everywhere."""

    def __init__(self, tmp_path: Path) -> None:
        self.parents = [tmp_path, *tmp_path.parents]
        self.modes: list[tuple[Path, int]] = []

    def __enter__(self) -> None:
        if os.geteuid() != 0:
            return
        for parent in self.parents:
            mode = parent.stat().st_mode & 0o7777
            if not mode & 0o001:
                self.modes.append((parent, mode))
                parent.chmod(mode | 0o001)
        os.seteuid(65534)

    def __exit__(self, *_: object) -> None:
        if os.geteuid() == 65534:
            os.seteuid(0)
            for parent, mode in self.modes:
                parent.chmod(mode)


def test_files_are_named_by_volume_ids(folder: Path) -> None:
    driver = make(folder)
    name = str(uuid.uuid4())
    driver.create(volume(name))
    assert names(folder) == [name]


# A disk that is full at the sync


@pytest.mark.parametrize("kind", [THIN, THICK])
def test_an_extend_that_cannot_be_synced_leaves_the_old_size(
    folder: Path, kind: Provisioning, refuse_sync: RefuseSync
) -> None:
    driver = make(folder, "filesystem_provisioning = both")
    driver.create(volume("v1", 1, kind))
    before = used(folder / "v1")
    refuse_sync(folders=False)
    with pytest.raises(errors.CapacityExceeded, match="extend to 2 GiB failed"):
        driver.extend(volume("v1", 1, kind, terms=GENEROUS), 2)
    assert (folder / "v1").stat().st_size == GIB
    assert used(folder / "v1") == before


def test_a_name_that_cannot_be_synced_is_not_a_clean_failure(
    folder: Path, refuse_sync: RefuseSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = make(folder)
    refuse_sync(folders=True)
    with pytest.raises(errors.DriverError, match="create failed") as raised:
        driver.create(volume("v1"))
    assert not raised.value.clean
    monkeypatch.undo()
    driver.create(volume("v1"))
    assert [(stored.id, stored.size_gb) for stored in driver.list_volumes()] == [("v1", 1)]
