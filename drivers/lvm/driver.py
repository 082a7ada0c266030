# SPDX-License-Identifier: Apache-2.0
"""The ``lvm`` driver: a backend is a volume group or a thin pool, each volume a logical volume named by its id.

All state is in LVM: every logical volume in the backend's location is a volume of the pool, including those of other
programs. Two backends in one group share its namespace, so each ignores the volumes outside of its own location.
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
from tonnage.drivers import base
from tonnage.drivers.base import Driver, Source, StoredVolume, Volume
from tonnage.drivers.command_runner import CommandFailed
from tonnage.drivers.lvm import group_setup, lvm_commands
from tonnage.drivers.lvm.volume_group import Category, LogicalVolume, VolumeGroup
from tonnage.drivers.lvm.volume_location import VALID_NAME, message_with_remedy
from tonnage.drivers.options import Section, capabilities
from tonnage.drivers.snapshot_cache import SnapshotCache

LOG = logging.getLogger(__name__)

#: Names and parts of names that LVM reserves for itself.
_RESERVED_NAMES = re.compile(
    r"snapshot|pvmove|.*_(cdata|cmeta|corig|cpool|cvol|iorig|mimage|mlog|rimage|rmeta|pmspare|tdata|tmeta|vdata|vorigin|wcorig)"
)

#: Errors of LVM for a lack of space, of data or of the metadata of a thin pool.
_OUT_OF_SPACE = re.compile(r"insufficient|not enough|(above|reached) threshold|free space in metadata", re.IGNORECASE)

#: Volumes are zeroed and copied in chunks of this many bytes, each by a command with its own time limit.
_CHUNK = GIB


class LVMDriver(Driver):
    """Logical volumes: thick ones in a volume group, or thin ones in a thin pool.

    The driver uses LVM's own commands alone, see :mod:`tonnage.drivers.lvm.lvm_commands`. A volume whose create or
    extend was interrupted is activated when the operation is repeated, or at the next start.
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
        self._location = group_setup.configured_location(conf)
        self._snapshot_cache: SnapshotCache[VolumeGroup] = SnapshotCache()
        # Held from the query of the free space to its allocation.
        self._allocation_lock = threading.Lock()
        #: Number of copies in progress of each thick volume, and the names of the volumes that are being deleted.
        self._active_copies: collections.Counter[str] = collections.Counter()
        self._deleting: set[str] = set()
        #: The last logged problem of the group or the pool, so that each problem is logged once.
        self._logged_problem = ""
        self._capabilities = capabilities(conf, backend)
        #: The ledger mark in the tag of the location, None until the location is marked.
        self._required_mark: str | None = None

    def check(self) -> None:
        """Verify that the group can be used, create the thin pool if it is missing, and tag the location as owned.

        Interrupted changes are completed.
        """
        self._required_mark = None
        group_setup.prepare(self._location, self.backend, self.conf)

    def ledger_marks(self) -> Mapping[str, str | None]:
        """Return the ledger mark in the tag of the location."""
        group = self._read_group(f"the ledger of backend {self.backend} cannot be read")
        return {self._name: self._location.ledger_mark(group)}

    def mark_ledger(self, mark: str) -> None:
        """Tag the location unless it has the tag of a ledger, and use it only with its tag from now on."""
        try:
            self._required_mark = self._location.mark_ledger(mark)
        except CommandFailed as error:
            raise errors.DriverError(
                f"backend {self.backend} cannot be marked with its ledger: {message_with_remedy(error)}", clean=True
            ) from error

    def report(self) -> Sequence[Mapping[str, Any]]:
        """Return the figures of the thin pool or of the group."""
        group = self._snapshot("measured")
        self._log_problem(group)
        return [self._figures(group)]

    def create(self, volume: Volume) -> None:
        """Create the logical volume; if it exists already, refresh or activate it."""
        context = self._operation_context(volume, "create")
        self._require_provisioning(volume, context)
        with self._allocation_lock:
            group = self._remove_unfinished_copy(volume, context)
            if not self._exists(group, volume, context):
                self.admit(self._figures(group), volume, volume.size_gb)
                self._run_create(volume, [self._create_command(volume)], context)

    def clone(self, volume: Volume, source: Source) -> None:
        """Create a thin volume as a snapshot, or a thick volume as a copy of its source, which must not be in use."""
        context = self._operation_context(volume, f"clone of volume {source.id}")
        self._require_provisioning(volume, context)
        if source.backend != self.backend:
            raise errors.DriverError(f"{context}: that is on another backend, {source.backend}", clean=True)
        group_name = self._location.group
        with self._allocation_lock:
            group = self._remove_unfinished_copy(volume, context)
            if self._exists(group, volume, context):
                return
            content = self._clone_source(group, source, volume, context)
            self.admit(self._figures(group), volume, volume.size_gb)
            if self._location.pool:
                larger = content.size < volume.size_gb * GIB
                commands = [
                    lvm_commands.snapshot(group_name, content.name, volume.id),
                    *([lvm_commands.extend(group_name, volume.id, volume.size_gb)] if larger else []),
                    lvm_commands.finish(group_name, volume.id),
                ]
                self._run_create(volume, commands, context)
                return
            self._run_create(volume, [lvm_commands.create_unfinished(group_name, volume.id, volume.size_gb)], context)
            self._active_copies[content.name] += 1
        try:
            # Other operations need not wait: the space is allocated.
            commands = [
                *([] if content.active else [lvm_commands.activate(group_name, content.name)]),
                *(lvm_commands.copy(group_name, content.name, volume.id, *chunk) for chunk in _chunks(content.size)),
                lvm_commands.finish(group_name, volume.id),
            ]
            self._run_create(volume, commands, context)
        finally:
            with self._allocation_lock:
                self._active_copies[content.name] -= 1

    def extend(self, volume: Volume, new_size_gb: int) -> None:
        """Extend the logical volume; if it has the size already, refresh or activate it."""
        context = self._operation_context(volume, f"extend to {new_size_gb} GiB")
        with self._allocation_lock:
            group = self._read_group(context)
            present = self._find_volume(group, volume.id, context)
            if present is None or present.unfinished:
                raise errors.NotFound(f"{context}: there is no such volume in {self._location}")
            growth_gb = -((present.size - new_size_gb * GIB) // GIB)
            if growth_gb > 0:
                self.admit(self._figures(group), volume, growth_gb)
                self._run(lvm_commands.extend(self._location.group, volume.id, new_size_gb), context)
            else:
                self._refresh_or_activate(present, context)

    def delete(self, volume: Volume) -> None:
        """Zero the logical volume, if configured, and remove it."""
        context = self._operation_context(volume, "delete")
        with self._allocation_lock:
            group = self._read_group(context)
            present = group.volumes.get(volume.id)
            if present is None or not self._location.contains(present):
                return
            if dependents := group.dependents(volume.id):
                raise errors.DriverError(
                    f"{context}: its snapshots would be gone with it; remove them first: {', '.join(dependents)}"
                )
            # Between two chunks of a copy no process has the volume open.
            if self._active_copies[volume.id]:
                raise errors.DriverError(f"{context}: it is being copied")
            if present.in_use:
                raise errors.DriverError(f"{context}: it is in use")
            self._deleting.add(volume.id)
        try:
            if present.category is Category.THICK and self.conf.volume_clear == "zero":
                self._zero_volume(present, context)
            self._run(lvm_commands.remove(self._location.group, volume.id), context)
        finally:
            with self._allocation_lock:
                self._deleting.discard(volume.id)

    def list_volumes(self) -> Sequence[StoredVolume]:
        """Return every volume in the thin pool or, for thick volumes, outside of all thin pools, without snapshots."""
        group = self._snapshot("listed")
        return [
            StoredVolume(id=volume.name, pool=self._name, size_gb=volume.size / GIB)
            for volume in group.volumes_in(self._location.pool)
        ]

    def one_look(self) -> contextlib.AbstractContextManager[bool]:
        """Take all figures and lists from one query of the group."""
        return self._snapshot_cache.snapshot()

    def manage(self, volume: Volume, reference: str) -> float:
        """Rename the logical volume ``reference``, after it is extended to whole GiB."""
        context = self._operation_context(volume, f"manage of {reference!r}")
        self._require_provisioning(volume, context)
        if not VALID_NAME.fullmatch(reference):
            raise errors.DriverError(f"{context}: that is no name of a logical volume", clean=True)
        with self._allocation_lock:
            group = self._read_group(context, clean=True)
            present = self._find_volume(group, volume.id, context)
            logical_volume = self._find_volume(group, reference, context)
            if logical_volume is not None and logical_volume.unfinished:
                logical_volume = None
            if logical_volume is not None and present is not None and logical_volume.name != present.name:
                raise errors.DriverError(f"{context}: there is a volume {volume.id} already")
            logical_volume = logical_volume or present
            if logical_volume is None:
                raise errors.DriverError(f"{context}: there is no such volume in {self._location}", clean=True)
            size_gb = -(-logical_volume.size // GIB)
            if size_gb * GIB != logical_volume.size:
                self.admit(self._figures(group), volume, (size_gb * GIB - logical_volume.size) / GIB)
                self._run(lvm_commands.extend(self._location.group, logical_volume.name, size_gb), context)
            if logical_volume.name != volume.id:
                self._run(lvm_commands.rename(self._location.group, logical_volume.name, volume.id), context)
            return float(size_gb)

    # Queries

    def _snapshot(self, operation: str) -> VolumeGroup:
        """Return the group, from the snapshot of this thread if there is one. ``operation`` is the verb in an error."""
        return self._snapshot_cache.get(
            "group", lambda: self._read_group(f"pool {self.backend}#{self._name} cannot be {operation}")
        )

    def _read_group(self, context: str, clean: bool = False) -> VolumeGroup:
        """Read the group for an operation. ``clean`` is the flag of its errors: nothing has been changed before."""
        try:
            group = self._location.read()
        except CommandFailed as error:
            raise errors.DriverError(f"{context}: {message_with_remedy(error)}", clean=clean) from error
        if not self._location.exists_in(group):
            raise errors.DriverError(
                f"{context}: there is no thin pool {self._location.group}/{self._location.pool} any more", clean=clean
            )
        if self._required_mark is not None and self._location.ledger_mark(group) != self._required_mark:
            raise errors.DriverError(
                f"{context}: {self._location} has lost its tag of the ledger, {self._required_mark} (another one of "
                "that name?), so its volumes may be elsewhere; bring them back with the tag, or restart the agent",
                clean=clean,
            )
        return group

    def _figures(self, group: VolumeGroup) -> dict[str, Any]:
        """Return the pool's report. While no volume can be created, nothing is free."""
        optional_fields: dict[str, Any] = {"lvm_volume_group": self._location.group}
        total, free = group.size, group.free
        if self._location.pool:
            pool = group.volumes[self._location.pool]
            total, free = pool.size, pool.size - pool.used
            optional_fields |= {
                "lvm_thin_pool": self._location.pool,
                "lvm_data_percent": pool.data_percent,
                "lvm_metadata_percent": pool.metadata_percent,
            }
        return {
            **self._capabilities,
            "pool_name": self._name,
            "vendor_name": "Tonnage",
            "driver_version": tonnage.__version__,
            "storage_protocol": "lvm",
            "QoS_support": False,
            "multiattach": False,
            "location_info": f"lvm:{socket.gethostname()}:{self._location.group}/{self._location.pool}",
            "thin_provisioning_support": bool(self._location.pool),
            "thick_provisioning_support": not self._location.pool,
            "total_capacity_gb": base.gib_rounded_down(total),
            "free_capacity_gb": 0.0 if group.problem else base.gib_rounded_down(free),
            "provisioned_capacity_gb": base.gib_rounded_up(group.provisioned(self._location.pool)),
            **{name: value for name, value in optional_fields.items() if value is not None},
        }

    def _log_problem(self, group: VolumeGroup) -> None:
        """Log the problem that prevents new volumes, or its end, once for each change."""
        problem = f"group {self._location.group}: {group.problem}" if group.problem else ""
        if self._location.pool and not problem:
            pool = group.volumes[self._location.pool]
            problem = "not active" if pool.data_percent is None else pool.health.replace("_", " ")
            if not problem and pool.metadata_full:
                problem = "its metadata is too full for more volumes; grow it with lvextend --poolmetadatasize"
            problem = f"{self._location}: {problem}" if problem else ""
        if problem and problem != self._logged_problem:
            LOG.warning("Backend %s: %s", self.backend, problem)
        elif self._logged_problem and not problem:
            LOG.info("Backend %s works again; its last problem was: %s", self.backend, self._logged_problem)
        self._logged_problem = problem

    def _find_volume(self, group: VolumeGroup, name: str, context: str) -> LogicalVolume | None:
        """Return the volume of this backend with that name, None if the name is free.

        Raises DriverError if another logical volume has the name.
        """
        logical_volume = group.volumes.get(name)
        if logical_volume is not None and not self._location.contains(logical_volume):
            where = f" in thin pool {logical_volume.pool}" if logical_volume.category is Category.THIN else ""
            raise errors.DriverError(
                f"{context}: {self._location.group}/{name} is {logical_volume.category.value}{where}, "
                f"none of {self._location}",
                clean=True,
            )
        return logical_volume

    def _remove_unfinished_copy(self, volume: Volume, context: str) -> VolumeGroup:
        """Remove the unfinished copy of an interrupted clone of this volume, if there is one; return the group."""
        group = self._read_group(context, clean=True)
        present = self._find_volume(group, volume.id, context)
        if present is None or not present.unfinished:
            return group
        self._run(lvm_commands.remove(self._location.group, volume.id), context)
        return self._read_group(context)

    def _exists(self, group: VolumeGroup, volume: Volume, context: str) -> bool:
        """Return whether the volume exists, and refresh or activate it."""
        present = self._find_volume(group, volume.id, context)
        if present is None:
            return False
        if present.size != volume.size_gb * GIB:
            raise errors.DriverError(
                f"{context}: a logical volume of {present.size} bytes is there, not of {volume.size_gb * GIB}"
            )
        self._refresh_or_activate(present, context)
        return True

    def _clone_source(self, group: VolumeGroup, source: Source, volume: Volume, context: str) -> LogicalVolume:
        """Return the volume to copy. Raises DriverError if it cannot be copied."""
        logical_volume = self._find_volume(group, source.id, context) if VALID_NAME.fullmatch(source.id) else None
        if logical_volume is None or logical_volume.unfinished or logical_volume.name in self._deleting:
            raise errors.DriverError(f"{context}: there is no such volume in {self._location}", clean=True)
        if logical_volume.size > volume.size_gb * GIB:
            raise errors.DriverError(
                f"{context}: its source has {logical_volume.size} bytes, more than {volume.size_gb} GiB", clean=True
            )
        if (
            logical_volume.category is Category.THICK
            and logical_volume.in_use
            and not self._active_copies[logical_volume.name]
        ):
            raise errors.DriverError(f"{context}: its source is in use, so it may be written to meanwhile", clean=True)
        return logical_volume

    # Changes

    def _create_command(self, volume: Volume) -> Sequence[str]:
        """Return the command that creates the volume."""
        if self._location.pool:
            return lvm_commands.create_thin(self._location.group, self._location.pool, volume.id, volume.size_gb)
        return lvm_commands.create_thick(self._location.group, volume.id, volume.size_gb)

    def _run_create(self, volume: Volume, commands: Iterable[Sequence[str]], context: str) -> None:
        """Run the commands that create the logical volume; after a failure remove the volume."""
        try:
            for command in commands:
                self._location.run(command)
        except CommandFailed as error:
            if not error.still_running and self._roll_back(volume.id):
                self._raise_failure(context, error, clean=True)
            self._raise_failure(context, error, clean=False)

    def _roll_back(self, name: str) -> bool:
        """Remove the remains of a failed create; return whether nothing is left."""
        try:
            present = self._location.read().volumes.get(name)
            if present is not None and self._location.contains(present):
                self._location.run(lvm_commands.remove(self._location.group, name))
        except CommandFailed as error:
            LOG.warning("Backend %s cannot remove logical volume %s: %s", self.backend, name, error.message)
            return False
        return True

    def _refresh_or_activate(self, present: LogicalVolume, context: str) -> None:
        """Make the kernel apply a change whose command was interrupted after it had changed LVM's metadata."""
        command = lvm_commands.refresh if present.active else lvm_commands.activate
        self._run(command(self._location.group, present.name), context)

    def _zero_volume(self, present: LogicalVolume, context: str) -> None:
        """Overwrite a volume, or its first part, with zeros."""
        if not present.active:
            self._run(lvm_commands.activate(self._location.group, present.name), context)
        for chunk in _chunks(min(self.conf.volume_clear_size << 20 or present.size, present.size)):
            self._run(lvm_commands.zero(self._location.group, present.name, *chunk), context)

    def _run(self, command: Sequence[str], context: str) -> None:
        try:
            self._location.run(command)
        except CommandFailed as error:
            self._raise_failure(context, error, clean=False)

    def _raise_failure(self, context: str, error: CommandFailed, clean: bool) -> NoReturn:
        message = f"{context}: {message_with_remedy(error)}"
        if clean and _OUT_OF_SPACE.search(error.message):
            raise errors.CapacityExceeded(message) from error
        raise errors.DriverError(message, clean=clean) from error

    def _require_provisioning(self, volume: Volume, context: str) -> None:
        if (volume.provisioning is Provisioning.THIN) != bool(self._location.pool):
            raise errors.DriverError(
                f"{context}: the pool makes no {volume.provisioning} volumes ([{self.conf.section_name}] lvm_type)",
                clean=True,
            )

    def _operation_context(self, volume: Volume, operation: str) -> str:
        """Return the words that errors of an operation begin with. Raises DriverError for an impossible pool or id."""
        context = f"volume {volume.id} in pool {self.backend}#{volume.pool}: {operation} failed"
        if volume.pool != self._name:
            raise errors.DriverError(f"{context}: the backend's only pool is {self._name}", clean=True)
        if not VALID_NAME.fullmatch(volume.id) or _RESERVED_NAMES.match(volume.id):
            raise errors.DriverError(f"{context}: {volume.id!r} is no name for a logical volume", clean=True)
        return context


def _chunks(size: int) -> Iterator[tuple[int, int]]:
    """Yield the chunks of ``size`` bytes, each as its offset and its length."""
    for offset in range(0, size, _CHUNK):
        yield offset, min(_CHUNK, size - offset)
