# SPDX-License-Identifier: Apache-2.0
"""Where a backend of the ``lvm`` driver has its volumes: in a volume group, or in a thin pool in one.

Each place bears the mark of its backend, a tag in LVM. Two backends in one place would each take the other's volumes
for copies or orphans that may be deleted.
"""

import re
from collections.abc import Sequence

from tonnage.drivers.command_runner import CommandFailed, Runner
from tonnage.drivers.lvm import lvm_commands, volume_group
from tonnage.drivers.lvm.volume_group import Group, Kind, LogicalVolume

#: What LVM takes for the name of a group or of a volume; not what a command could take for an option.
NAME = re.compile(r"(?!\.\.?$)[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,126}")

_MARK = "tonnage.pool="


class Place:
    """A volume group or, if ``pool`` is not empty, a thin pool in it."""

    def __init__(self, runner: Runner, group: str, pool: str) -> None:
        self.group = group
        self.pool = pool
        self._runner = runner

    def __str__(self) -> str:
        return f"thin pool {self.group}/{self.pool}" if self.pool else f"group {self.group}"

    def run(self, command: Sequence[str]) -> None:
        """Run a command. Raises :class:`~tonnage.drivers.command_runner.CommandFailed`."""
        self._runner.run(command)

    def read(self) -> Group:
        """Look at the group and all that is in it: one command, or two if it is empty. Raises CommandFailed."""
        command = lvm_commands.list_volumes(self.group)
        try:
            volumes = volume_group.rows(self._runner.run(command), "lv")
            if volumes:
                return volume_group.group(volumes[0], volumes)
            command = lvm_commands.show_group(self.group)
            (shown,) = volume_group.rows(self._runner.run(command), "vg")
            return volume_group.group(shown, [])
        except ValueError as error:
            raise CommandFailed(f"{command[0]}: {error}") from error

    def is_in(self, group: Group) -> bool:
        """Tell whether the group has the thin pool, if that is what the place is."""
        return not self.pool or (self.pool in group.volumes and group.volumes[self.pool].kind is Kind.THIN_POOL)

    def holds(self, found: LogicalVolume) -> bool:
        """Tell whether a logical volume of the group is a volume in this place."""
        return found.kind is (Kind.THIN if self.pool else Kind.THICK) and found.pool == self.pool

    def claim(self, backend: str, group: Group) -> str | None:
        """Leave the mark of a backend if there is none. If there is another's, return the command that removes it.

        Raises CommandFailed.
        """
        mark = _MARK + _as_tag(backend)
        if not self._marks(group):
            self.run(
                lvm_commands.tag_pool(self.group, self.pool, mark)
                if self.pool
                else lvm_commands.tag_group(self.group, mark)
            )
            group = self.read()  # another, which began at the same time, may have left its mark too
        others = sorted(self._marks(group) - {mark})
        if not others:
            return None
        return (
            f"lvchange --deltag '{others[0]}' {self.group}/{self.pool}"
            if self.pool
            else f"vgchange --deltag '{others[0]}' {self.group}"
        )

    def _marks(self, group: Group) -> set[str]:
        return marks(group.volumes[self.pool].tags if self.pool else group.tags)


def marks(tags: frozenset[str]) -> set[str]:
    """Return the marks of backends among tags."""
    return {tag for tag in tags if tag.startswith(_MARK)}


def _as_tag(name: str) -> str:
    """Return a name as LVM takes it for a tag: ':' for '@', and what else it refuses as '+' and two hex digits."""
    return re.sub(
        r"[^A-Za-z0-9_.:-]",
        lambda found: "".join(f"+{byte:02X}" for byte in found[0].encode()),
        name.replace("@", ":"),
    )


def advised(error: CommandFailed) -> str:
    """Return what a command said, with the way out if it was not permitted."""
    if error.message.startswith("sudo:"):
        return f"{error.message}; permit this user the commands of the driver (see etc/sudoers.d/tonnage-lvm)"
    return error.message
