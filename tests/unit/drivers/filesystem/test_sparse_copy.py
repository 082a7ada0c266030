# SPDX-License-Identifier: Apache-2.0
"""Copies of files, on each file system that the driver works on."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.drivers import mounts
from tonnage.drivers.filesystem import sparse_copy

MIB = 1 << 20


#: The others take the ways of these two.
@pytest.fixture(
    scope="module",
    params=["here", "xfs", *(pytest.param(kind, marks=pytest.mark.heavy) for kind in ("ext4", "btrfs", "tmpfs"))],
)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    tmp_path = tmp_path_factory.mktemp("copies")
    if request.param == "here":
        yield tmp_path
    else:
        with mounts.mounted(request.param, tmp_path, 512) as point:
            yield point


@pytest.fixture
def pair(folder: Path) -> Iterator[tuple[int, int]]:
    """Two new files, open."""
    files = [os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC) for name in ("one", "other")]
    yield files[0], files[1]
    for file in files:
        os.ftruncate(file, 0)
        os.close(file)


def fill(file: int, seed: int, size: int = 64 * MIB) -> None:
    """Write at random offsets, not aligned with blocks, and leave holes."""
    draw = random.Random(seed)
    os.ftruncate(file, size)
    for _ in range(draw.randint(0, 12)):
        os.pwrite(file, draw.randbytes(draw.randint(1, 3 * MIB)), draw.randrange(size - 3 * MIB))
    os.fsync(file)


def content(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_a_copy_has_the_same_content_and_holes(pair: tuple[int, int], seed: int, share: bool) -> None:
    one, other = pair
    fill(one, seed)
    os.ftruncate(other, os.fstat(one).st_size)
    assert sparse_copy.copy(one, other, share)
    assert content(other) == content(one)
    assert sparse_copy.same_content(one, other)
    os.fsync(other)
    assert abs(sparse_copy.data_size(other) - sparse_copy.data_size(one)) <= MIB
    assert sparse_copy.data_size(other) < 64 * MIB


def test_writes_to_one_file_do_not_appear_in_its_copy(pair: tuple[int, int]) -> None:
    one, other = pair
    os.pwrite(one, b"old" * MIB, 0)
    os.ftruncate(other, 3 * MIB)
    assert sparse_copy.copy(one, other, share=True)
    os.pwrite(other, b"new", 5)
    assert content(one) == b"old" * MIB
    os.pwrite(one, b"NEW", 9)
    assert content(other)[:15] == b"oldolnewdoldold"


def test_files_that_differ_are_not_the_same(pair: tuple[int, int]) -> None:
    one, other = pair
    for file in pair:
        os.ftruncate(file, 40 * MIB)
        os.pwrite(file, b"same", 33 * MIB)
    assert sparse_copy.same_content(one, other)
    os.pwrite(other, b"x", 39 * MIB)
    assert not sparse_copy.same_content(one, other)
    assert not sparse_copy.same_content(other, one)
    os.pwrite(other, b"\0", 39 * MIB)
    assert sparse_copy.same_content(one, other), "zeros that are written are like those of a hole"


def test_a_longer_file_is_the_same_if_the_rest_is_zeros(pair: tuple[int, int]) -> None:
    one, other = pair
    os.pwrite(one, b"abc", 0)
    os.pwrite(other, b"abc", 0)
    os.ftruncate(other, 40 * MIB)
    assert sparse_copy.same_content(one, other)
    assert sparse_copy.same_content(other, one)
    os.pwrite(other, b"d", 20 * MIB)
    assert not sparse_copy.same_content(one, other)


def test_allocated_space_without_content_is_not_copied(pair: tuple[int, int]) -> None:
    one, other = pair
    os.posix_fallocate(one, 0, 64 * MIB)
    os.pwrite(one, b"data", 50 * MIB)
    os.ftruncate(other, 64 * MIB)
    assert sparse_copy.copy(one, other, share=False)
    assert content(other) == content(one)


@pytest.mark.parametrize("change", [lambda file: os.pwrite(file, b"x", 0), lambda file: os.ftruncate(file, 5)])
def test_a_source_that_changes_during_the_copy_is_detected(
    pair: tuple[int, int], monkeypatch: pytest.MonkeyPatch, change: object
) -> None:
    one, other = pair
    os.pwrite(one, b"a" * (40 * MIB), 0)
    os.utime(one, ns=(0, 0))
    os.ftruncate(other, 40 * MIB)
    real = os.sendfile

    def sendfile(target: int, source: int, offset: int, count: int) -> int:
        copied = real(target, source, offset, count)
        change(source)  # type: ignore[operator]
        return copied

    monkeypatch.setattr(os, "sendfile", sendfile)
    assert not sparse_copy.copy(one, other, share=False)
