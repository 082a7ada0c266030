# SPDX-License-Identifier: Apache-2.0
"""The initial file system of a virtual machine with LVM, built from packages of the distribution.

LVM's tools are the installed ones. ``tools/install-servers.sh`` only unpacks the kernel, busybox and sudo, into
``.lvm-guest`` at the top of the repository.
"""

import functools
import gzip
import pathlib
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator

UNPACKED = pathlib.Path(__file__).parents[2] / ".lvm-guest"

#: The account in the guest whose only rights are those of its sudoers file.
ACCOUNT = "tonnage"
UID = 1000

_TOOLS = ("lvm", "pdata_tools", "dmsetup", "blkdiscard", "mkfs.ext4", "setpriv", "env", "blockdev")
_LVM_NAMES = (
    *("pvcreate", "pvchange", "vgcreate", "vgchange", "vgremove", "vgs", "vgextend", "vgreduce"),
    *("lvcreate", "lvextend", "lvchange", "lvremove", "lvrename", "lvs", "lvconvert"),
)
_APPLETS = (
    *("sh", "mount", "umount", "mkdir", "cat", "base64", "sleep", "insmod", "chmod", "test", "true", "cmp"),
    *("cp", "rm", "sync", "echo", "grep", "ls", "kill", "ps", "timeout", "sed", "mknod", "dmesg", "stat"),
)
_MODULES = ("virtio_pci", "virtio_blk", "virtio_console", "dm-thin-pool", "dm-snapshot")

#: The guest has no udev, so LVM does not use it, and reserves little memory. A full pool is not extended.
_LVM_CONF = """\
devices {
    dir = "/dev"
    scan = ["/dev"]
    use_devicesfile = 0
    obtain_device_list_from_udev = 0
    external_device_info_source = "none"
    multipath_component_detection = 0
    md_component_detection = 0
}
activation {
    reserved_memory = 64
    reserved_stack = 16
    udev_sync = 0
    udev_rules = 0
    verify_udev_operations = 0
    monitoring = 0
    thin_pool_autoextend_threshold = 100
}
global {
    event_activation = 0
    notify_dbus = 0
    use_lvmpolld = 0
    thin_check_executable = ""
}
backup {
    backup = 0
    archive = 0
}
"""

_INIT = """\
#!/bin/sh
export PATH=/bin:/usr/sbin:/usr/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mkdir -p /run/lvm /run/lock/lvm /run/sudo /mnt
for module in @MODULES@; do insmod /lib/modules/$module.ko; done
serve() {
    exec 3<>$1
    echo ready >&3
    while read -r line <&3; do
        echo "$line" | base64 -d >/tmp/$2.sh
        sh /tmp/$2.sh >/tmp/$2.out 2>/tmp/$2.err </dev/null 3>&-
        code=$?
        echo "$code $(base64 -w0 /tmp/$2.out) $(base64 -w0 /tmp/$2.err)" >&3
    done
}
number=1
while [ $number -le @LINES@ ]; do
    while [ ! -e /dev/vport0p$number ]; do sleep 0.02; done
    serve /dev/vport0p$number $number &
    number=$((number + 1))
done
while true; do sleep 3600; done
"""


@functools.cache
def kernel() -> pathlib.Path:
    """Return the path of the unpacked kernel."""
    return next((UNPACKED / "boot").glob("vmlinuz-*"))


def missing() -> str | None:
    """Return the name of a missing part of the image, or None."""
    if not (UNPACKED / "complete").exists():
        return str(UNPACKED)
    return next((name for name in _TOOLS if _find(name) is None), None)


def build(path: pathlib.Path, lines: int, sudoers: str) -> None:
    """Write the image of a guest with this many command lines. ``sudoers`` is the text of the file for ACCOUNT."""
    archive = _Archive()
    release = str(kernel()).partition("vmlinuz-")[2]
    modules = _in_order(UNPACKED / "lib/modules" / release)
    for module in modules:
        archive.add(f"lib/modules/{module.name}", module.read_bytes())
    archive.add("bin/busybox", (UNPACKED / "bin/busybox").read_bytes(), 0o755)
    for name in _APPLETS:
        archive.link(f"bin/{name}", "busybox")
    for name in _TOOLS:
        found = _find(name)
        assert found is not None
        archive.program(f"usr/sbin/{name}", found)
    # The dd of busybox has fewer options, and sudo does not find it.
    dd = _find("dd")
    assert dd is not None
    archive.program("usr/bin/dd", dd)
    for name in _LVM_NAMES:
        archive.link(f"usr/sbin/{name}", "lvm")
    _add_sudo(archive, sudoers)
    archive.add("etc/lvm/lvm.conf", _LVM_CONF.encode())
    for name in ("proc", "sys", "dev", "run", "tmp"):
        archive.folder(name)
    names = " ".join(module.stem for module in modules)
    archive.add("init", _INIT.replace("@MODULES@", names).replace("@LINES@", str(lines)).encode(), 0o755)
    path.write_bytes(gzip.compress(archive.content(), compresslevel=1))


def _add_sudo(archive: "_Archive", sudoers: str) -> None:
    archive.program("usr/bin/sudo", UNPACKED / "usr/bin/sudo", 0o4755)
    for plugin in ("sudoers.so", "libsudo_util.so.0"):
        archive.program(f"usr/libexec/sudo/{plugin}", (UNPACKED / "usr/libexec/sudo" / plugin).resolve())
    permit = next(pathlib.Path("/lib").glob("*/security/pam_permit.so"))
    archive.program(str(permit)[1:], permit)
    for kind in ("auth", "account", "session"):
        archive.add("etc/pam.d/sudo", f"{kind} required pam_permit.so\n".encode(), append=True)
    archive.add("etc/passwd", f"root:x:0:0:root:/:/bin/sh\n{ACCOUNT}:x:{UID}:{UID}::/:/bin/sh\n".encode())
    archive.add("etc/group", f"root:x:0:\n{ACCOUNT}:x:{UID}:\n".encode())
    archive.add("etc/hosts", b"127.0.0.1 localhost (none)\n")
    archive.add("etc/sudo.conf", b"Plugin sudoers_policy sudoers.so\n")
    archive.add("etc/sudoers", sudoers.encode(), 0o440)


def _find(name: str) -> pathlib.Path | None:
    found = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
    return pathlib.Path(found) if found else None


def _in_order(folder: pathlib.Path) -> list[pathlib.Path]:
    """Return the required kernel modules, each after its dependencies."""
    files = {path.stem.replace("-", "_"): path for path in folder.rglob("*.ko")}
    ordered: dict[str, pathlib.Path] = {}

    def add(name: str) -> None:
        path = files[name.replace("-", "_")]
        said = re.search(rb"\0depends=([^\0]*)\0", path.read_bytes())
        for needed in filter(None, (said[1] if said else b"").decode().split(",")):
            add(needed)
        ordered.setdefault(path.stem, path)

    for name in _MODULES:
        add(name)
    return list(ordered.values())


def _libraries(program: pathlib.Path) -> Iterator[pathlib.Path]:
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    for path in re.findall(r"/\S+", listed):
        yield pathlib.Path(path)


class _Archive:
    """A cpio archive in the format "newc" of the kernel."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[int, bytes]] = {}

    def add(self, name: str, data: bytes, mode: int = 0o644, append: bool = False) -> None:
        """Add a file with its parent folders."""
        before = self._entries[name][1] if append and name in self._entries else b""
        self._enter(name, stat.S_IFREG | mode, before + data)

    def link(self, name: str, target: str) -> None:
        """Add a symbolic link."""
        self._enter(name, stat.S_IFLNK | 0o777, target.encode())

    def folder(self, name: str) -> None:
        """Add an empty folder."""
        self._enter(name, stat.S_IFDIR | 0o755, b"")

    def program(self, name: str, path: pathlib.Path, mode: int = 0o755) -> None:
        """Add a program or library of this machine under a new name, and its libraries under their own names."""
        self.add(name, path.read_bytes(), mode)
        for library in _libraries(path):
            if str(library)[1:] not in self._entries:
                self.add(str(library)[1:], library.read_bytes(), 0o755)

    def content(self) -> bytes:
        """Return the bytes of the archive."""
        numbered = enumerate([*self._entries.items(), ("TRAILER!!!", (0, b""))], start=1)
        return b"".join(self._encoded(number, name, *entry) for number, (name, entry) in numbered)

    def _enter(self, name: str, mode: int, data: bytes) -> None:
        for folder in reversed(pathlib.PurePath(name).parents):
            if str(folder) != ".":
                self._entries.setdefault(str(folder), (stat.S_IFDIR | 0o755, b""))
        self._entries[name] = (mode, data)

    @staticmethod
    def _encoded(number: int, name: str, mode: int, data: bytes) -> bytes:
        named = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(named), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + named
        return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)
