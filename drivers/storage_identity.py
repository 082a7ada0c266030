# SPDX-License-Identifier: Apache-2.0
"""The identity of the storage below a folder. Pools that share a storage report the same identity."""

import fcntl
import os
import socket
import struct

# FS_IOC_GETFSUUID (Linux 6.9) returns a byte with the length, then up to 16 bytes. ext4, xfs, btrfs and others support
# it.
_GET_UUID = struct.Struct("=B16s")
_FS_IOC_GETFSUUID = (2 << 30) | (_GET_UUID.size << 16) | (0x15 << 8)


def identify(folder: int) -> str:
    """Return a name for the file system of an open folder: equal for all folders on it.

    The name survives a reboot where the file system has a UUID or a device of its own. It includes the name of this
    machine, since copies of one disk image have the same UUID.
    """
    return f"{socket.gethostname()}:{_filesystem_uuid(folder) or _mount_source(folder) or _device_number(folder)}"


def _filesystem_uuid(folder: int) -> str | None:
    try:
        answer = fcntl.ioctl(folder, _FS_IOC_GETFSUUID, bytes(_GET_UUID.size))
    except OSError:  # an older kernel, or a file system without a UUID
        return None
    length, uuid = _GET_UUID.unpack(answer)
    return uuid[:length].hex() if any(uuid[:length]) else None


def _mount_source(folder: int) -> str | None:
    """Return the device or the remote export that the folder's mount comes from."""
    # The mount id identifies the file system: the device number differs between the subvolumes of one btrfs.
    with open(f"/proc/self/fdinfo/{folder}", encoding="utf-8") as info:
        mount = next((line.split()[1] for line in info if line.startswith("mnt_id:")), None)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            fields = line.split()
            if fields[0] == mount:
                source = fields[fields.index("-") + 2]
                # Other sources ("tmpfs", "overlay") are words without meaning.
                return source if source.startswith("/") or ":" in source else None
    return None


def _device_number(folder: int) -> str:
    device = os.fstat(folder).st_dev
    return f"{os.major(device)}:{os.minor(device)}"
