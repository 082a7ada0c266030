# SPDX-License-Identifier: Apache-2.0
"""Pools from the configuration, and the preparation of their folders."""

import pathlib
import textwrap

import pytest

from tests.unit.drivers import configured
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers import loader
from tonnage.drivers.filesystem import pool_setup, volume_files
from tonnage.drivers.filesystem.driver import FilesystemDriver
from tonnage.drivers.filesystem.folder_pool import OWNER_MARK, Pool


def pools(folder: pathlib.Path, text: str) -> list[Pool]:
    conf = configured.conf(folder, f"[fs]\n{textwrap.dedent(text)}")
    driver = loader.build(FilesystemDriver, "host@fs", "fs", conf)
    return pool_setup.configured_pools("host@fs", driver.conf)


def test_a_backend_without_named_pools_is_one_pool_of_its_name(tmp_path: pathlib.Path) -> None:
    [pool] = pools(tmp_path, f"filesystem_path = {tmp_path}/v/../volumes\nfilesystem_size_limit_gb = 3")
    assert (pool.name, pool.full_name, pool.section) == ("fs", "host@fs#fs", "fs")
    assert (pool.path, pool.limit_bytes) == (f"{tmp_path}/volumes", 3 * GIB)
    assert pool.capabilities["location_info"].endswith(f":{tmp_path}/volumes")


def test_each_named_pool_has_a_subfolder_or_the_folder_of_its_section(tmp_path: pathlib.Path) -> None:
    text = f"""
        filesystem_path = {tmp_path}/all
        filesystem_pools = gold, lead
        [fs:lead]
        filesystem_path = {tmp_path}/lead
        filesystem_provisioning = thick
        """
    gold, lead = pools(tmp_path, text)
    assert (gold.path, lead.path) == (f"{tmp_path}/all/gold", f"{tmp_path}/lead")
    assert (gold.provisioning_kinds, lead.provisioning_kinds) == ({Provisioning.THIN}, {Provisioning.THICK})
    assert lead.capabilities["thick_provisioning_support"]
    assert not lead.capabilities["thin_provisioning_support"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"\[fs\] filesystem_path is not set"),
        ("filesystem_path = /v\nfilesystem_pools = a, b, a", "each name may stand there once"),
        ("filesystem_path = /v\nfilesystem_pools = ../etc", "is no name for a pool"),
        ("filesystem_pools = gold", "filesystem_path is not set"),
    ],
)
def test_a_configuration_without_usable_pools_is_refused(tmp_path: pathlib.Path, text: str, message: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=message):
        pools(tmp_path, text)


def test_folders_are_created_and_marked_with_their_owner(tmp_path: pathlib.Path) -> None:
    [pool] = pools(tmp_path, f"filesystem_path = {tmp_path}/new/volumes")
    for _ in range(2):
        pool_setup.prepare([pool])
    mark = pathlib.Path(pool.path, OWNER_MARK)
    assert mark.is_symlink()
    assert pool.identity is not None
    assert pool.storage_id


def test_two_pools_do_not_share_a_folder_and_none_is_marked(tmp_path: pathlib.Path) -> None:
    [first] = pools(tmp_path, f"filesystem_path = {tmp_path}/volumes")
    [second] = pools(tmp_path, f"filesystem_path = {tmp_path}/./volumes")
    with pytest.raises(errors.ConfigurationError, match="is the folder of pool 'fs' too"):
        pool_setup.prepare([first, second])
    assert list((tmp_path / "volumes").iterdir()) == []


def test_a_folder_of_another_pool_is_refused(tmp_path: pathlib.Path) -> None:
    [pool] = pools(tmp_path, f"filesystem_path = {tmp_path}/volumes")
    pool_setup.prepare([pool])
    pool.full_name = "other@fs#fs"
    with pytest.raises(errors.ConfigurationError, match="belongs to pool host@fs#fs, and other@fs#fs needs"):
        pool_setup.prepare([pool])


def test_a_link_is_no_folder_for_volumes(tmp_path: pathlib.Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    [pool] = pools(tmp_path, f"filesystem_path = {tmp_path}/link")
    with pytest.raises(errors.ConfigurationError, match="cannot be used: Not a directory"):
        pool_setup.prepare([pool])


def test_the_space_of_an_interrupted_extend_is_freed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mib = 1 << 20
    monkeypatch.setattr(pool_setup, "GIB", mib)
    [pool] = pools(tmp_path, f"filesystem_path = {tmp_path}/volumes")
    pool_setup.prepare([pool])
    with volume_files.open_folder(pool.path) as folder, volume_files.unnamed_file(folder) as file:
        volume_files.grow(file, mib, allocate=True)
        volume_files._allocate(file, mib, mib)
        volume_files.give_name(folder, file, "v")
        pool_setup.prepare([pool])
        assert volume_files.used_bytes(file) == mib
