# SPDX-License-Identifier: Apache-2.0
"""Volumes as files: unnamed until they are complete, never replaced, never followed out of their folder."""

import errno
import fcntl
import os
import pathlib
import stat
from collections.abc import Iterator

import pytest

from tonnage.drivers.filesystem import volume_files

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Iterator[int]:
    with volume_files.open_folder(str(tmp_path)) as descriptor:
        yield descriptor


def make(folder: int, name: str, size: int = MIB) -> None:
    with volume_files.unnamed_file(folder) as file:
        os.ftruncate(file, size)
        volume_files.give_name(folder, file, name)


def test_a_file_without_a_name_leaves_nothing_behind(folder: int) -> None:
    with volume_files.unnamed_file(folder) as file:
        os.ftruncate(file, MIB)
        assert volume_files.link_count(file) == 0
    assert list(volume_files.files(folder)) == []


def test_a_complete_file_is_private_and_sparse(folder: int) -> None:
    make(folder, "v")
    assert list(volume_files.files(folder)) == [volume_files.File("v", MIB, 0)]
    assert stat.S_IMODE(os.stat("v", dir_fd=folder).st_mode) == 0o600


def test_no_name_is_taken_from_another_file(folder: int) -> None:
    make(folder, "v")
    make(folder, "w", 2 * MIB)
    with pytest.raises(FileExistsError):
        make(folder, "v", 2 * MIB)
    with pytest.raises(FileExistsError):
        volume_files.rename(folder, "w", "v")
    volume_files.rename(folder, "w", "x")
    assert (volume_files.size(folder, "v"), volume_files.size(folder, "x")) == (MIB, 2 * MIB)
    with pytest.raises(FileNotFoundError):
        volume_files.rename(folder, "absent", "y")


def test_a_file_with_two_names_is_listed_once(folder: int) -> None:
    make(folder, "v")
    os.link("v", "w", src_dir_fd=folder, dst_dir_fd=folder)
    assert len(list(volume_files.files(folder))) == 1


def test_links_folders_and_pipes_are_no_volumes(folder: int, tmp_path: pathlib.Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert list(volume_files.files(folder)) == []
    for name in ("link", "folder", "pipe"):
        with pytest.raises(OSError, match="not a regular file") as caught:
            volume_files.size(folder, name)
        assert caught.value.errno == errno.EINVAL
    with pytest.raises(OSError, match="not a regular file"), volume_files.open_file(folder, "pipe"):
        pass
    with pytest.raises(OSError, match="Too many levels"), volume_files.open_file(folder, "link"):
        pass
    with pytest.raises(NotADirectoryError), volume_files.open_folder("link", folder):
        pass


def test_a_missing_file_has_no_size_and_is_removed_already(folder: int) -> None:
    assert volume_files.size(folder, "absent") is None
    volume_files.remove(folder, "absent")


def test_a_removed_file_frees_its_space_even_if_it_is_open(folder: int) -> None:
    make(folder, "v")
    with volume_files.open_file(folder, "v") as file:
        volume_files.allocate(file)
        assert volume_files.used_bytes(file) == MIB
        volume_files.remove(folder, "v")
        assert volume_files.used_bytes(file) == 0
    assert volume_files.size(folder, "v") is None


@pytest.mark.parametrize(("allocate", "used"), [(False, 0), (True, MIB)])
def test_growth_is_allocated_now_or_as_it_is_written(folder: int, allocate: bool, used: int) -> None:
    make(folder, "v")
    with volume_files.open_file(folder, "v") as file:
        volume_files.grow(file, 2 * MIB, allocate=allocate)
        assert (os.fstat(file).st_size, volume_files.used_bytes(file)) == (2 * MIB, used)


def test_growth_that_fails_leaves_the_size_as_it_was(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    make(folder, "v")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with volume_files.open_file(folder, "v") as file:
        with pytest.raises(OSError, match="full"):
            volume_files.grow(file, 2 * MIB, allocate=True)
        assert (os.fstat(file).st_size, volume_files.used_bytes(file)) == (MIB, 0)


def test_space_beyond_the_end_is_freed(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    make(folder, "v")
    with volume_files.open_file(folder, "v") as file:
        volume_files._allocate(file, MIB, MIB)
    [excess] = volume_files.files(folder)
    assert excess.used == MIB
    assert volume_files.trim_excess(folder, excess)
    [trimmed] = volume_files.files(folder)
    assert (trimmed.size, trimmed.used) == (MIB, 0)
    assert not volume_files.trim_excess(folder, trimmed)


def test_a_lock_excludes_other_openers_of_the_folder(folder: int, tmp_path: pathlib.Path) -> None:
    taken = pytest.raises(BlockingIOError)
    with volume_files.locked(folder), volume_files.open_folder(str(tmp_path)) as other, taken:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with volume_files.open_folder(str(tmp_path)) as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_each_folder_has_an_identity_of_its_own(folder: int, tmp_path: pathlib.Path) -> None:
    (tmp_path / "inner").mkdir()
    with volume_files.open_folder("inner", folder) as inner, volume_files.open_folder(str(tmp_path)) as same:
        assert volume_files.identity(same) == volume_files.identity(folder) != volume_files.identity(inner)
    assert not volume_files.read_only(folder)


def test_local_file_systems_can_allocate(folder: int) -> None:
    assert volume_files.can_allocate(folder)
    assert list(volume_files.files(folder)) == []
