# SPDX-License-Identifier: Apache-2.0
"""The location of a backend of the ``lvm`` driver: its configuration, and its preparation at start."""

import os
import shlex
import time
from collections.abc import Sequence

from oslo_config import cfg
from oslo_log import log as logging

from tonnage.capacity import errors, number_bounds
from tonnage.capacity.units import GIB
from tonnage.drivers.command_runner import CommandFailed, CommandRunner
from tonnage.drivers.lvm import lvm_commands
from tonnage.drivers.lvm.volume_group import Category, VolumeGroup
from tonnage.drivers.lvm.volume_location import VALID_NAME, VolumeLocation, message_with_remedy, owner_tags
from tonnage.drivers.options import Section

LOG = logging.getLogger(__name__)

#: The driver's options.
OPTIONS: Sequence[cfg.Opt] = (
    cfg.StrOpt("volume_group", help="Name of the volume group for the volumes. It has to exist."),
    cfg.StrOpt(
        "lvm_type",
        default="auto",
        choices=[
            ("default", "thick volumes, anywhere in the group"),
            ("thin", "thin volumes in a thin pool, which is created if it is missing"),
            ("auto", "thin if the group has the thin pool, or is empty; else default"),
        ],
        help="Provisioning of volumes.",
    ),
    cfg.StrOpt(
        "lvm_thin_pool",
        help="Name of the thin pool for thin volumes. Default: the name of the group followed by '-pool'. "
        "Several backends may use one group, each with a thin pool of its own.",
    ),
    cfg.StrOpt(
        "volume_clear",
        default="zero",
        choices=[("none", "keep it"), ("zero", "overwrite it with zeros")],
        help="Treatment of the content of a thick volume before it is deleted. Thin volumes need none: a thin pool "
        "zeroes its blocks before use.",
    ),
    cfg.IntOpt(
        "volume_clear_size",
        default=0,
        min=0,
        help="Size of the part of a volume that is cleared, in MiB from its beginning; 0 means all of it.",
    ),
    cfg.StrOpt(
        "lvm_root_helper",
        help="Command line that runs the command after it as root; empty for none. Default: 'sudo -n' unless the agent "
        "runs as root.",
    ),
    cfg.IntOpt(
        "lvm_command_timeout",
        default=120,
        min=1,
        max=number_bounds.LONGEST_WAIT,
        help="Timeout in seconds for one command. Zeroing a volume takes one command for each GiB.",
    ),
)


def configured_location(conf: Section) -> VolumeLocation:
    """Return the location that a backend's section names. Raises ConfigurationError."""
    group = _required_name(conf, "volume_group", conf.volume_group)
    thin_pool = _required_name(conf, "lvm_thin_pool", _thin_pool_name(conf))
    helper = conf.lvm_root_helper
    if helper is None:
        helper = "" if os.geteuid() == 0 else "sudo -n"
    try:
        runner = CommandRunner(shlex.split(helper), conf.lvm_command_timeout)
    except ValueError as error:
        raise errors.ConfigurationError(
            f"[{conf.section_name}] lvm_root_helper = {helper}: {error}; it is split at blanks as a shell would"
        ) from error
    # For auto, the check decides between the two after it has read the group.
    return VolumeLocation(runner, group, "" if conf.lvm_type == "default" else thin_pool)


def prepare(location: VolumeLocation, backend: str, conf: Section) -> None:
    """Verify that the group can be used, create the thin pool if it is missing, and tag the location as owned.

    Interrupted changes are completed. Raises ConfigurationError.
    """
    option = f"[{conf.section_name}] volume_group = {location.group}"
    group = _read_group(location, option)
    if GIB % group.extent:
        raise errors.ConfigurationError(
            f"{option}: its extents have {group.extent} bytes, so no volume can have whole GiB; use a group made "
            "with an extent size that is a power of two up to 1 GiB"
        )
    try:
        if conf.lvm_type == "auto":
            thin_pool = _thin_pool_name(conf)
            location.pool = thin_pool if _uses_thin_pool(group, thin_pool) else ""
            LOG.info("Backend %s has its volumes in %s (lvm_type = auto)", backend, location)
        if location.pool:
            group = _check_pool(location, group, option)
        remedy = location.claim(backend, group)
        for volume in group.volumes_in(location.pool):
            if volume.change_interrupted and remedy is None:
                LOG.info("Refreshing volume %s in %s after an interrupted change", volume.name, location)
                location.run(lvm_commands.refresh(location.group, volume.name))
        for volume in group.unfinished_in(location.pool) if remedy is None else ():
            _remove_unfinished(location, volume.name, conf.lvm_command_timeout)
    except CommandFailed as error:
        raise errors.ConfigurationError(f"{option}: {location} cannot be used: {message_with_remedy(error)}") from error
    if remedy is not None:
        raise errors.ConfigurationError(
            f"{option}: {location} belongs to another backend by its tag, and {backend} needs one of its "
            f"own; if that backend is gone for good or was renamed, remove the tag: {remedy}"
        )


def _remove_unfinished(location: VolumeLocation, name: str, timeout: float) -> None:
    """Remove an unfinished copy.

    The command that copies may have outlived the agent, so wait up to ``timeout`` seconds for its end.
    """
    LOG.info("Removing unfinished copy %s in %s, which an interrupted clone left", name, location)
    deadline = time.monotonic() + timeout
    while True:
        try:
            location.run(lvm_commands.remove(location.group, name))
        except CommandFailed as error:
            if "in use" in error.message and time.monotonic() < deadline:
                time.sleep(1)
                continue
            LOG.warning(
                "Unfinished copy %s in %s stays until the next start or clone: %s", name, location, error.message
            )
        return


def _thin_pool_name(conf: Section) -> str:
    name: str = conf.lvm_thin_pool or f"{conf.volume_group}-pool"
    return name


def _required_name(conf: Section, option: str, name: str | None) -> str:
    """Return the name. Raises ConfigurationError if it is missing or not a valid name of LVM."""
    if not name:
        raise errors.ConfigurationError(
            f"[{conf.section_name}] {option} is not set; it names the volume group for the volumes"
        )
    if not VALID_NAME.fullmatch(name):
        raise errors.ConfigurationError(f"[{conf.section_name}] {option}: {name!r} is no name for LVM")
    return name


def _read_group(location: VolumeLocation, option: str) -> VolumeGroup:
    try:
        return location.read()
    except CommandFailed as error:
        way_out = (
            "install LVM (package lvm2) and sudo, or set lvm_root_helper"
            if error.missing
            else (
                "name a group that exists" if "not found" in error.message else "see that it can be read by this user"
            )
        )
        raise errors.ConfigurationError(f"{option}: {message_with_remedy(error)}; {way_out}") from error


def _uses_thin_pool(group: VolumeGroup, thin_pool: str) -> bool:
    """Return the decision of ``auto``: a group that was tagged for thick volumes stays so when it is empty again."""
    logical_volume = group.volumes.get(thin_pool)
    if logical_volume is not None:
        return logical_volume.category is Category.THIN_POOL
    return not group.volumes and not owner_tags(group.tags)


def _check_pool(location: VolumeLocation, group: VolumeGroup, option: str) -> VolumeGroup:
    """Create the thin pool if it is missing, verify that it works, and return the group with it."""
    logical_volume = group.volumes.get(location.pool)
    if logical_volume is None:
        LOG.info("Creating thin pool %s in group %s", location.pool, location.group)
        location.run(lvm_commands.create_pool(location.group, location.pool))
    elif logical_volume.category is not Category.THIN_POOL:
        raise errors.ConfigurationError(
            f"{option}: {location.pool} in it is {logical_volume.category.value}, no thin pool; rename or remove it, "
            "or set lvm_thin_pool to another name"
        )
    elif not logical_volume.active:
        location.run(lvm_commands.activate(location.group, location.pool))
    group = location.read()
    if not location.exists_in(group):
        raise errors.ConfigurationError(f"{option}: thin pool {location.pool} was made in it and is not there")
    if not group.volumes[location.pool].zeroes:
        LOG.warning(
            "Thin pool %s/%s does not zero new blocks, so volumes can show the data of deleted ones; "
            "change that with: lvchange --zero y %s/%s",
            *(location.group, location.pool, location.group, location.pool),
        )
    return group
