# SPDX-License-Identifier: Apache-2.0
"""The location from the configuration, and what a start changes in a group."""

import os
import pathlib

import pytest

from tests.unit.drivers import configured
from tests.unit.drivers.lvm.logical_volumes import FakeGroup
from tonnage.capacity import errors
from tonnage.drivers import loader
from tonnage.drivers.command_runner import CommandFailed
from tonnage.drivers.lvm import group_setup
from tonnage.drivers.lvm.driver import LVMDriver
from tonnage.drivers.lvm.volume_location import VolumeLocation
from tonnage.drivers.options import Section


def section(folder: pathlib.Path, text: str) -> Section:
    conf = configured.conf(folder, f"[lvm]\n{text}")
    return loader.build(LVMDriver, "host@lvm", "lvm", conf).conf  # type: ignore[no-any-return]


def prepared(fake: FakeGroup, folder: pathlib.Path, lvm_type: str = "auto") -> VolumeLocation:
    conf = section(folder, f"volume_group = vg\nlvm_type = {lvm_type}\nlvm_thin_pool = pool")
    location = VolumeLocation(fake, "vg", "" if lvm_type == "default" else "pool")
    group_setup.prepare(location, "host@lvm", conf)
    return location


def test_thin_volumes_are_in_the_pool_of_the_group(tmp_path: pathlib.Path) -> None:
    for lvm_type, pool in (("default", ""), ("thin", "vg-pool"), ("auto", "vg-pool")):
        location = group_setup.configured_location(section(tmp_path, f"volume_group = vg\nlvm_type = {lvm_type}"))
        assert (location.group, location.pool) == ("vg", pool)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "volume_group is not set"),
        ("volume_group = -vg", "'-vg' is no name for LVM"),
        ("volume_group = vg\nlvm_thin_pool = a/b", "lvm_thin_pool: 'a/b' is no name for LVM"),
        ("volume_group = vg\nlvm_root_helper = sudo '", "lvm_root_helper = sudo '"),
    ],
)
def test_a_configuration_without_usable_names_is_refused(tmp_path: pathlib.Path, text: str, message: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=message):
        group_setup.configured_location(section(tmp_path, text))


@pytest.mark.parametrize(("user", "prefix"), [(0, []), (1000, ["sudo", "-n"])])
def test_commands_run_through_sudo_unless_the_agent_is_root(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, user: int, prefix: list[str]
) -> None:
    conf = section(tmp_path, "volume_group = vg")
    helpers: list[list[str]] = []
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(group_setup, "CommandRunner", lambda helper, timeout: helpers.append(list(helper)))
    group_setup.configured_location(conf)
    assert helpers == [prefix]


def test_an_empty_group_gets_a_thin_pool(tmp_path: pathlib.Path) -> None:
    fake = FakeGroup()
    assert prepared(fake, tmp_path).pool == "pool"
    assert [command[0] for command in fake.commands] == ["lvcreate", "lvchange"]
    assert fake.volumes["pool"]["lv_tags"] == "tonnage.pool=host:lvm"


def test_a_group_with_volumes_or_an_owner_stays_thick(tmp_path: pathlib.Path) -> None:
    used = FakeGroup()
    used.add("root")
    emptied = FakeGroup()
    emptied.tags = ["tonnage.pool=host:lvm"]
    assert prepared(used, tmp_path).pool == ""
    assert prepared(emptied, tmp_path).pool == ""
    assert used.tags == ["tonnage.pool=host:lvm"]


def test_a_volume_of_the_pools_name_is_no_thin_pool(tmp_path: pathlib.Path) -> None:
    fake = FakeGroup()
    fake.add("pool")
    assert prepared(fake, tmp_path).pool == ""
    with pytest.raises(errors.ConfigurationError, match="no thin pool; rename or remove it"):
        prepared(fake, tmp_path, "thin")


def test_an_inactive_pool_is_activated(tmp_path: pathlib.Path) -> None:
    fake = FakeGroup()
    fake.add("pool", "thin,pool", lv_active="", lv_attr="twi---tz--", tags="tonnage.pool=host:lvm")
    prepared(fake, tmp_path, "thin")
    assert fake.commands == [["lvchange", "--activate", "y", "vg/pool"]]


def test_a_pool_that_shows_old_data_is_warned_of(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    fake = FakeGroup()
    fake.add("pool", "thin,pool", lv_attr="twi-aot---")
    prepared(fake, tmp_path)
    assert "does not zero new blocks" in caplog.text


def test_a_location_of_another_backend_is_refused_and_left_alone(tmp_path: pathlib.Path) -> None:
    fake = FakeGroup()
    fake.tags = ["tonnage.pool=other:lvm"]
    fake.add("half", tags="tonnage.unfinished")
    with pytest.raises(errors.ConfigurationError, match=r"vgchange --deltag 'tonnage\.pool=other:lvm' vg"):
        prepared(fake, tmp_path, "default")
    assert (fake.commands, set(fake.volumes)) == ([], {"half"})


def test_unfinished_copies_are_removed(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    fake = FakeGroup()
    fake.add("half", tags="tonnage.unfinished")
    fake.add("whole")
    prepared(fake, tmp_path, "default")
    assert set(fake.volumes) == {"whole"}


def test_an_unfinished_copy_that_cannot_be_removed_stays(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake = FakeGroup()
    fake.add("half", tags="tonnage.unfinished")
    fake.failures["lvremove"] = CommandFailed("lvremove: not permitted")
    prepared(fake, tmp_path, "default")
    assert "stays until the next start or clone: lvremove: not permitted" in caplog.text


@pytest.mark.parametrize("extent", [3 << 20, 2 << 30])
def test_extents_have_to_make_whole_gib(tmp_path: pathlib.Path, extent: int) -> None:
    with pytest.raises(errors.ConfigurationError, match=f"its extents have {extent} bytes"):
        prepared(FakeGroup(extent=extent), tmp_path)


@pytest.mark.parametrize(
    ("failure", "way_out"),
    [
        (CommandFailed("lvs: no such file", missing=True), "install LVM"),
        (CommandFailed('Volume group "vg" not found'), "name a group that exists"),
        (CommandFailed("sudo: a password is required"), "permit this user the commands of the driver"),
    ],
)
def test_an_unreadable_group_has_a_way_out(tmp_path: pathlib.Path, failure: CommandFailed, way_out: str) -> None:
    fake = FakeGroup()
    fake.failures["lvs"] = failure
    with pytest.raises(errors.ConfigurationError, match=way_out):
        prepared(fake, tmp_path)
