# SPDX-License-Identifier: Apache-2.0
"""The LVM driver with the functions of LVM that need no device-mapper; see also tests/functional/test_lvm.py."""

import contextlib
import itertools
import random
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path

import pytest

from tests.unit.drivers import configured, lvm_host
from tests.unit.scheduler.driven import Site
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers import loader
from tonnage.drivers.base import Driver, Source, Volume

MakeDriver = Callable[..., Driver]


@pytest.fixture(scope="module")
def host_group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lvm_host.HostGroup]:
    with lvm_host.volume_group(tmp_path_factory.mktemp("lvm"), 6) as group:
        yield group


def _load(folder: Path, text: str, backend: str = "host@lvm") -> Driver:
    folder = folder / uuid.uuid4().hex
    folder.mkdir()
    return loader.load(backend, "lvm", configured.conf(folder, f"[lvm]\nvolume_driver = lvm\n{text}\n"))


@pytest.fixture
def make(host_group: lvm_host.HostGroup, tmp_path: Path) -> Iterator[MakeDriver]:
    """A factory of drivers for thick volumes; the volumes are removed at the end."""

    def make(text: str = "", backend: str = "host@lvm", helper: str = host_group.helper) -> Driver:
        options = f"volume_group = {host_group.name}\nlvm_type = default\nvolume_clear = none"
        return _load(tmp_path, f"{options}\nlvm_root_helper = {helper}\n{text}", backend)

    yield make
    host_group.run("lvremove", "--yes", host_group.name)


def _volume(name: str | None = None, size_gb: int = 1, kind: Provisioning = Provisioning.THICK) -> Volume:
    return Volume(id=name or str(uuid.uuid4()), pool="lvm", size_gb=size_gb, provisioning=kind)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "volume_group is not set"),
        ("volume_group = -rf", "'-rf' is no name"),
        ("volume_group = a/b", "'a/b' is no name"),
        ("volume_group = a\nlvm_thin_pool = ..", "'..' is no name"),
        ("volume_group = a\nlvm_type = thick", "lvm_type"),
        ("volume_group = a\nlvm_root_helper = 'sudo", "lvm_root_helper.*quotation"),
    ],
)
def test_invalid_options_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=rf"\[lvm\].*{message}"):
        _load(tmp_path, text)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("volume_group = no-such-group", 'Volume group "no-such-group" not found.*name a group that exists'),
        ("lvm_root_helper = no-such-helper", "no-such-helper: No such file.*install LVM"),
        ("lvm_root_helper = echo", "no report"),
    ],
)
def test_an_unusable_group_is_refused(make: MakeDriver, option: str, message: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=rf"\[lvm\] volume_group = .*{message}"):
        make(option).check()


def test_a_group_whose_extents_do_not_divide_a_gib_is_refused(tmp_path: Path) -> None:
    with lvm_host.volume_group(tmp_path, 1, "--physicalextentsize", "3m") as group:
        driver = _load(tmp_path, f"volume_group = {group.name}\nlvm_root_helper = {group.helper}")
        with pytest.raises(errors.ConfigurationError, match=r"3145728 bytes.*power of two"):
            driver.check()


def test_a_group_has_one_backend_for_thick_volumes(host_group: lvm_host.HostGroup, make: MakeDriver) -> None:
    make().check()
    make().check()
    with pytest.raises(errors.ConfigurationError) as caught:
        make(backend="host@other").check()
    assert "belongs to another backend by its tag, and host@other needs one of its own" in caught.value.message
    remedy = caught.value.message.rpartition(": ")[2]
    assert "tonnage.pool=host:lvm" in remedy
    host_group.run(*remedy.replace("'", "").split())
    other = make(backend="else!where@other")
    other.check()
    assert "tonnage.pool=else+21where:other" in host_group.run("vgs", "--options", "vg_tags", host_group.name)
    host_group.run("vgchange", "--deltag", "tonnage.pool=else+21where:other", host_group.name)


def test_auto_stays_with_thick_volumes_in_a_group_tagged_for_them(make: MakeDriver) -> None:
    """Thin volumes, the choice for an empty group, are not available on this machine: the attempt would fail."""
    make().check()
    driver = make("lvm_type = auto")
    driver.check()
    assert driver.report()[0]["thick_provisioning_support"]


def test_a_thin_pool_name_of_another_volume_is_refused(host_group: lvm_host.HostGroup, make: MakeDriver) -> None:
    host_group.run("lvcreate", "--yes", "--name", "taken", "--size", "8m", host_group.name)
    driver = make("lvm_type = thin\nlvm_thin_pool = taken")
    with pytest.raises(errors.ConfigurationError, match="taken in it is a thick volume, no thin pool"):
        driver.check()


def test_volumes_of_other_programs_count(host_group: lvm_host.HostGroup, make: MakeDriver) -> None:
    """The example of ten thick GiB of a hundred, which leave ninety free, at a smaller scale."""
    driver = make()
    driver.check()
    (before,) = driver.report()
    host_group.run("lvcreate", "--yes", "--name", "by-hand", "--size", "1g", host_group.name)
    driver.create(_volume())
    (after,) = driver.report()
    assert before["total_capacity_gb"] == after["total_capacity_gb"] == 5.99, "a descriptor takes its part"
    assert (before["free_capacity_gb"], after["free_capacity_gb"]) == (5.99, 3.99)
    assert (before["provisioned_capacity_gb"], after["provisioned_capacity_gb"]) == (0, 2)


def test_a_thousand_volumes_take_as_many_commands_as_one(
    host_group: lvm_host.HostGroup, make: MakeDriver, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    counting = tmp_path / "counting"
    counting.write_text(f'#!/bin/sh\necho "$@" >>{log}\nexec "$@"\n')
    counting.chmod(0o755)
    make().check()
    host_group.fill(tmp_path, 1000)
    driver = make(helper=f"{counting} {host_group.helper}")
    (figures,) = driver.report()
    assert len(driver.list_volumes()) == 1000
    assert figures["provisioned_capacity_gb"] == pytest.approx(1000 * 4 / 1024, abs=0.01)
    assert figures["free_capacity_gb"] == pytest.approx(5.99 - 1000 * 4 / 1024, abs=0.01)
    assert [line.split()[2] for line in log.read_text().splitlines()] == ["lvs", "lvs"]


def test_managing_rounds_the_size_up_and_admits_the_growth(host_group: lvm_host.HostGroup, make: MakeDriver) -> None:
    driver = make()
    driver.check()
    host_group.run("lvcreate", "--yes", "--name", "volume-theirs", "--size", "1028m", host_group.name)
    volume = _volume()
    assert driver.manage(volume, "volume-theirs") == 2
    assert [(stored.id, stored.size_gb) for stored in driver.list_volumes()] == [(volume.id, 2)]
    host_group.run("lvcreate", "--yes", "--name", "large", "--extents", "100%FREE", host_group.name)
    with pytest.raises(errors.CapacityExceeded):
        driver.manage(_volume(), "large")


def test_unsafe_names_are_refused(make: MakeDriver) -> None:
    driver = make()
    driver.check()
    for name in ("-rf", "a/b", "..", "snapshot1", "a_tdata", "", "a b", "@tag"):
        with pytest.raises(errors.DriverError, match="is no name") as caught:
            driver.create(Volume(id=name, pool="lvm", size_gb=1, provisioning=Provisioning.THICK))
        assert caught.value.clean
    for reference in ("-rf", "a/b", "@tag"):
        with pytest.raises(errors.DriverError, match="is no name") as caught:
            driver.manage(_volume(), reference)
        assert caught.value.clean
    assert driver.list_volumes() == []


def test_the_other_kind_of_provisioning_is_refused(make: MakeDriver) -> None:
    driver = make()
    driver.check()
    for operation in (driver.create, lambda volume: driver.manage(volume, "something")):
        with pytest.raises(errors.DriverError, match=r"no thin volumes \(\[lvm\] lvm_type\)") as caught:
            operation(_volume(kind=Provisioning.THIN))
        assert caught.value.clean


@pytest.mark.parametrize(
    ("script", "error", "clean"),
    [
        # Another program was faster; it failed before it began; it failed after the volume was created; it timed out.
        ('{lvm} lvcreate --yes --name theirs --extents 90%FREE {group} >&2; exec "$@"', errors.CapacityExceeded, True),
        ("echo broken >&2; exit 5", errors.DriverError, True),
        ('"$@"; echo broken >&2; exit 5', errors.DriverError, True),
        ('"$@"; sleep 600', errors.DriverError, True),
    ],
)
def test_a_failed_create_leaves_nothing_behind(
    host_group: lvm_host.HostGroup,
    make: MakeDriver,
    tmp_path: Path,
    script: str,
    error: type[errors.TonnageError],
    clean: bool,
) -> None:
    failing = tmp_path / "failing"
    script = script.format(lvm=host_group.helper, group=host_group.name)
    failing.write_text(f'#!/bin/sh\ncase "$*" in *lvcreate*) {script};; *) exec "$@";; esac\n')
    failing.chmod(0o755)
    make().check()
    driver = make("lvm_command_timeout = 5" if "sleep" in script else "", helper=f"{failing} {host_group.helper}")
    with pytest.raises(error) as caught:
        driver.create(_volume())
    assert getattr(caught.value, "clean", True) is clean
    assert {volume.id for volume in driver.list_volumes()} <= {"theirs"}


def test_a_volume_being_copied_cannot_be_deleted_and_vice_versa(
    host_group: lvm_host.HostGroup, make: MakeDriver, tmp_path: Path
) -> None:
    """The commands that copy and zero, one for each chunk of a volume, wait for a file."""
    slow = tmp_path / "slow"
    waiting = f'echo >"{tmp_path}/at-$1"; until [ -e "{tmp_path}/go-$1" ]; do sleep 0.05; done'
    slow.write_text(
        f"#!/bin/sh\nwait_for() {{ {waiting}; }}\n"
        'case "$*" in *" dd "*) wait_for dd;; *" blkdiscard "*) wait_for clear;; *) exec "$@";; esac\n'
    )
    slow.chmod(0o755)
    driver = make("volume_clear = zero\nlvm_command_timeout = 20", helper=f"{slow} {host_group.helper}")
    driver.check()
    volume, clone = _volume(), _volume()
    source = Source(id=volume.id, backend=driver.backend, pool=volume.pool, size_gb=1)
    driver.create(volume)
    with futures.ThreadPoolExecutor() as threads:
        cloning = threads.submit(driver.clone, clone, source)
        _until_there(tmp_path / "at-dd")
        with pytest.raises(errors.DriverError, match=f"{volume.id} .*: it is being copied"):
            driver.delete(volume)
        (tmp_path / "go-dd").touch()
        cloning.result()
        deleting = threads.submit(driver.delete, volume)
        _until_there(tmp_path / "at-clear")
        with pytest.raises(errors.DriverError, match="there is no such volume") as caught:
            driver.clone(_volume(), source)
        assert caught.value.clean
        (tmp_path / "go-clear").touch()
        deleting.result()
    assert [stored.id for stored in driver.list_volumes()] == [clone.id]


def _until_there(file: Path) -> None:
    deadline = time.monotonic() + 20
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(1, 50))])
def test_the_audit_finds_nothing(host_group: lvm_host.HostGroup, make: MakeDriver, seed: int) -> None:
    """Random changes by other programs happen between operations, and between the queries of the driver too."""
    draw, others = random.Random(seed), itertools.count()
    site = Site(make(f"reserved_percentage = {draw.choice([0, 20])}"))
    group = host_group.name

    def change_outside() -> None:
        known = next(others)
        name, what = f"{group}/other{draw.randint(0, known)}", draw.random()
        size = f"{draw.randint(1, 200) * 4}m"
        with contextlib.suppress(subprocess.CalledProcessError):  # it does not fit, or is gone
            if what < 0.3:
                host_group.run("lvcreate", "--yes", "--name", f"other{known}", "--size", size, group)
            elif what < 0.5:
                host_group.run("lvremove", "--yes", name)
            elif what < 0.7:
                host_group.run("lvresize", "--yes", "--force", "--size", size, name)

    for _ in range(10):
        if draw.random() < 0.1 and site.volumes:
            with contextlib.suppress(subprocess.CalledProcessError):  # it has not been made yet
                host_group.run("lvremove", "--yes", f"{group}/{draw.choice(list(site.volumes))}")
        else:
            site.act(draw)
        change_outside()
        if draw.random() < 0.7:
            site.work()
        site.watched.happens = change_outside
        assert site.look(seconds=draw.choice([1.0, 60.0])) == {}
        site.watched.happens = lambda: None


def test_an_exported_group_is_not_reported(host_group: lvm_host.HostGroup, make: MakeDriver) -> None:
    """LVM hides the volumes of an exported group, and hidden volumes must not count as deleted."""
    driver = make()
    driver.check()
    driver.create(_volume())
    host_group.run("vgexport", host_group.name)
    try:
        for look in (driver.report, driver.list_volumes):
            with pytest.raises(errors.DriverError, match="is exported"):
                look()
    finally:
        host_group.run("vgimport", host_group.name)
    assert len(driver.list_volumes()) == 1


def test_errors_of_reports_and_lists_name_the_pool(make: MakeDriver) -> None:
    driver = make("lvm_root_helper = false")
    for operation in (driver.report, driver.list_volumes):
        with pytest.raises(errors.DriverError, match=r"host@lvm#lvm cannot be .*: lvs ended with 1"):
            operation()
