# SPDX-License-Identifier: Apache-2.0
"""Small file systems of their own, really mounted, for tests of what happens at their limits."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-F"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
    "btrfs": ["mkfs.btrfs", "-q", "-f"],
}


@contextlib.contextmanager
def mounted(kind: str, folder: Path, size_mb: int) -> Iterator[Path]:
    """Mount a new file system of that kind and size below the folder. Skips the test where that is not possible."""
    if os.geteuid() != 0:
        pytest.skip(f"a {kind} of its own: only root can mount one")
    if kind in _MAKE and shutil.which(_MAKE[kind][0]) is None:
        pytest.skip(f"a {kind} of its own: {_MAKE[kind][0]} is not installed")
    point = folder / f"{kind}-mount"
    point.mkdir()
    if kind == "tmpfs":
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m,mode=755", "tmpfs", str(point)]
    else:
        image = folder / f"{kind}-image"
        image.touch()
        os.truncate(image, size_mb << 20)
        _run([*_MAKE[kind], str(image)])
        mount = ["mount", "-o", "loop", str(image), str(point)]
    try:
        _run(mount)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"a {kind} of its own: {error.stderr.strip()}")
    try:
        yield point
    finally:
        _run(["umount", "--lazy", str(point)])


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
