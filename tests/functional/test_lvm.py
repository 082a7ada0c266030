# SPDX-License-Identifier: Apache-2.0
"""The LVM driver on real storage in a virtual machine: content, full pools and interrupted changes."""

import contextlib
import functools
import inspect
import itertools
import random
import shlex
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import suites
from tests.servers import lvm_guest, lvm_image
from tests.unit.drivers import configured
from tests.unit.scheduler.driven import Site
from tonnage.capacity import arithmetic, errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers import contract, loader
from tonnage.drivers.base import Driver, Terms, Volume
from tonnage.drivers.lvm import lvm_commands

_MIB = 1 << 20
_GIB = 1 << 30

# The virtual machine with the storage has an emulated processor.
pytestmark = pytest.mark.timeout(3600)

#: The option that fixes the kind of each group.
_KINDS = {"thick": "lvm_type = default", "thin": "lvm_type = thin"}

MakeDriver = Callable[..., Driver]


@pytest.fixture(scope="module")
def groups(lvm: lvm_guest.LvmGuest) -> Iterator[None]:
    """A group for thick volumes, and one with a thin pool of 4 GiB that fails writes when it is full."""
    lvm.run("vgcreate", "thick", "/dev/vda")
    lvm.run("vgcreate", "thin", "/dev/vdb")
    lvm.run("lvcreate", "--type", "thin-pool", "--size", "4g", "--name", "thin-pool", "thin")
    lvm.run("lvchange", "--errorwhenfull", "y", "thin/thin-pool")
    yield
    lvm.run("vgremove", "--yes", "thick", "thin")


@pytest.fixture
def make(lvm: lvm_guest.LvmGuest, groups: None, tmp_path: Path) -> Iterator[MakeDriver]:
    """A function that makes a driver for a group. All volumes are removed at the end."""

    def make(group: str, text: str = "", helper: str | None = None) -> Driver:
        folder = tmp_path / uuid.uuid4().hex
        folder.mkdir()
        text = (
            f"[{group}]\nvolume_driver = lvm\nvolume_group = {group}\n{_KINDS.get(group, '')}\n"
            f"max_over_subscription_ratio = 2.0\nlvm_root_helper = {helper or lvm.helper()}\n{text}\n"
        )
        driver = loader.load(f"host@{group}", group, configured.conf(folder, text))
        driver.check()
        return driver

    yield make
    lvm.run("lvremove", "--yes", "thick")
    lvm.run("lvremove", "--yes", "--select", 'pool_lv!=""', "thin")


def _volume(driver: Driver, size_gb: int = 1, terms: Terms | None = None) -> Volume:
    (figures,) = driver.report()
    kind = Provisioning.THIN if figures["thin_provisioning_support"] else Provisioning.THICK
    return Volume(id=str(uuid.uuid4()), pool=figures["pool_name"], size_gb=size_gb, provisioning=kind, terms=terms)


def _figures(driver: Driver) -> dict[str, Any]:
    (figures,) = driver.report()
    return dict(figures)


def _virtual_free(driver: Driver, volume: Volume) -> float:
    pool, terms = contract.pool_and_terms(driver, volume)
    thin = volume.provisioning is Provisioning.THIN
    return float(arithmetic.virtual_free(pool, thin, terms.calculation))


def _device_bytes(lvm: lvm_guest.LvmGuest, path: str) -> int:
    return int(lvm.run("blockdev", "--getsize64", path).out)


@pytest.mark.heavy
def test_thin_figures_follow_the_specification(lvm: lvm_guest.LvmGuest, make: MakeDriver) -> None:
    """With a ratio of 2.0 the virtual free capacity is twice the total less the provisioned; written data is used."""
    driver = make("thin")
    empty = _figures(driver)
    assert (empty["total_capacity_gb"], empty["free_capacity_gb"], empty["provisioned_capacity_gb"]) == (4, 4, 0)
    volume = _volume(driver, 2)
    assert _virtual_free(driver, volume) == 8
    driver.create(volume)
    assert _virtual_free(driver, volume) == 6

    lvm.run("dd", "if=/dev/zero", f"of=/dev/thin/{volume.id}", "bs=1M", "count=64", "conv=fsync")
    written = _figures(driver)
    assert written["free_capacity_gb"] == pytest.approx(4 - 64 / 1024, abs=0.02)
    assert written["free_capacity_gb"] <= 4 - 64 / 1024, "the report shows more than is free"
    assert written["lvm_data_percent"] == pytest.approx(100 * 64 / 4096, abs=0.2)
    assert 0 < written["lvm_metadata_percent"] < 100
    assert written["provisioned_capacity_gb"] == 2

    lvm.run("lvcreate", "--snapshot", "--name", "snap", f"thin/{volume.id}")
    assert _figures(driver)["provisioned_capacity_gb"] == 2, "the snapshot counts"
    assert contract.sizes(driver) == {volume.id: 2}
    # Volumes of others count.
    lvm.run(*["lvcreate", "--name", "by-hand", "--virtualsize", "1g", "--thinpool", "thin-pool", "thin"])
    assert _figures(driver)["provisioned_capacity_gb"] == 3
    assert contract.sizes(driver) == {volume.id: 2, "by-hand": 1}


@pytest.mark.heavy
def test_a_full_thin_pool_takes_no_volumes(
    lvm: lvm_guest.LvmGuest, make: MakeDriver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    lvm.run("lvcreate", "--type", "thin-pool", "--size", "64m", "--name", "small", "thin")
    # By default a full pool delays writes for a minute.
    lvm.run("lvchange", "--errorwhenfull", "y", "thin/small")
    driver = make("thin", "lvm_thin_pool = small\nmax_over_subscription_ratio = 20")
    volume = _volume(driver)
    driver.create(volume)
    full = lvm.run(
        "dd", "if=/dev/zero", f"of=/dev/thin/{volume.id}", "bs=1M", "conv=fsync", "oflag=direct", check=False
    )
    assert full.code != 0
    figures = _figures(driver)
    assert (figures["total_capacity_gb"], figures["free_capacity_gb"]) == (0.06, 0)
    assert figures["lvm_data_percent"] == 100
    driver.report()
    assert caplog.text.count("thin pool thin/small: out of data") == 1
    with pytest.raises(errors.CapacityExceeded, match="free 0"):
        driver.create(_volume(driver))
    with pytest.raises(errors.CapacityExceeded, match="free 0"):
        driver.extend(volume, 2)
    assert contract.sizes(driver) == {volume.id: 1}
    driver.delete(volume)
    assert _figures(driver)["free_capacity_gb"] == 0.06
    assert "works again" in caplog.text
    lvm.run("lvremove", "--yes", "thin/small")


@pytest.mark.heavy
def test_a_group_with_a_missing_disk_takes_no_volumes(
    lvm: lvm_guest.LvmGuest, make: MakeDriver, caplog: pytest.LogCaptureFixture
) -> None:
    """LVM does not change such a group, so nothing is free, and its volumes still count."""
    lvm.run("vgcreate", "new", "/dev/vdc", "/dev/vdd")
    disk = lvm.run("readlink", "-f", "/sys/block/vdd/device").out.strip().rpartition("/")[2]
    driver = make("new", "lvm_type = default\nvolume_clear = none")
    try:
        volume = _volume(driver)
        driver.create(volume)
        before = _figures(driver)
        lvm.script(f"echo {disk} >/sys/bus/virtio/drivers/virtio_blk/unbind")
        try:
            assert _figures(driver) == before | {"free_capacity_gb": 0}
            assert contract.sizes(driver) == {volume.id: 1}
            assert caplog.text.count("group new: a physical volume of it is missing") == 1
            with pytest.raises(errors.CapacityExceeded, match="free 0"):
                driver.create(_volume(driver))
            with pytest.raises(errors.CapacityExceeded, match="free 0"):
                driver.extend(volume, 2)
        finally:
            lvm.script(f"echo {disk} >/sys/bus/virtio/drivers/virtio_blk/bind")
        assert _figures(driver) == before
        driver.delete(volume)
    finally:
        lvm.run("vgremove", "--yes", "new")


def test_a_read_only_thin_pool_takes_no_volumes(
    lvm: lvm_guest.LvmGuest, make: MakeDriver, caplog: pytest.LogCaptureFixture
) -> None:
    """The kernel makes a thin pool read-only when it cannot write the pool's metadata."""
    driver = make("thin")
    volume = _volume(driver)
    driver.create(volume)
    before = _figures(driver)
    table = lvm.run("dmsetup", "table", "thin-thin--pool-tpool").out.split()
    read_only = [*table[:7], str(int(table[7]) + 1), *table[8:], "read_only"]
    for features in (read_only, table):
        lvm.script(
            "dmsetup suspend thin-thin--pool-tpool"
            f" && dmsetup reload thin-thin--pool-tpool --table '{' '.join(features)}'"
            " && dmsetup resume thin-thin--pool-tpool"
        )
        if features is read_only:
            assert _figures(driver)["free_capacity_gb"] == 0
            assert _figures(driver)["provisioned_capacity_gb"] == 1
            assert caplog.text.count("thin pool thin/thin-pool: metadata read only") == 1
            with pytest.raises(errors.CapacityExceeded, match="free 0"):
                driver.create(_volume(driver))
            assert contract.sizes(driver) == {volume.id: 1}
    assert _figures(driver)["free_capacity_gb"] == before["free_capacity_gb"]


@pytest.mark.heavy
def test_a_thin_pool_with_full_metadata_takes_no_volumes(
    lvm: lvm_guest.LvmGuest, make: MakeDriver, caplog: pytest.LogCaptureFixture
) -> None:
    driver = make("thin")
    volume = _volume(driver)
    driver.create(volume)
    lvm.script(f"dd if=/dev/zero of=/dev/thin/{volume.id} bs=4M count=256 oflag=direct status=none")
    before = _figures(driver)["free_capacity_gb"]
    for number in range(12):
        # The writes give the snapshot its own copy of each leaf of the mapping tree.
        snapshot = f"lvcreate --snapshot --setactivationskip n --name full{number} thin/{volume.id}"
        write = f"dd if=/dev/zero of=/dev/thin/full{number} bs=64k count=1 conv=notrunc oflag=direct status=none"
        lvm.script(f"{snapshot} && for place in $(seq 0 80 16383); do {write} seek=$place || exit 1; done")
        figures = _figures(driver)
        if figures["lvm_metadata_percent"] >= 75:
            break
    refused = lvm.run("lvcreate", "--virtualsize", "1g", "--thinpool", "thin-pool", "thin", check=False)
    assert "reached threshold" in refused.err
    assert figures["free_capacity_gb"] == 0
    assert caplog.text.count("thin pool thin/thin-pool: its metadata is too full for more volumes") == 1
    with pytest.raises(errors.CapacityExceeded, match="free 0"):
        driver.create(_volume(driver))
    lvm.run("lvremove", "--yes", "--select", "lv_name=~^full", "thin")
    assert _figures(driver)["free_capacity_gb"] == before


@pytest.mark.parametrize("group", [pytest.param("thick", marks=pytest.mark.heavy), "thin"])
def test_a_file_system_survives_an_extend(lvm: lvm_guest.LvmGuest, make: MakeDriver, group: str) -> None:
    driver = make(group)
    volume = _volume(driver)
    driver.create(volume)
    device = f"/dev/{group}/{volume.id}"
    lvm.script(f"mkfs.ext4 -q {device} && mount {device} /mnt && echo kept >/mnt/file && umount /mnt")
    driver.extend(volume, 2)
    assert _device_bytes(lvm, device) == 2 * _GIB
    assert lvm.script(f"mount {device} /mnt && cat /mnt/file").out == "kept\n"
    with pytest.raises(errors.DriverError, match="in use"):
        driver.delete(volume)
    assert lvm.script("cat /mnt/file; umount /mnt").out == "kept\n"
    driver.delete(volume)
    assert contract.sizes(driver) == {}


def test_a_new_volume_has_no_data_of_a_deleted_volume(lvm: lvm_guest.LvmGuest, make: MakeDriver) -> None:
    driver = make("thick")
    places = (0, 700)
    for _ in range(2):
        volume = _volume(driver)
        driver.create(volume)
        device = f"/dev/thick/{volume.id}"
        for place in places:
            found = lvm.script(f"dd if={device} bs=1M skip={place} count=1 | cmp -n {_MIB} - /dev/zero", check=False)
            assert found.code == 0, f"old data at {place} MiB"
            lvm.run("dd", "if=/dev/urandom", f"of={device}", "bs=1M", "count=1", f"seek={place}", "conv=fsync")
        driver.delete(volume)


@pytest.mark.parametrize("group", [pytest.param("thick", marks=pytest.mark.heavy), "thin"])
def test_interrupted_changes_are_completed(lvm: lvm_guest.LvmGuest, make: MakeDriver, group: str) -> None:
    """LVM writes its metadata before it changes the devices of the kernel. Here it stops in between."""
    driver = make(group)
    volume = _volume(driver)
    driver.create(volume)
    device = f"/dev/{group}/{volume.id}"
    lvm.run("lvextend", "--driverloaded", "n", "--size", "2g", f"{group}/{volume.id}")
    assert _device_bytes(lvm, device) == _GIB
    driver.extend(volume, 2)
    assert _device_bytes(lvm, device) == 2 * _GIB

    lvm.run("lvchange", "--activate", "n", f"{group}/{volume.id}")
    driver.create(contract.resized(volume, 2))
    assert _device_bytes(lvm, device) == 2 * _GIB

    name = f"{group}-{volume.id.replace('-', '--')}"
    lvm.run("dmsetup", "suspend", name)
    driver.check()
    assert "ACTIVE" in lvm.run("dmsetup", "info", name).out
    assert contract.sizes(driver) == {volume.id: 2}


def test_a_volume_with_a_snapshot_is_not_deleted(lvm: lvm_guest.LvmGuest, make: MakeDriver) -> None:
    """LVM would delete the snapshot too."""
    driver = make("thick")
    volume = _volume(driver)
    driver.create(volume)
    before = _figures(driver)
    lvm.run("lvcreate", "--snapshot", "--size", "100m", "--name", "snap", f"thick/{volume.id}")
    with pytest.raises(errors.DriverError, match="snap"):
        driver.delete(volume)
    after = _figures(driver)
    assert after["provisioned_capacity_gb"] == before["provisioned_capacity_gb"] == 1
    assert before["free_capacity_gb"] - after["free_capacity_gb"] == pytest.approx(0.1, abs=0.02)
    assert contract.sizes(driver) == {volume.id: 1}


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("group", ["thick", "thin"])
def test_the_audit_finds_nothing_despite_foreign_changes(
    lvm: lvm_guest.LvmGuest, make: MakeDriver, group: str, seed: int
) -> None:
    """The audit compares reports with listings while others write data, and create and delete volumes and snapshots."""
    draw = random.Random(seed)
    site = Site(make(group))
    between = itertools.count()

    def change_between_reads() -> None:
        """Create or delete a foreign volume between two reads of the driver."""
        if draw.random() < 0.5:
            lvm.run("lvcreate", "--yes", "--name", f"between{next(between)}", *other, group, check=False)
        else:
            lvm.run("lvremove", "--yes", f"{group}/between{draw.randint(0, 3)}", check=False)

    other = ["--virtualsize", "600m", "--thinpool", "thin-pool"] if group == "thin" else ["--size", "600m"]
    snapshot = [] if group == "thin" else ["--size", "64m"]
    site.volumes = {site.made(size): size for size in (1, 2)}
    for step in range(10):
        action, volume = draw.random(), draw.choice(list(site.volumes) or ["none"])
        if action < 0.15:
            lvm.run("lvcreate", "--yes", "--name", f"other{step}", *other, group, check=False)
        elif action < 0.25:
            lvm.run("lvremove", "--yes", f"{group}/{volume}", check=False)
        elif action < 0.4:
            lvm.run("lvcreate", "--snapshot", "--name", f"snap{step}", *snapshot, f"{group}/{volume}", check=False)
        elif action < 0.55:
            device = f"/dev/{group}/{volume}"
            lvm.script(f"test ! -b {device} || dd if=/dev/zero of={device} bs=1M count=100 conv=fsync", check=False)
        else:
            site.act(draw)
        if draw.random() < 0.7:
            site.work()
        site.watched.happens = change_between_reads
        assert site.look() == {}
        site.watched.happens = lambda: None


@pytest.mark.heavy
@pytest.mark.parametrize("group", ["thick", "thin"])
def test_a_clone_has_the_content_of_its_source_and_outlives_it(
    lvm: lvm_guest.LvmGuest, make: MakeDriver, group: str
) -> None:
    driver = make(group, "volume_clear = none")
    volume = _volume(driver)
    driver.create(volume)
    source, device = contract.source_of(driver, volume), f"/dev/{group}/{volume.id}"
    lvm.script(f"mkfs.ext4 -q {device} && mount {device} /mnt && echo kept >/mnt/file && umount /mnt")
    lvm.run("dd", "if=/dev/urandom", f"of={device}", "bs=1M", "count=1", "seek=1023", "conv=fsync")
    free = _figures(driver)["free_capacity_gb"]
    clone = _volume(driver, 2)
    driver.clone(clone, source)
    copied = f"/dev/{group}/{clone.id}"
    assert contract.sizes(driver) == {volume.id: 1, clone.id: 2}
    assert _figures(driver)["provisioned_capacity_gb"] == 3
    assert free - _figures(driver)["free_capacity_gb"] == pytest.approx(2 if group == "thick" else 0, abs=0.02)
    for place in (0, 1023):
        part = f"bs=1M count=1 skip={place}"
        lvm.script(f"dd if={device} {part} >/tmp/part 2>&- && dd if={copied} {part} 2>&- | cmp - /tmp/part")
    # A repeated clone changes nothing.
    driver.clone(clone, source)
    lvm.run("lvchange", "--activate", "n", f"{group}/{clone.id}")
    driver.clone(clone, source)
    lvm.run("dd", "if=/dev/zero", f"of={device}", "bs=1M", "count=64", "conv=fsync")
    driver.delete(volume)
    assert lvm.script(f"mount {copied} /mnt && cat /mnt/file; umount /mnt").out == "kept\n"
    # A snapshot of a thick clone depends on it and blocks its deletion.
    snapshot = [] if group == "thin" else ["--size", "64m"]
    lvm.run("lvcreate", "--snapshot", *snapshot, "--name", "snap", f"{group}/{clone.id}")
    assert contract.sizes(driver) == {clone.id: 2}
    if group == "thick":
        with pytest.raises(errors.DriverError, match="snap"):
            driver.delete(clone)
    lvm.run("lvremove", "--yes", f"{group}/snap")
    driver.extend(clone, 3)
    driver.delete(clone)
    assert contract.sizes(driver) == {}


@pytest.mark.heavy
@pytest.mark.parametrize("group", ["thick", "thin"])
def test_an_interrupted_clone_is_no_volume_and_can_be_repeated(
    lvm: lvm_guest.LvmGuest, make: MakeDriver, group: str
) -> None:
    driver = make(group, "volume_clear = none")
    volume = _volume(driver)
    driver.create(volume)
    source, before = contract.source_of(driver, volume), _figures(driver)["provisioned_capacity_gb"]
    clones = [_volume(driver, 2) for _ in range(3)]
    for clone in clones:
        begin = lvm_commands.create_unfinished(group, clone.id, 1)
        lvm.run(*(lvm_commands.snapshot(group, volume.id, clone.id) if group == "thin" else begin))
    assert contract.sizes(driver) == {volume.id: 1}
    assert _figures(driver)["provisioned_capacity_gb"] == before
    with pytest.raises(errors.NotFound):
        driver.extend(clones[0], 3)
    with pytest.raises(errors.DriverError, match=f"{clones[0].id} failed: there is no such volume") as caught:
        driver.clone(_volume(driver, 2), contract.source_of(driver, clones[0]))
    assert caught.value.clean
    driver.clone(clones[0], source)
    driver.delete(clones[1])
    # The process that copies may outlive the agent.
    lvm.script(f"sleep 10 </dev/{group}/{clones[2].id} >/dev/null 2>&1 &")
    restarted = make(group)
    assert contract.sizes(restarted) == {volume.id: 1, clones[0].id: 2}
    assert clones[2].id not in lvm.run("lvs", group).out


@pytest.mark.heavy
def test_a_failed_clone_leaves_nothing(lvm: lvm_guest.LvmGuest, make: MakeDriver) -> None:
    driver = make("thick", "volume_clear = none")
    volume = _volume(driver)
    driver.create(volume)
    source = contract.source_of(driver, volume)
    lvm.script(f"sleep 1000 </dev/thick/{volume.id} >/dev/null 2>&1 & echo $! >/tmp/reader")
    with pytest.raises(errors.DriverError, match="in use") as caught:
        driver.clone(_volume(driver), source)
    assert caught.value.clean
    lvm.script("kill $(cat /tmp/reader)")
    before, size = _figures(driver), lvm.run("blockdev", "--getsz", f"/dev/thick/{volume.id}").out.strip()
    name = f"thick-{volume.id.replace('-', '--')}"
    lvm.script(f"dmsetup suspend {name}; dmsetup load {name} --table '0 {size} error'; dmsetup resume {name}")
    with pytest.raises(errors.DriverError, match=r"dd: .*Input/output error") as caught:
        driver.clone(_volume(driver), source)
    assert caught.value.clean
    assert _figures(driver) == before
    assert contract.sizes(driver) == {volume.id: 1}


def test_a_thin_and_a_thick_backend_share_a_group(lvm: lvm_guest.LvmGuest, make: MakeDriver, tmp_path: Path) -> None:
    """Volume names are unique in the group. Each backend ignores the volumes of the other; a pool has one backend."""
    thin = make("thin")
    in_pool = _volume(thin)
    thin.create(in_pool)
    text = f"[other]\nvolume_driver = lvm\nvolume_group = thin\nlvm_root_helper = {lvm.helper()}\n"
    with pytest.raises(errors.ConfigurationError, match=r"lvchange --deltag 'tonnage\.pool=host:thin'"):
        loader.load("host@other", "other", configured.conf(tmp_path, text)).check()
    thick = loader.load("host@other", "other", configured.conf(tmp_path, text + "lvm_type = default\n"))
    thick.check()
    assert contract.sizes(thick) == {}
    assert _figures(thick)["provisioned_capacity_gb"] == 0
    same_name = Volume(id=in_pool.id, pool="other", size_gb=1, provisioning=Provisioning.THICK)
    with pytest.raises(errors.DriverError, match="a thin volume in thin pool thin-pool") as caught:
        thick.create(same_name)
    assert caught.value.clean
    thick.delete(same_name)
    assert contract.sizes(thin) == {in_pool.id: 1}


def test_auto_creates_a_thin_pool_in_an_empty_group(lvm: lvm_guest.LvmGuest, make: MakeDriver) -> None:
    lvm.run("vgcreate", "new", "/dev/vdc")
    try:
        driver = make("new")
        figures = _figures(driver)
        assert figures["thin_provisioning_support"]
        assert not figures["thick_provisioning_support"]
        assert figures["total_capacity_gb"] == pytest.approx(0.95 * lvm.disk_gb, abs=0.1)
        driver.create(_volume(driver))
        assert _figures(make("new")) == _figures(driver)
    finally:
        lvm.run("vgremove", "--yes", "new")


_PERMITTED = lvm_guest.PERMITTED
_POOL = f"{_PERMITTED}-pool"
_ID = "3a6a5d6e-7f9c-4d36-8a3e-0f5b9c1d2e4f"

_OTHER_ID = "9c1d2e4f-7f9c-4d36-8a3e-0f5b3a6a5d6e"

#: All commands of the driver.
_COMMANDS: dict[str, list[str]] = {
    "list_volumes": lvm_commands.list_volumes(_PERMITTED),
    "show_group": lvm_commands.show_group(_PERMITTED),
    "create_thick": lvm_commands.create_thick(_PERMITTED, _ID, 10),
    "create_thin": lvm_commands.create_thin(_PERMITTED, _POOL, _ID, 10),
    "create_unfinished": lvm_commands.create_unfinished(_PERMITTED, _ID, 10),
    "snapshot": lvm_commands.snapshot(_PERMITTED, _ID, _OTHER_ID),
    "copy": lvm_commands.copy(_PERMITTED, _ID, _OTHER_ID, _GIB, _GIB),
    "finish": lvm_commands.finish(_PERMITTED, _OTHER_ID),
    "create_pool": lvm_commands.create_pool(_PERMITTED, _POOL),
    "extend": lvm_commands.extend(_PERMITTED, _ID, 20),
    "zero": lvm_commands.zero(_PERMITTED, _ID, _GIB, _GIB),
    "remove": lvm_commands.remove(_PERMITTED, _ID),
    "activate": lvm_commands.activate(_PERMITTED, _ID),
    "refresh": lvm_commands.refresh(_PERMITTED, _ID),
    "tag_group": lvm_commands.tag_group(_PERMITTED, "tonnage.pool=host.example.org:lvm+2D1"),
    "tag_pool": lvm_commands.tag_pool(_PERMITTED, _POOL, "tonnage.pool=host:lvm"),
    # Managing volumes needs a rule that the shipped file leaves out.
    "rename": lvm_commands.rename(_PERMITTED, "theirs", _ID),
}

_NOT_PERMITTED = (
    " ".join(_COMMANDS["rename"]),
    f"lvextend --size 2g {_PERMITTED}/theirs",
    f"lvremove --yes {_PERMITTED}/theirs",
    f"lvremove --yes {_PERMITTED}/{_POOL}",
    f"lvremove --yes thick/{_ID}",
    f"lvremove --yes {_PERMITTED}/{_ID} thick",
    f"lvremove --yes --config x=1 {_PERMITTED}/{_ID}",
    "lvs --reportformat json --units b --nosuffix --options lv_name thick",
    f"lvs --config x=1 --reportformat json --units b --nosuffix --options lv_name {_PERMITTED}",
    "blkdiscard --zeroout --offset 0 --length 1 /dev/vda",
    " ".join(_COMMANDS["copy"]).replace(f"if=/dev/{_PERMITTED}/{_ID}", "if=/dev/vda"),
    " ".join(_COMMANDS["copy"]).replace(_OTHER_ID, "theirs"),
    " ".join(_COMMANDS["copy"]).replace(_OTHER_ID, f"../{_ID}"),
    " ".join(_COMMANDS["snapshot"]).replace(f"/{_ID}", "/theirs"),
    f"blkdiscard --zeroout --offset 0 --length 1 /dev/{_PERMITTED}/../vda",
    "vgremove --yes thick",
    "lvm lvs",
    "sh",
)


#: A prefix that runs a command as the account of the sudoers file.
_ACCOUNT = ("/usr/sbin/setpriv", f"--reuid={lvm_image.UID}", f"--regid={lvm_image.UID}", "--clear-groups")


@pytest.mark.heavy
def test_the_shipped_sudoers_file_permits_exactly_the_commands_of_the_driver(
    lvm: lvm_guest.LvmGuest, groups: None, tmp_path: Path
) -> None:
    """The account has no other rights, and the sudo is real."""
    defined = {name for name, value in vars(lvm_commands).items() if inspect.isfunction(value)}
    assert defined == set(_COMMANDS), "this test lacks a command of the driver"
    permitted = [shlex.join(command) for name, command in _COMMANDS.items() if name != "rename"]
    ask = shlex.join([*_ACCOUNT, "sudo", "-n", "-l"])
    asked = [f"{ask} {command} >/dev/null 2>&1; echo $?" for command in (*permitted, *_NOT_PERMITTED)]
    answers = dict(zip((*permitted, *_NOT_PERMITTED), lvm.script("\n".join(asked)).out.split(), strict=True))
    assert [command for command, code in answers.items() if code == "0"] == permitted

    with _unprivileged_driver(lvm, tmp_path) as driver:
        volume = _volume(driver)
        driver.create(volume)
        driver.delete(volume)
        lvm.run("lvcreate", "--yes", "--name", "theirs", "--size", "1g", _PERMITTED)
        with pytest.raises(errors.DriverError, match=r"sudo.*etc/sudoers\.d/tonnage-lvm"):
            driver.manage(volume, "theirs")


@pytest.mark.heavy
def test_the_sudoers_account_clones_and_extends_volumes(lvm: lvm_guest.LvmGuest, groups: None, tmp_path: Path) -> None:
    with _unprivileged_driver(lvm, tmp_path) as driver:
        volume, clone = _volume(driver), _volume(driver)
        driver.create(volume)
        driver.clone(clone, contract.source_of(driver, volume))
        driver.extend(clone, 2)
        assert contract.sizes(driver) == {volume.id: 1, clone.id: 2}
        driver.delete(volume)


@contextlib.contextmanager
def _unprivileged_driver(lvm: lvm_guest.LvmGuest, folder: Path) -> Iterator[Driver]:
    """Create the group of the sudoers file, and return a driver that runs as its account."""
    lvm.run("vgcreate", _PERMITTED, "/dev/vdd")
    try:
        text = (
            f"[lvm]\nvolume_driver = lvm\nvolume_group = {_PERMITTED}\nlvm_type = default\n"
            f"lvm_root_helper = {lvm.helper(*_ACCOUNT, 'sudo', '-n')}\n"
        )
        driver = loader.load("host@lvm", "lvm", configured.conf(folder, text))
        driver.check()
        yield driver
    finally:
        lvm.run("vgremove", "--yes", _PERMITTED)


def test_the_sudoers_file_names_the_account_of_the_guest() -> None:
    assert f"\n{lvm_image.ACCOUNT} ALL = " in lvm_guest.SUDOERS.read_text()


def test_visudo_accepts_the_documented_sudoers_files(tmp_path: Path) -> None:
    """The file as shipped, for another group, and with the rights to manage. A wrong file is rejected."""
    if lvm_image.missing() is not None:
        suites.cannot_run("LVM guest", "there is no visudo; run tools/install-servers.sh")
    page = (Path(__file__).parents[2] / "docs/lvm.rst").read_text()
    assert "# sed 's/tonnage-volumes/NAME-OF-YOUR-GROUP/g' etc/sudoers.d/tonnage-lvm | install " in page
    shipped = lvm_guest.SUDOERS.read_text()
    installed = shipped.replace("tonnage-volumes", "vg_ssd.1+a")
    managing = installed.replace("TONNAGE_LVM_START\n", "TONNAGE_LVM_START, TONNAGE_LVM_MANAGE\n")
    assert managing != installed != shipped
    visudo, libraries = lvm_image.UNPACKED / "usr/sbin/visudo", lvm_image.UNPACKED / "usr/libexec/sudo"
    for text, code in ((shipped, 0), (installed, 0), (managing, 0), (shipped.replace("LOOK, ", "LOK, "), 1)):
        file = tmp_path / "sudoers"
        file.write_text(text)
        file.chmod(0o440)
        done = subprocess.run(
            [visudo, "--check", "--strict", "--file", file],
            env={"LD_LIBRARY_PATH": str(libraries)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        file.unlink()
    table = page[page.index("supports regular expressions") : page.index("An account that may rename anything")]
    for name, command in _COMMANDS.items():
        assert f"``{command[0]}" in table, f"{name} is not in the table of {command[0]}"


@pytest.mark.heavy
def test_concurrent_operations_and_reports_succeed(make: MakeDriver) -> None:
    """Threads create, extend and delete volumes while another thread requests reports."""
    driver = make("thin")
    volumes = [_volume(driver) for _ in range(3)]

    def live(volume: Volume) -> None:
        driver.create(volume)
        driver.extend(volume, 2)
        driver.delete(volume)

    jobs = [functools.partial(live, volume) for volume in volumes]
    assert contract.run_concurrently([*jobs, lambda: [driver.report() for _ in range(3)] and None]) == [None] * 4
    assert contract.sizes(driver) == {}
