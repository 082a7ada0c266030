# SPDX-License-Identifier: Apache-2.0
"""How a backend of the ``lvm`` driver comes to have its place: from the configuration, and made ready at start."""

import os
import shlex
import time
from collections.abc import Sequence

from oslo_config import cfg
from oslo_log import log as logging

from tonnage.capacity import errors
from tonnage.capacity.units import GIB
from tonnage.drivers.command_runner import CommandFailed, Runner
from tonnage.drivers.lvm import lvm_commands
from tonnage.drivers.lvm.volume_group import Group, Kind
from tonnage.drivers.lvm.volume_location import NAME, Place, advised, marks
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
            ("thin", "thin volumes in a thin pool, which is made if it is missing"),
            ("auto", "thin if the group has the thin pool, or nothing at all; else default"),
        ],
        help="How volumes are made.",
    ),
    cfg.StrOpt(
        "lvm_thin_pool",
        help="Name of the thin pool for thin volumes. Unset, it is that of the group followed by '-pool'. Several "
        "backends may use one group, each with a thin pool of its own.",
    ),
    cfg.StrOpt(
        "volume_clear",
        default="zero",
        choices=[("none", "leave it"), ("zero", "overwrite it with zeros")],
        help="What is done with the content of a thick volume before it is deleted. Thin volumes need nothing: "
        "a thin pool gives out zeroed space.",
    ),
    cfg.IntOpt(
        "volume_clear_size",
        default=0,
        min=0,
        help="How much of a volume is cleared, in MiB from its beginning; 0 means all of it.",
    ),
    cfg.StrOpt(
        "lvm_root_helper",
        help="Command line that gives the rights of root to the command after it; empty for none. Unset, it is "
        "'sudo -n' unless the agent runs as root.",
    ),
    cfg.IntOpt(
        "lvm_command_timeout",
        default=120,
        min=1,
        help="Seconds that one command may take. Zeroing a volume is a command for each GiB.",
    ),
)


def place_of(conf: Section) -> Place:
    """Return the place that a backend's section names. Raises ConfigurationError."""
    group = _configured(conf, "volume_group", conf.volume_group)
    thin_pool = _configured(conf, "lvm_thin_pool", _thin_pool(conf))
    helper = conf.lvm_root_helper
    if helper is None:
        helper = "" if os.geteuid() == 0 else "sudo -n"
    try:
        runner = Runner(shlex.split(helper), conf.lvm_command_timeout)
    except ValueError as error:
        raise errors.ConfigurationError(
            f"[{conf.section_name}] lvm_root_helper = {helper}: {error}; it is split at blanks as a shell would"
        ) from error
    # For auto, which of the two it is will be known when the group was looked at.
    return Place(runner, group, "" if conf.lvm_type == "default" else thin_pool)


def prepare(place: Place, backend: str, conf: Section) -> None:
    """See that the group can be used, make the thin pool if it is missing, and mark the one or the other as its own.

    What was interrupted in the middle of a change is brought up. Raises ConfigurationError.
    """
    option = f"[{conf.section_name}] volume_group = {place.group}"
    group = _first_look(place, option)
    if GIB % group.extent:
        raise errors.ConfigurationError(
            f"{option}: its extents have {group.extent} bytes, so no volume can have whole GiB; use a group made "
            "with an extent size that is a power of two up to 1 GiB"
        )
    try:
        if conf.lvm_type == "auto":
            thin_pool = _thin_pool(conf)
            place.pool = thin_pool if _is_for_thin(group, thin_pool) else ""
            LOG.info("Backend %s has its volumes in %s (lvm_type = auto)", backend, place)
        if place.pool:
            group = _check_pool(place, group, option)
        remedy = place.claim(backend, group)
        for volume in group.inside(place.pool):
            if volume.half_done and remedy is None:
                LOG.info("Bringing up volume %s of %s after an interrupted change", volume.name, place)
                place.run(lvm_commands.refresh(place.group, volume.name))
        for volume in group.unfinished(place.pool) if remedy is None else ():
            _remove_unfinished(place, volume.name, conf.lvm_command_timeout)
    except CommandFailed as error:
        raise errors.ConfigurationError(f"{option}: {place} cannot be used: {advised(error)}") from error
    if remedy is not None:
        raise errors.ConfigurationError(
            f"{option}: {place} belongs to another backend by its tag, and {backend} needs one of its "
            f"own; if that backend is gone for good or was renamed, remove the tag: {remedy}"
        )


def _remove_unfinished(place: Place, name: str, patience: float) -> None:
    """Remove a copy that was broken off. The command that copies may have outlived the agent, so wait for its end."""
    LOG.info("Removing %s of %s, into which something was copied when the agent ended", name, place)
    deadline = time.monotonic() + patience
    while True:
        try:
            place.run(lvm_commands.remove(place.group, name))
        except CommandFailed as error:
            if "in use" in error.message and time.monotonic() < deadline:
                time.sleep(1)
                continue
            LOG.warning("%s of %s stays until the next start, or is copied again: %s", name, place, error.message)
        return


def _thin_pool(conf: Section) -> str:
    name: str = conf.lvm_thin_pool or f"{conf.volume_group}-pool"
    return name


def _configured(conf: Section, option: str, name: str | None) -> str:
    """Return the name if LVM takes it."""
    if not name:
        raise errors.ConfigurationError(
            f"[{conf.section_name}] {option} is not set; it names the volume group for the volumes"
        )
    if not NAME.fullmatch(name):
        raise errors.ConfigurationError(f"[{conf.section_name}] {option}: {name!r} is no name for LVM")
    return name


def _first_look(place: Place, option: str) -> Group:
    try:
        return place.read()
    except CommandFailed as error:
        way_out = (
            "install LVM (package lvm2) and sudo, or set lvm_root_helper"
            if error.missing
            else (
                "name a group that exists" if "not found" in error.message else "see that it can be read by this user"
            )
        )
        raise errors.ConfigurationError(f"{option}: {advised(error)}; {way_out}") from error


def _is_for_thin(group: Group, thin_pool: str) -> bool:
    """Decide ``auto``. A group that was marked for thick volumes stays so when it is empty again."""
    found = group.volumes.get(thin_pool)
    if found is not None:
        return found.kind is Kind.THIN_POOL
    return not group.volumes and not marks(group.tags)


def _check_pool(place: Place, group: Group, option: str) -> Group:
    """Make the thin pool if it is missing, see that it works, and return the group with it."""
    found = group.volumes.get(place.pool)
    if found is None:
        LOG.info("Making thin pool %s in group %s", place.pool, place.group)
        place.run(lvm_commands.create_pool(place.group, place.pool))
    elif found.kind is not Kind.THIN_POOL:
        raise errors.ConfigurationError(
            f"{option}: {place.pool} in it is {found.kind.value}, no thin pool; rename or remove it, or set "
            "lvm_thin_pool to another name"
        )
    elif not found.active:
        place.run(lvm_commands.activate(place.group, place.pool))
    group = place.read()
    if not place.is_in(group):
        raise errors.ConfigurationError(f"{option}: thin pool {place.pool} was made in it and is not there")
    if not group.volumes[place.pool].zeroes:
        LOG.warning(
            "Thin pool %s/%s does not zero what it gives out, so volumes can show what others have deleted; "
            "change that with: lvchange --zero y %s/%s",
            *(place.group, place.pool, place.group, place.pool),
        )
    return group
