# SPDX-License-Identifier: Apache-2.0
"""The location of a backend's volumes in the ``lvm`` driver: a volume group, or a thin pool in one.

Each location has an owner tag in LVM that names its backend. Two backends in one location would each treat the other's
volumes as copies or orphans that may be deleted.
"""

import re
from collections.abc import Sequence

from tonnage.drivers.command_runner import CommandFailed, CommandRunner
from tonnage.drivers.lvm import lvm_commands, volume_group
from tonnage.drivers.lvm.volume_group import Category, LogicalVolume, VolumeGroup

#: Valid names of groups and volumes, without names that a command could take for an option.
VALID_NAME = re.compile(r"(?!\.\.?$)[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,126}")

_OWNER_TAG_PREFIX = "tonnage.pool="
_LEDGER_TAG_PREFIX = "tonnage.ledger="


class VolumeLocation:
    """A volume group or, if ``pool`` is not empty, a thin pool in it."""

    def __init__(self, runner: CommandRunner, group: str, pool: str) -> None:
        self.group = group
        self.pool = pool
        self._runner = runner

    def __str__(self) -> str:
        return f"thin pool {self.group}/{self.pool}" if self.pool else f"group {self.group}"

    def run(self, command: Sequence[str]) -> None:
        """Run a command. Raises :class:`~tonnage.drivers.command_runner.CommandFailed`."""
        self._runner.run(command)

    def read(self) -> VolumeGroup:
        """Return the group with its volumes, by one command, or two if it is empty. Raises CommandFailed."""
        command = lvm_commands.list_volumes(self.group)
        try:
            volumes = volume_group.parse_rows(self._runner.run(command), "lv")
            if volumes:
                return volume_group.parse_group(volumes[0], volumes)
            command = lvm_commands.show_group(self.group)
            (row,) = volume_group.parse_rows(self._runner.run(command), "vg")
            return volume_group.parse_group(row, [])
        except ValueError as error:
            raise CommandFailed(f"{command[0]}: {error}") from error

    def exists_in(self, group: VolumeGroup) -> bool:
        """Return whether the group has the thin pool of the location, if there is one."""
        return not self.pool or (self.pool in group.volumes and group.volumes[self.pool].category is Category.THIN_POOL)

    def contains(self, logical_volume: LogicalVolume) -> bool:
        """Return whether a logical volume of the group is a volume in this location."""
        return (
            logical_volume.category is (Category.THIN if self.pool else Category.THICK)
            and logical_volume.pool == self.pool
        )

    def claim(self, backend: str, group: VolumeGroup) -> str | None:
        """Add a backend's owner tag if there is none.

        If another backend's tag exists, return the command that removes it.

        Raises CommandFailed.
        """
        tag = _OWNER_TAG_PREFIX + _as_tag(backend)
        if not self._owner_tags(group):
            self._add_tag(tag)
            group = self.read()  # another backend, which started at the same time, may have added its tag too
        other_tags = sorted(self._owner_tags(group) - {tag})
        if not other_tags:
            return None
        return (
            f"lvchange --deltag '{other_tags[0]}' {self.group}/{self.pool}"
            if self.pool
            else f"vgchange --deltag '{other_tags[0]}' {self.group}"
        )

    def ledger_mark(self, group: VolumeGroup) -> str | None:
        """Return the ledger mark among the tags, None without one. Several make a text that is no mark."""
        tags = sorted(tag for tag in self._tags(group) if tag.startswith(_LEDGER_TAG_PREFIX))
        return ", ".join(tag.removeprefix(_LEDGER_TAG_PREFIX) for tag in tags) or None

    def mark_ledger(self, mark: str) -> str:
        """Add the tag of a ledger unless there is one; return the mark in the tag. Raises CommandFailed."""
        present = self.ledger_mark(self.read())
        if present is None:
            self._add_tag(_LEDGER_TAG_PREFIX + mark)
        return present or mark

    def _add_tag(self, tag: str) -> None:
        self.run(
            lvm_commands.tag_pool(self.group, self.pool, tag) if self.pool else lvm_commands.tag_group(self.group, tag)
        )

    def _owner_tags(self, group: VolumeGroup) -> set[str]:
        return owner_tags(self._tags(group))

    def _tags(self, group: VolumeGroup) -> frozenset[str]:
        return group.volumes[self.pool].tags if self.pool else group.tags


def owner_tags(tags: frozenset[str]) -> set[str]:
    """Return the owner tags among ``tags``."""
    return {tag for tag in tags if tag.startswith(_OWNER_TAG_PREFIX)}


def _as_tag(name: str) -> str:
    """Return a name in the characters of a tag.

    '@' becomes ':', and any other invalid character '+' and two hex digits for each byte.
    """
    return re.sub(
        r"[^A-Za-z0-9_.:-]",
        lambda character: "".join(f"+{byte:02X}" for byte in character[0].encode()),
        name.replace("@", ":"),
    )


def message_with_remedy(error: CommandFailed) -> str:
    """Return the message of a failed command, with the remedy if it was not permitted."""
    if error.message.startswith("sudo:"):
        return f"{error.message}; permit this user the commands of the driver (see etc/sudoers.d/tonnage-lvm)"
    return error.message
