# SPDX-License-Identifier: Apache-2.0
"""The contract suite for the LVM driver: thick volumes on this machine, and both kinds in a guest system."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers import lvm_guest
from tests.unit.drivers import configured, lvm_host
from tonnage.capacity.request import Provisioning
from tonnage.drivers import contract, loader
from tonnage.drivers.base import Driver
from tonnage.drivers.lvm.driver import LVMDriver

#: Commands of LVM are slow; the functional tests of the driver run it on real groups in the normal suite.
pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def host_group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lvm_host.HostGroup]:
    with lvm_host.volume_group(tmp_path_factory.mktemp("lvm"), 5) as group:
        yield group


@pytest.fixture(scope="module")
def thin_pool(lvm: lvm_guest.LvmGuest) -> Iterator[str]:
    lvm.run("vgcreate", "contract", "/dev/vda")
    lvm.run("lvcreate", "--type", "thin-pool", "--size", "3g", "--name", "contract-pool", "contract")
    yield "contract"
    lvm.run("vgremove", "--yes", "contract")


@pytest.fixture(scope="module")
def guest_group(lvm: lvm_guest.LvmGuest) -> Iterator[str]:
    lvm.run("vgcreate", "contract-thick", "/dev/vdb")
    yield "contract-thick"
    lvm.run("vgremove", "--yes", "contract-thick")


_UNTAG = ("--deltag", f"tonnage.ledger={contract.LEDGER_MARK}")


class _LVMContract(contract.DriverContract):
    """A group without the tag of a ledger stands for another group of the same name."""

    untag: Callable[[], object]

    def take_storage_away(self, driver: Driver) -> None:
        self.untag()


class TestThickVolumes(_LVMContract):
    made = (Provisioning.THICK,)

    @pytest.fixture
    def make_driver(
        self, host_group: lvm_host.HostGroup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[contract.MakeDriver]:
        # Without device-mapper no volume can be read or written.
        monkeypatch.setattr(LVMDriver, "supports_clone", False)
        text = (
            f"[lvm]\nvolume_driver = lvm\nvolume_group = {host_group.name}\nlvm_type = default\nvolume_clear = none\n"
            f"lvm_root_helper = {host_group.helper}\nreserved_percentage = 20\n"
        )
        self.untag = lambda: host_group.run("vgchange", *_UNTAG, host_group.name)
        yield functools.partial(loader.load, "host@lvm", "lvm", configured.conf(tmp_path, text))
        host_group.run("lvremove", "--yes", host_group.name)
        self.untag()


class TestThinVolumes(_LVMContract):
    made = (Provisioning.THIN,)

    @pytest.fixture
    def make_driver(self, lvm: lvm_guest.LvmGuest, thin_pool: str, tmp_path: Path) -> Iterator[contract.MakeDriver]:
        text = (
            f"[lvm]\nvolume_driver = lvm\nvolume_group = {thin_pool}\nlvm_root_helper = {lvm.helper()}\n"
            "max_over_subscription_ratio = 1.5\n"
        )
        self.untag = lambda: lvm.run("lvchange", *_UNTAG, f"{thin_pool}/contract-pool")
        yield functools.partial(loader.load, "host@lvm", "lvm", configured.conf(tmp_path, text))
        lvm.run("lvremove", "--yes", "--select", 'pool_lv!=""', thin_pool)
        self.untag()


class TestThickVolumesInTheGuest(_LVMContract):
    made = (Provisioning.THICK,)

    @pytest.fixture
    def make_driver(self, lvm: lvm_guest.LvmGuest, guest_group: str, tmp_path: Path) -> Iterator[contract.MakeDriver]:
        # Zeroing is slow, and has its own tests.
        text = (
            f"[lvm]\nvolume_driver = lvm\nvolume_group = {guest_group}\nlvm_type = default\nvolume_clear = none\n"
            f"lvm_root_helper = {lvm.helper()}\nreserved_percentage = 50\n"
        )
        self.untag = lambda: lvm.run("vgchange", *_UNTAG, guest_group)
        yield functools.partial(loader.load, "host@lvm", "lvm", configured.conf(tmp_path, text))
        lvm.run("lvremove", "--yes", guest_group)
        self.untag()
