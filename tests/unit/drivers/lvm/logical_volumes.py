# SPDX-License-Identifier: Apache-2.0
"""A volume group that answers the commands of the driver, for tests without LVM."""

import json
from collections.abc import Sequence

from tonnage.drivers.command_runner import CommandFailed, CommandRunner
from tonnage.drivers.lvm import lvm_commands

GIB = 1 << 30


class FakeGroup(CommandRunner):
    """The group ``vg``. ``volumes`` are the rows of its logical volumes, ``failures`` errors by the command's program.

    ``on_tag`` are tags that another backend adds just before the next one.
    """

    def __init__(self, *, extent: int = 4 << 20) -> None:
        super().__init__([], 1)
        self.volumes: dict[str, dict[str, str]] = {}
        self.tags: list[str] = []
        self.extent = extent
        self.commands: list[list[str]] = []
        self.failures: dict[str, CommandFailed] = {}
        self.on_tag: list[str] = []

    def add(self, name: str, layout: str = "linear", *, pool: str = "", tags: str = "", **fields: str) -> None:
        """Add a logical volume of 1 GiB."""
        plain = dict.fromkeys(lvm_commands.LV_FIELDS, "") | {
            "lv_name": name,
            "lv_size": str(GIB),
            "lv_layout": layout,
            "lv_role": "private" if layout == "thin,pool" else "public",
            "lv_attr": "twi-aotz--" if layout == "thin,pool" else "-wi-a-----",
            "lv_active": "active",
            "lv_tags": tags,
            "pool_lv": pool,
        }
        if layout == "thin,pool":
            plain |= {"data_percent": "0.00", "metadata_percent": "10.00", "lv_metadata_size": str(4 << 20)}
        self.volumes[name] = plain | fields

    def run(self, command: Sequence[str]) -> str:
        """Answer a query, or carry a change out."""
        program = command[0]
        if program in self.failures:
            raise self.failures[program]
        if program not in ("lvs", "vgs"):
            self.commands.append(list(command))
            self._change(list(command))
        group = {
            "vg_name": "vg",
            "vg_size": str(20 * GIB),
            "vg_free": str(10 * GIB),
            "vg_extent_size": str(self.extent),
            "vg_attr": "wz--n-",
            "vg_tags": ",".join(self.tags),
        }
        rows = [row | group for row in self.volumes.values()] if program == "lvs" else [group]
        return json.dumps({"report": [{"lv" if program == "lvs" else "vg": rows}]})

    def _change(self, command: list[str]) -> None:
        if "--addtag" in command and command[0] in ("vgchange", "lvchange"):
            tags = [*self.on_tag, command[command.index("--addtag") + 1]]
            self.on_tag = []
            name = command[-1].partition("/")[2]
            if name:
                known = [self.volumes[name]["lv_tags"]] if self.volumes[name]["lv_tags"] else []
                self.volumes[name]["lv_tags"] = ",".join([*known, *tags])
            else:
                self.tags += tags
        elif command[0] == "lvcreate" and "thin-pool" in command:
            self.add(command[command.index("--name") + 1], "thin,pool")
        elif command[0] == "lvremove":
            del self.volumes[command[-1].partition("/")[2]]
