# SPDX-License-Identifier: Apache-2.0
"""The ``lvm`` driver: a backend is a volume group or a thin pool in one, each volume a logical volume named by its id.

The whole truth is in LVM: whatever logical volume is there is a volume of the pool, whoever made it. Two backends in
one group share its names, so each leaves what is not in its own place alone.
"""

import collections
import contextlib
import re
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from oslo_log import log as logging

import tonnage
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers import rounding
from tonnage.drivers.base import Driver, Source, StoredVolume, Volume
from tonnage.drivers.command_runner import CommandFailed
from tonnage.drivers.lvm import group_setup, lvm_commands
from tonnage.drivers.lvm.volume_group import Group, Kind, LogicalVolume
from tonnage.drivers.lvm.volume_location import NAME, advised
from tonnage.drivers.options import Section, capabilities
from tonnage.drivers.snapshot_cache import OneLook

LOG = logging.getLogger(__name__)

#: Names and parts of names that LVM keeps for itself.
_KEPT = re.compile(
    r"snapshot|pvmove|.*_(cdata|cmeta|corig|cpool|cvol|iorig|mimage|mlog|rimage|rmeta|pmspare|tdata|tmeta|vdata|vorigin|wcorig)"
)

#: What LVM says when there is no room, be it for data or for the metadata of a thin pool.
_NO_ROOM = re.compile(r"insufficient|not enough|(above|reached) threshold|free space in metadata", re.IGNORECASE)

#: Volumes are zeroed and copied in pieces of so many bytes, each by a command with its own time limit.
_PIECE = GIB


class LVMDriver(Driver):
    """Logical volumes: thick ones in a volume group, or thin ones in a thin pool.

    Everything is done by LVM's own commands, see :mod:`tonnage.drivers.lvm.lvm_commands`. A volume that was made or
    grown by a command that was interrupted is brought up when the operation is repeated, or at the next start.
    """

    supports_thin = True
    supports_thick = True
    supports_extend = True
    supports_auto_ratio = True
    supports_clone = True
    supports_manage = True

    options = group_setup.OPTIONS

    def __init__(self, backend: str, conf: Section) -> None:
        super().__init__(backend, conf)
        self._name = backend.rpartition("@")[2]
        self._place = group_setup.place_of(conf)
        self._one_look: OneLook[Group] = OneLook()
        # Between looking at what is free and taking it.
        self._taking = threading.Lock()
        #: How many copies of each thick volume are being made, and which ones are being deleted.
        self._copied: collections.Counter[str] = collections.Counter()
        self._going: set[str] = set()
        #: What was last said of the group's or the pool's state; said again only when it changes.
        self._told = ""
        self._capabilities = capabilities(conf, backend)

    def check(self) -> None:
        """See that the group can be used, make the thin pool if it is missing, and mark the one or the other as ours.

        What was interrupted in the middle of a change is brought up.
        """
        group_setup.prepare(self._place, self.backend, self.conf)

    def report(self) -> Sequence[Mapping[str, Any]]:
        """Return the figures of the thin pool or of the group."""
        group = self._seen("measured")
        self._tell(group)
        return [self._figures(group)]

    def create(self, volume: Volume) -> None:
        """Make the logical volume; where it is there already, bring it up."""
        doing = self._target(volume, "create")
        self._refuse_other_kind(volume, doing)
        with self._taking:
            group = self._cleared(volume, doing)
            if not self._is_there(group, volume, doing):
                self.admit(self._figures(group), volume, volume.size_gb)
                self._make(volume, [self._new(volume)], doing)

    def clone(self, volume: Volume, source: Source) -> None:
        """Make a thin volume as a snapshot, or a thick one and copy the source into it, which must not be in use."""
        doing = self._target(volume, f"clone of volume {source.id}")
        self._refuse_other_kind(volume, doing)
        if source.backend != self.backend:
            raise errors.DriverError(f"{doing}: that is on another backend, {source.backend}", clean=True)
        group_name = self._place.group
        with self._taking:
            group = self._cleared(volume, doing)
            if self._is_there(group, volume, doing):
                return
            content = self._content(group, source, volume, doing)
            self.admit(self._figures(group), volume, volume.size_gb)
            if self._place.pool:
                larger = content.size < volume.size_gb * GIB
                commands = [
                    lvm_commands.snapshot(group_name, content.name, volume.id),
                    *([lvm_commands.extend(group_name, volume.id, volume.size_gb)] if larger else []),
                    lvm_commands.finish(group_name, volume.id),
                ]
                self._make(volume, commands, doing)
                return
            self._make(volume, [lvm_commands.create_unfinished(group_name, volume.id, volume.size_gb)], doing)
            self._copied[content.name] += 1
        try:
            # Others need not wait: the space is taken.
            commands = [
                *([] if content.active else [lvm_commands.activate(group_name, content.name)]),
                *(lvm_commands.copy(group_name, content.name, volume.id, *part) for part in _parts(content.size)),
                lvm_commands.finish(group_name, volume.id),
            ]
            self._make(volume, commands, doing)
        finally:
            with self._taking:
                self._copied[content.name] -= 1

    def extend(self, volume: Volume, new_size_gb: int) -> None:
        """Grow the logical volume; where it has the size already, bring it up."""
        doing = self._target(volume, f"extend to {new_size_gb} GiB")
        with self._taking:
            group = self._look(doing)
            present = self._find(group, volume.id, doing)
            if present is None or present.unfinished:
                raise errors.NotFound(f"{doing}: there is no such volume in {self._place}")
            growth_gb = -((present.size - new_size_gb * GIB) // GIB)
            if growth_gb > 0:
                self.admit(self._figures(group), volume, growth_gb)
                self._do(lvm_commands.extend(self._place.group, volume.id, new_size_gb), doing)
            else:
                self._bring_up(present, doing)

    def delete(self, volume: Volume) -> None:
        """Clear the logical volume, if that is wanted, and remove it."""
        doing = self._target(volume, "delete")
        with self._taking:
            group = self._look(doing)
            present = group.volumes.get(volume.id)
            if present is None or not self._place.holds(present):
                return
            if bound := group.bound_to(volume.id):
                raise errors.DriverError(
                    f"{doing}: its snapshots would be gone with it; remove them first: {', '.join(bound)}"
                )
            # Between two parts of a copy nobody has it open.
            if self._copied[volume.id]:
                raise errors.DriverError(f"{doing}: it is being copied")
            if present.in_use:
                raise errors.DriverError(f"{doing}: it is in use")
            self._going.add(volume.id)
        try:
            if present.kind is Kind.THICK and self.conf.volume_clear == "zero":
                self._clear(present, doing)
            self._do(lvm_commands.remove(self._place.group, volume.id), doing)
        finally:
            with self._taking:
                self._going.discard(volume.id)

    def list_volumes(self) -> Sequence[StoredVolume]:
        """Return every volume in the thin pool or, for thick ones, outside of any; snapshots are none."""
        group = self._seen("listed")
        return [
            StoredVolume(id=volume.name, pool=self._name, size_gb=volume.size / GIB)
            for volume in group.inside(self._place.pool)
        ]

    def one_look(self) -> contextlib.AbstractContextManager[bool]:
        """Have all come from one look at the group."""
        return self._one_look.taken()

    def manage(self, volume: Volume, reference: str) -> float:
        """Rename the logical volume ``reference``, after it was grown to whole GiB."""
        doing = self._target(volume, f"manage of {reference!r}")
        self._refuse_other_kind(volume, doing)
        if not NAME.fullmatch(reference):
            raise errors.DriverError(f"{doing}: that is no name of a logical volume", clean=True)
        with self._taking:
            group = self._look(doing, clean=True)
            present = self._find(group, volume.id, doing)
            found = self._find(group, reference, doing)
            if found is not None and found.unfinished:
                found = None
            if found is not None and present is not None and found.name != present.name:
                raise errors.DriverError(f"{doing}: there is a volume {volume.id} already")
            found = found or present
            if found is None:
                raise errors.DriverError(f"{doing}: there is no such volume in {self._place}", clean=True)
            size_gb = -(-found.size // GIB)
            if size_gb * GIB != found.size:
                self.admit(self._figures(group), volume, (size_gb * GIB - found.size) / GIB)
                self._do(lvm_commands.extend(self._place.group, found.name, size_gb), doing)
            if found.name != volume.id:
                self._do(lvm_commands.rename(self._place.group, found.name, volume.id), doing)
            return float(size_gb)

    # What there is

    def _seen(self, what: str) -> Group:
        """Look at the group for what is told of it."""
        return self._one_look.of("group", lambda: self._look(f"pool {self.backend}#{self._name} cannot be {what}"))

    def _look(self, doing: str, clean: bool = False) -> Group:
        """Look at the group on behalf of an operation, of which nothing was done if ``clean``."""
        try:
            group = self._place.read()
        except CommandFailed as error:
            raise errors.DriverError(f"{doing}: {advised(error)}", clean=clean) from error
        if not self._place.is_in(group):
            raise errors.DriverError(
                f"{doing}: there is no thin pool {self._place.group}/{self._place.pool} any more", clean=clean
            )
        return group

    def _figures(self, group: Group) -> dict[str, Any]:
        """Return what the pool reports. Where nothing can be made, nothing is free."""
        shown: dict[str, Any] = {"lvm_volume_group": self._place.group}
        total, free = group.size, group.free
        if self._place.pool:
            pool = group.volumes[self._place.pool]
            total, free = pool.size, pool.size - pool.used
            shown |= {
                "lvm_thin_pool": self._place.pool,
                "lvm_data_percent": pool.data,
                "lvm_metadata_percent": pool.metadata,
            }
        return {
            **self._capabilities,
            "pool_name": self._name,
            "vendor_name": "Tonnage",
            "driver_version": tonnage.__version__,
            "storage_protocol": "lvm",
            "QoS_support": False,
            "multiattach": False,
            "location_info": f"lvm:{socket.gethostname()}:{self._place.group}/{self._place.pool}",
            "thin_provisioning_support": bool(self._place.pool),
            "thick_provisioning_support": not self._place.pool,
            "total_capacity_gb": rounding.hundredths_below(total),
            "free_capacity_gb": 0.0 if group.trouble else rounding.hundredths_below(free),
            "provisioned_capacity_gb": rounding.hundredths_above(group.provisioned(self._place.pool)),
            **{name: value for name, value in shown.items() if value is not None},
        }

    def _tell(self, group: Group) -> None:
        """Say in the log what keeps volumes from being made, once until it changes."""
        said = f"group {self._place.group}: {group.trouble}" if group.trouble else ""
        if self._place.pool and not said:
            pool = group.volumes[self._place.pool]
            trouble = "not active" if pool.data is None else pool.health.replace("_", " ")
            if not trouble and pool.crowded:
                trouble = "its metadata is too full for more volumes; grow it with lvextend --poolmetadatasize"
            said = f"{self._place}: {trouble}" if trouble else ""
        if said and said != self._told:
            LOG.warning("Backend %s: %s", self.backend, said)
        elif self._told and not said:
            LOG.info("Backend %s works again, that is over: %s", self.backend, self._told)
        self._told = said

    def _find(self, group: Group, name: str, doing: str) -> LogicalVolume | None:
        """Return a volume of this backend, None if nothing has that name. What else has it is an error."""
        found = group.volumes.get(name)
        if found is not None and not self._place.holds(found):
            where = f" in thin pool {found.pool}" if found.kind is Kind.THIN else ""
            raise errors.DriverError(
                f"{doing}: {self._place.group}/{name} is {found.kind.value}{where}, none of {self._place}", clean=True
            )
        return found

    def _cleared(self, volume: Volume, doing: str) -> Group:
        """Look at the group, in which no copy of a volume that was broken off is left."""
        group = self._look(doing, clean=True)
        present = self._find(group, volume.id, doing)
        if present is None or not present.unfinished:
            return group
        self._do(lvm_commands.remove(self._place.group, volume.id), doing)
        return self._look(doing)

    def _is_there(self, group: Group, volume: Volume, doing: str) -> bool:
        """Tell whether the volume is there, and bring it up."""
        present = self._find(group, volume.id, doing)
        if present is None:
            return False
        if present.size != volume.size_gb * GIB:
            raise errors.DriverError(
                f"{doing}: a logical volume of {present.size} bytes is there, not of {volume.size_gb * GIB}"
            )
        self._bring_up(present, doing)
        return True

    def _content(self, group: Group, source: Source, volume: Volume, doing: str) -> LogicalVolume:
        """Return the volume that is to be copied, if it can be."""
        found = self._find(group, source.id, doing) if NAME.fullmatch(source.id) else None
        if found is None or found.unfinished or found.name in self._going:
            raise errors.DriverError(f"{doing}: there is no such volume in {self._place}", clean=True)
        if found.size > volume.size_gb * GIB:
            raise errors.DriverError(
                f"{doing}: its source has {found.size} bytes, more than {volume.size_gb} GiB", clean=True
            )
        if found.kind is Kind.THICK and found.in_use and not self._copied[found.name]:
            raise errors.DriverError(f"{doing}: its source is in use, so it may be written to meanwhile", clean=True)
        return found

    # What is done

    def _new(self, volume: Volume) -> Sequence[str]:
        if self._place.pool:
            return lvm_commands.create_thin(self._place.group, self._place.pool, volume.id, volume.size_gb)
        return lvm_commands.create_thick(self._place.group, volume.id, volume.size_gb)

    def _make(self, volume: Volume, commands: Iterable[Sequence[str]], doing: str) -> None:
        """Make the logical volume; on failure see that nothing of it is left."""
        try:
            for command in commands:
                self._place.run(command)
        except CommandFailed as error:
            if not error.unfinished and self._undone(volume.id):
                self._fail(doing, error, clean=True)
            self._fail(doing, error, clean=False)

    def _undone(self, name: str) -> bool:
        """Remove what was left when a volume could not be made; tell whether nothing is there."""
        try:
            present = self._place.read().volumes.get(name)
            if present is not None and self._place.holds(present):
                self._place.run(lvm_commands.remove(self._place.group, name))
        except CommandFailed as error:
            LOG.warning("Backend %s cannot tidy up logical volume %s: %s", self.backend, name, error.message)
            return False
        return True

    def _bring_up(self, present: LogicalVolume, doing: str) -> None:
        """Finish what an interrupted command has written down but not had the kernel do."""
        command = lvm_commands.refresh if present.active else lvm_commands.activate
        self._do(command(self._place.group, present.name), doing)

    def _clear(self, present: LogicalVolume, doing: str) -> None:
        """Overwrite a volume, or its first part, with zeros."""
        if not present.active:
            self._do(lvm_commands.activate(self._place.group, present.name), doing)
        for part in _parts(min(self.conf.volume_clear_size << 20 or present.size, present.size)):
            self._do(lvm_commands.zero(self._place.group, present.name, *part), doing)

    def _do(self, command: Sequence[str], doing: str) -> None:
        try:
            self._place.run(command)
        except CommandFailed as error:
            self._fail(doing, error, clean=False)

    def _fail(self, doing: str, error: CommandFailed, clean: bool) -> NoReturn:
        message = f"{doing}: {advised(error)}"
        if clean and _NO_ROOM.search(error.message):
            raise errors.CapacityExceeded(message) from error
        raise errors.DriverError(message, clean=clean) from error

    def _refuse_other_kind(self, volume: Volume, doing: str) -> None:
        if (volume.provisioning is Provisioning.THIN) != bool(self._place.pool):
            raise errors.DriverError(
                f"{doing}: the pool makes no {volume.provisioning} volumes ([{self.conf.section_name}] lvm_type)",
                clean=True,
            )

    def _target(self, volume: Volume, verb: str) -> str:
        """See that the volume can be one of this backend, and return words for what is being done to it."""
        doing = f"volume {volume.id} in pool {self.backend}#{volume.pool}: {verb} failed"
        if volume.pool != self._name:
            raise errors.DriverError(f"{doing}: the backend's only pool is {self._name}", clean=True)
        if not NAME.fullmatch(volume.id) or _KEPT.match(volume.id):
            raise errors.DriverError(f"{doing}: {volume.id!r} is no name for a logical volume", clean=True)
        return doing


def _parts(size: int) -> Iterator[tuple[int, int]]:
    """Cut so many bytes into parts, each with its beginning and its length."""
    for offset in range(0, size, _PIECE):
        yield offset, min(_PIECE, size - offset)
