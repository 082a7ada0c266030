# SPDX-License-Identifier: Apache-2.0
"""Folders on one file system have one identity, which names the machine."""

import os
import pathlib
import socket

import pytest

from tonnage.drivers import storage_identity


def identity(folder: pathlib.Path) -> str:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return storage_identity.identify(descriptor)
    finally:
        os.close(descriptor)


def test_all_folders_of_a_file_system_have_the_same_identity(tmp_path: pathlib.Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert identity(tmp_path / "one") == identity(tmp_path / "two") == identity(tmp_path)
    assert identity(tmp_path).startswith(f"{socket.gethostname()}:")


def test_another_file_system_has_another_identity(tmp_path: pathlib.Path) -> None:
    assert identity(tmp_path) != identity(pathlib.Path("/proc"))


def test_a_file_system_without_uuid_and_source_is_named_by_its_device(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in ("_filesystem_uuid", "_mount_source"):
        monkeypatch.setattr(storage_identity, source, lambda folder: None)
    device = tmp_path.stat().st_dev
    assert identity(tmp_path) == f"{socket.gethostname()}:{os.major(device)}:{os.minor(device)}"


def test_a_uuid_counts_before_the_source_of_the_mount(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_identity, "_filesystem_uuid", lambda folder: "ab12")
    monkeypatch.setattr(storage_identity, "_mount_source", lambda folder: "/dev/sda1")
    assert identity(tmp_path) == f"{socket.gethostname()}:ab12"


def test_a_mount_without_a_device_has_no_source() -> None:
    descriptor = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert storage_identity._mount_source(descriptor) is None
    finally:
        os.close(descriptor)
