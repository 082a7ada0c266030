# SPDX-License-Identifier: Apache-2.0
"""Volume groups on this machine, for the functions of LVM that need no device-mapper: changes of a group's metadata."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import suites

_CONF = """\
devices {{
    scan = ["/dev"]
    use_devicesfile = 0
    global_filter = ["a|^{device}$|", "r|.*|"]
    obtain_device_list_from_udev = 0
    external_device_info_source = "none"
    hints = "none"
}}
activation {{
    udev_sync = 0
    udev_rules = 0
    monitoring = 0
}}
global {{
    activation = 0
    event_activation = 0
    use_lvmpolld = 0
    locking_dir = "{folder}/lock"
}}
backup {{
    backup = 0
    archive = 0
}}
"""

_VOLUME = """\
volume{number} {{
    id = "aaaaaa-bbbb-cccc-dddd-eeee-ffff-{number:06}"
    status = ["READ", "WRITE", "VISIBLE"]
    flags = []
    segment_count = 1
    segment1 {{
        start_extent = 0
        extent_count = 1
        type = "striped"
        stripe_count = 1
        stripes = ["pv0", {number}]
    }}
}}
"""


@dataclass(frozen=True)
class HostGroup:
    """A volume group of this machine. ``helper`` prefixes LVM's commands, and restricts them to this group."""

    name: str
    helper: str

    def run(self, *command: str) -> str:
        """Run a command of LVM and return its output."""
        return _run([*self.helper.split(), *command])

    def fill(self, folder: Path, count: int) -> None:
        """Replace the volumes of the group by ``count`` volumes of one extent each, with one command."""
        saved = folder / "group"
        self.run("vgcfgbackup", "--file", str(saved), self.name)
        volumes = "".join(_VOLUME.format(number=number) for number in range(count))
        head, _, rest = saved.read_text().partition("\n\t}\n")
        assert "physical_volumes" in head
        saved.write_text(f"{head}\n\t}}\n\tlogical_volumes {{\n{volumes}\t}}\n{rest}")
        self.run("vgcfgrestore", "--file", str(saved), self.name)


@contextlib.contextmanager
def volume_group(folder: Path, size_gb: int, *options: str) -> Iterator[HostGroup]:
    """Create a group, with options of vgcreate, on a loop device over a sparse file.

    Skips or fails where that is impossible.
    """
    as_root = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    disk = folder / "disk"
    with disk.open("wb") as file:
        file.truncate(size_gb << 30)
    if shutil.which("lvs", path=_path()) is None:
        suites.cannot_run("LVM", "no LVM on this machine; install the package lvm2")
    try:
        device = _run([*as_root, "losetup", "--find", "--show", str(disk)]).strip()
    except (OSError, subprocess.CalledProcessError) as error:
        output = getattr(error, "stderr", None) or str(error)
        suites.cannot_run("LVM", f"({output.strip()}); run as root, or allow sudo without password")
    detach = [*as_root, "losetup", "--detach", device]
    holder = os.open(device, os.O_RDONLY) if os.access(device, os.R_OK) else None
    if holder is not None:
        _run(detach)  # takes effect when the last process closes it, even after a crash
    try:
        (folder / "lock").mkdir()
        (folder / "lvm.conf").write_text(_CONF.format(device=device, folder=folder))
        group = HostGroup(
            name=f"tonnage-test-{os.getpid()}", helper=" ".join([*as_root, "env", f"LVM_SYSTEM_DIR={folder}"])
        )
        group.run("vgcreate", "--yes", *options, group.name, device)
        yield group
    finally:
        if holder is None:
            _run(detach)
        else:
            os.close(holder)
        disk.unlink()


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


def _run(command: list[str]) -> str:
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": _path()}
    ).stdout
