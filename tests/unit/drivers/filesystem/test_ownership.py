# SPDX-License-Identifier: Apache-2.0
"""A folder belongs to one pool: two would treat each other's volumes as orphans, and delete the only copy."""

import os
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path

import pytest

from tests.unit.drivers import configured, mounts
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers import loader
from tonnage.drivers.base import Driver, Volume
from tonnage.drivers.filesystem import ownership

MARK = ".tonnage-pool"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "volumes"
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Driver]:
    """A factory of drivers that are not checked yet."""

    def load(folder: Path, backend: str = "fs", text: str = "") -> Driver:
        conf_folder = tmp_path / f"{backend}-conf"
        conf_folder.mkdir(exist_ok=True)
        text = f"[{backend}]\nvolume_driver = filesystem\nfilesystem_path = {folder}\n{textwrap.dedent(text)}\n"
        return loader.load(f"host@{backend}", backend, configured.conf(conf_folder, text))

    return load


@pytest.fixture
def make(load: Callable[..., Driver]) -> Callable[..., Driver]:
    def make(folder: Path, backend: str = "fs", text: str = "") -> Driver:
        driver = load(folder, backend, text)
        driver.check()
        return driver

    return make


Make = Callable[..., Driver]


def volume(name: str, pool: str = "fs") -> Volume:
    return Volume(id=name, pool=pool, size_gb=1, provisioning=Provisioning.THIN)


def ids(driver: Driver) -> list[str]:
    return [stored.id for stored in driver.list_volumes()]


def owner(folder: Path) -> str:
    return os.readlink(folder / MARK)


# The mark


def test_the_first_use_marks_the_folder_and_another_backend_is_refused(folder: Path, make: Make, load: Make) -> None:
    make(folder).create(volume("v"))
    assert owner(folder) == "host@fs#fs"
    other = load(folder, "other")
    with pytest.raises(errors.ConfigurationError) as caught:
        other.check()
    assert str(caught.value) == (
        f"[other] filesystem_path: {folder} belongs to pool host@fs#fs, and host@other#other needs a folder of its "
        f"own; if that pool is gone for good or was renamed, remove {folder}/.tonnage-pool"
    )
    assert sorted(path.name for path in folder.iterdir()) == [MARK, "v"]
    assert owner(folder) == "host@fs#fs"


def test_a_restart_accepts_its_own_mark(folder: Path, make: Make) -> None:
    make(folder).create(volume("v"))
    again = make(folder)
    again.check()
    assert ids(again) == ["v"]


def test_the_mark_is_not_a_volume(folder: Path, make: Make) -> None:
    driver = make(folder)
    assert ids(driver) == []
    (figures,) = driver.report()
    assert figures["provisioned_capacity_gb"] == 0
    assert driver.supports_manage
    with pytest.raises(errors.DriverError, match="not a regular file") as caught:
        driver.manage(volume("v"), MARK)
    assert caught.value.clean
    with pytest.raises(errors.DriverError, match="is no name for a file"):
        driver.delete(volume(MARK))
    assert owner(folder) == "host@fs#fs"


def test_a_folder_without_a_mark_is_adopted_with_its_volumes(folder: Path, make: Make, load: Make) -> None:
    make(folder).create(volume("v"))
    (folder / MARK).unlink()
    driver = make(folder)
    assert ids(driver) == ["v"]
    assert owner(folder) == "host@fs#fs"
    with pytest.raises(errors.ConfigurationError, match="belongs to pool host@fs#fs"):
        load(folder, "other").check()


def test_each_pool_marks_its_own_folder(folder: Path, make: Make) -> None:
    make(folder, text="filesystem_pools = a, b")
    assert [owner(folder / name) for name in ("a", "b")] == ["host@fs#a", "host@fs#b"]
    assert not os.path.lexists(folder / MARK)


@pytest.mark.parametrize("backend", ["fs", "other"])
def test_a_renamed_pool_or_backend_takes_over_once_the_mark_is_removed(
    folder: Path, make: Make, load: Make, backend: str
) -> None:
    make(folder, text=f"filesystem_pools = old\n[fs:old]\nfilesystem_path = {folder}").create(volume("v", "old"))
    renamed = f"filesystem_pools = new\n[{backend}:new]\nfilesystem_path = {folder}"
    with pytest.raises(errors.ConfigurationError, match=rf"host@fs#old, and host@{backend}#new .* remove {folder}/\.t"):
        load(folder, backend, renamed).check()
    (folder / MARK).unlink()
    assert ids(make(folder, backend, renamed)) == ["v"]
    assert owner(folder) == f"host@{backend}#new"
    with pytest.raises(errors.ConfigurationError, match=f"belongs to pool host@{backend}#new"):
        load(folder).check()


def test_a_mark_may_be_replaced_by_hand(folder: Path, make: Make) -> None:
    make(folder)
    (folder / MARK).unlink()
    (folder / MARK).symlink_to("host@other#other")
    make(folder, "other")


def test_the_folder_of_a_pool_that_left_the_configuration_stays_its_own(folder: Path, make: Make, load: Make) -> None:
    make(folder, text="filesystem_pools = a, b")
    make(folder, text="filesystem_pools = a")
    with pytest.raises(errors.ConfigurationError, match=r"belongs to pool host@fs#b, and host@other#other needs"):
        load(folder / "b", "other").check()
    make(folder, text="filesystem_pools = a, b")


def test_pools_with_swapped_folders_are_refused(folder: Path, make: Make, load: Make) -> None:
    make(folder, text="filesystem_pools = a, b")
    swapped = f"filesystem_pools = a, b\n[fs:a]\nfilesystem_path = {folder}/b\n[fs:b]\nfilesystem_path = {folder}/a"
    with pytest.raises(
        errors.ConfigurationError, match=rf"\[fs:a\] filesystem_path: {folder}/b belongs to pool host@fs#b"
    ):
        load(folder, text=swapped).check()


def test_a_refused_configuration_marks_no_folder(folder: Path, make: Make, load: Make) -> None:
    make(folder / "b", "other")
    with pytest.raises(errors.ConfigurationError, match="belongs to pool host@other#other"):
        load(folder, text="filesystem_pools = a, b").check()
    assert not os.path.lexists(folder / "a" / MARK)
    twice = f"filesystem_pools = c, d\n[fs:d]\nfilesystem_path = {folder}/c"
    with pytest.raises(errors.ConfigurationError, match="is the folder of pool 'c' too"):
        load(folder, text=twice).check()
    assert not os.path.lexists(folder / "c" / MARK)


@pytest.mark.parametrize("create_mark", [Path.touch, Path.mkdir])
def test_a_mark_that_is_not_a_link_has_an_unknown_owner(
    folder: Path, load: Make, create_mark: Callable[[Path], None]
) -> None:
    folder.mkdir()
    create_mark(folder / MARK)
    with pytest.raises(errors.ConfigurationError, match=rf"belongs to pool of unknown name.* remove {folder}/\.t"):
        load(folder).check()


def test_nested_folders_are_separate_pools(folder: Path, make: Make) -> None:
    outer, inner = make(folder), make(folder / "inner", "inner")
    outer.create(volume("v"))
    inner.create(volume("w", "inner"))
    assert (ids(outer), ids(inner)) == (["v"], ["w"])


# The same folder by another path


def test_a_folder_is_recognized_through_a_symbolic_link(folder: Path, tmp_path: Path, make: Make, load: Make) -> None:
    make(folder / "a")
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(errors.ConfigurationError, match=r"link/a belongs to pool host@fs#fs"):
        load(tmp_path / "link" / "a", "other").check()


def test_a_folder_is_recognized_through_a_bind_mount(folder: Path, tmp_path: Path, make: Make, load: Make) -> None:
    make(folder).create(volume("v"))
    with mounts.bound(folder, tmp_path) as point, pytest.raises(errors.ConfigurationError, match="to pool host@fs#fs"):
        load(point, "other").check()


def test_a_copy_of_a_folder_has_the_same_owner(folder: Path, tmp_path: Path, make: Make, load: Make) -> None:
    make(folder)
    shutil.copytree(folder, tmp_path / "copy", symlinks=True)
    with pytest.raises(errors.ConfigurationError, match="belongs to pool host@fs#fs"):
        load(tmp_path / "copy", "other").check()
    make(tmp_path / "copy")


# Changes while a pool is in use


def test_a_running_pool_restores_its_removed_mark(folder: Path, make: Make, load: Make) -> None:
    driver = make(folder)
    (folder / MARK).unlink()
    driver.report()
    with pytest.raises(errors.ConfigurationError, match="belongs to pool host@fs#fs"):
        load(folder, "other").check()


def test_a_pool_does_not_use_a_folder_that_another_pool_has_claimed(folder: Path, make: Make) -> None:
    """A purge of orphans here would delete the volume of the other pool."""
    driver = make(folder)
    driver.create(volume("v"))
    (folder / MARK).unlink()
    other = make(folder, "other")
    operations: list[Callable[[], object]] = [
        lambda: driver.create(volume("w")),
        lambda: driver.extend(volume("v"), 2),
        lambda: driver.delete(volume("v")),
        driver.list_volumes,
        driver.report,
    ]
    for operation in operations:
        with pytest.raises(errors.DriverError, match=rf"{folder} belongs to pool host@other#other now"):
            operation()
    assert ids(other) == ["v"]
    assert (folder / "v").stat().st_size == GIB


def test_a_pool_that_lost_its_folder_does_not_affect_the_others(folder: Path, make: Make) -> None:
    driver = make(folder, text="filesystem_pools = a, b")
    (folder / "a" / MARK).unlink()
    make(folder / "a", "other")
    assert [pool["pool_name"] for pool in driver.report()] == ["b"]


# A full disk


@pytest.mark.parametrize("kind", ["tmpfs", "ext4", "btrfs"])
def test_a_full_disk_can_be_marked(tmp_path: Path, make: Make, load: Make, kind: str) -> None:
    with mounts.mounted(kind, tmp_path, 320) as point:
        folder = point / "volumes"
        folder.mkdir()
        (folder / "v").touch()
        os.truncate(folder / "v", GIB)
        with (point / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space left"):
            shutil.copyfileobj(_Zeros(), filler)
        driver = make(folder)
        assert owner(folder) == "host@fs#fs"
        with pytest.raises(errors.ConfigurationError, match="belongs to pool host@fs#fs"):
            load(folder, "other").check()
        driver.delete(volume("v"))


class _Zeros:
    """A file without an end."""

    def read(self, size: int) -> bytes:
        return bytes(size)


def test_a_folder_that_cannot_be_marked_is_refused(folder: Path, load: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    driver = load(folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "symlink", full)
        with pytest.raises(errors.ConfigurationError) as caught:
            driver.check()
    assert str(caught.value) == (
        f"[fs] filesystem_path: {folder} cannot be marked as that of pool host@fs#fs: No space left on device; "
        "make room for one more file there"
    )
    driver.check()


# Simultaneous claims


def test_of_several_threads_exactly_one_claims_a_folder(folder: Path, load: Make) -> None:
    for number in range(50):
        drivers = [load(folder / str(number), f"b{one}") for one in range(4)]
        start = threading.Barrier(len(drivers))

        def attempt(driver: Driver, start: threading.Barrier = start) -> None:
            start.wait(timeout=60)
            driver.check()

        with futures.ThreadPoolExecutor(len(drivers)) as pool:
            outcomes = [outcome.exception() for outcome in [pool.submit(attempt, driver) for driver in drivers]]
        assert outcomes.count(None) == 1
        first = outcomes.index(None)
        assert all(f"belongs to pool host@b{first}#b{first}" in str(error) for error in outcomes if error is not None)
        assert owner(folder / str(number)) == f"host@b{first}#b{first}"


_WORKER = """
import pathlib, sys
from tests.unit.drivers import configured
from tonnage.capacity import errors
from tonnage.drivers import loader

name, conf_folder, folder, rounds = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
drivers = []
for number in range(rounds):
    text = f"[{name}]\\nvolume_driver = filesystem\\nfilesystem_path = {folder}/{number}\\n"
    drivers.append(loader.load(f"host@{name}", name, configured.conf(conf_folder, text)))
print("ready", flush=True)
sys.stdin.readline()
won = []
for number, driver in enumerate(drivers):
    try:
        driver.check()
        won.append(number)
    except errors.ConfigurationError as error:
        assert f"{number} belongs to pool host@" in str(error), error
print(*won, flush=True)
"""


def test_of_several_processes_exactly_one_claims_a_folder(tmp_path: Path, folder: Path) -> None:
    """Exactly one process wins in each of many folders."""
    rounds, names = 200, ("one", "two")
    processes = []
    for name in names:
        (tmp_path / name).mkdir()
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", _WORKER, name, tmp_path / name, folder, str(rounds)],
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    won = {
        name: set(map(int, process.communicate(timeout=60)[0].split()))
        for name, process in zip(names, processes, strict=True)
    }
    assert [process.returncode for process in processes] == [0, 0]
    assert won["one"].isdisjoint(won["two"])
    assert won["one"] | won["two"] == set(range(rounds))
    for name, numbers in won.items():
        assert {owner(folder / str(number)) for number in numbers} <= {f"host@{name}#{name}"}


def test_a_claim_that_loses_a_race_returns_the_winner(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / MARK).symlink_to("host@gone#gone")
    real = os.readlink
    calls: list[str] = []

    def readlink(*args: object, **more: object) -> str:
        if not calls:
            calls.append("nothing was there")
            raise FileNotFoundError
        return real(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "readlink", readlink)
    assert ownership.claim("host@fs#fs", folder / MARK) == "host@gone#gone"
