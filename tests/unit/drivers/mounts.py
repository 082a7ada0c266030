# SPDX-License-Identifier: Apache-2.0
"""Small mounted file systems, for tests of their limits."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests import suites

_MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-F"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
    "btrfs": ["mkfs.btrfs", "-q", "-f"],
}
_PACKAGES = {"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}


@contextlib.contextmanager
def mounted(kind: str, folder: Path, size_mb: int) -> Iterator[Path]:
    """Mount a new file system of that kind and size below the folder, owned by this user.

    Skips or fails the test where that is impossible.
    """
    suite = f"real {kind} file system"
    as_root = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    if kind in _MAKE and shutil.which(_MAKE[kind][0], path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
        suites.cannot_run(suite, f"{_MAKE[kind][0]} is not installed; install {_PACKAGES[kind]}")
    point = folder / f"{kind}-mount"
    point.mkdir()
    if kind == "tmpfs":
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(point)]
    else:
        image = folder / f"{kind}-image"
        image.touch()
        os.truncate(image, size_mb << 20)
        _run([*_MAKE[kind], str(image)])
        mount = ["mount", "-o", "loop", str(image), str(point)]
    try:
        _run([*as_root, *mount])
    except (OSError, subprocess.CalledProcessError) as error:
        output = getattr(error, "stderr", None) or str(error)
        suites.cannot_run(
            suite, f"it cannot be mounted ({output.strip()}); run as root, or allow sudo without password"
        )
    try:
        _run([*as_root, "chown", f"{os.geteuid()}:{os.getegid()}", str(point)])
        yield point
    finally:
        _run([*as_root, "umount", "--lazy", str(point)])


def remount(point: Path, options: str) -> None:
    """Change the options of a mounted file system, for example ``ro`` or ``rw``."""
    as_root = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    _run([*as_root, "mount", "-o", f"remount,{options}", str(point)])


@contextlib.contextmanager
def bound(folder: Path, at: Path) -> Iterator[Path]:
    """Mount a folder at a second path below ``at`` (a bind mount). Skips or fails the test where that is impossible."""
    as_root = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    point = at / f"{folder.name}-again"
    point.mkdir()
    try:
        _run([*as_root, "mount", "--bind", str(folder), str(point)])
    except (OSError, subprocess.CalledProcessError) as error:
        output = getattr(error, "stderr", None) or str(error)
        suites.cannot_run("bind mounts", f"({output.strip()}); run as root, or allow sudo without password")
    try:
        yield point
    finally:
        _run([*as_root, "umount", "--lazy", str(point)])


def commit(point: Path) -> None:
    """Make a mounted file system write all data to disk; btrfs reports freed space only then."""
    _run(["sync", "--file-system", str(point)])


def _run(command: list[str]) -> None:
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": path})
