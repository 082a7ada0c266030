# SPDX-License-Identifier: Apache-2.0
"""What the section of a backend says of its plugin.

All functions raise :class:`~tonnage.capacity.errors.ConfigurationError` for what cannot work.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.drivers.csi import storage_class_config
from tonnage.drivers.csi.class_pools import PLACE_OPTIONS
from tonnage.drivers.csi.ephemeral_volumes import INLINE_OPTIONS
from tonnage.drivers.csi.storage_class_config import CLASS_OPTIONS, StorageClass
from tonnage.drivers.options import POOL_OPTS, Section

#: The longest path of a socket.
_LONGEST_PATH = 107

#: What the standard allows in an endpoint, as far as it is a socket of this machine.
_ENDPOINT = re.compile(r"unix:///[^\x00?#]+")

OPTIONS: Sequence[cfg.Opt] = (
    cfg.StrOpt("csi_endpoint", help="The plugin's socket: unix:///var/lib/csi/plugin.sock."),
    cfg.StrOpt(
        "csi_state_file",
        help="File to keep which volume of the plugin is which of Tonnage. Keep it as safe as the volumes.",
    ),
    cfg.ListOpt(
        "csi_storage_classes",
        default=["default"],
        help="Names of the storage classes. What is different for one stands in a section [backend:class]: "
        "csi_parameters, csi_access, csi_fs_type, csi_storage_id, reserved_percentage, extra_capabilities and "
        "others. <ephemeral> reports what is there for inline ephemeral volumes, see csi_ephemeral_folder.",
    ),
    cfg.FloatOpt(
        "csi_timeout",
        default=120.0,
        min=0.1,
        help="Seconds that making, growing or deleting a volume may take. While the plugin is away or still busy "
        "with that volume it is asked again.",
    ),
    cfg.FloatOpt(
        "csi_look_timeout",
        default=15.0,
        min=0.1,
        help="Seconds that a look at all pools, or at all volumes, may take. Pools of which nothing is known by "
        "then are not reported.",
    ),
    *PLACE_OPTIONS,
    *INLINE_OPTIONS,
    *CLASS_OPTIONS,
)


def endpoint(conf: Section) -> str:
    """Return the plugin's socket."""
    found = _needed(conf, "csi_endpoint", "the plugin's socket as unix:///path")
    if not _ENDPOINT.fullmatch(found) or len(found.removeprefix("unix://").encode()) > _LONGEST_PATH:
        raise errors.ConfigurationError(
            f"[{conf.section_name}] csi_endpoint = {found}: name a socket on this machine as unix:///path, of at most "
            f"{_LONGEST_PATH} bytes; plugins are not reached over networks"
        )
    return found


def state_file(conf: Section) -> Path:
    """Return the file that has which volume is which."""
    return Path(_needed(conf, "csi_state_file", "the file to keep in which volume is which")).absolute()


def storage_classes(conf: Section, backend: str) -> Mapping[str, StorageClass]:
    """Return the classes of a backend by their names."""
    names: list[str] = conf.csi_storage_classes
    if not names or len(set(names)) != len(names) or any(set(name) & set("/#") for name in names):
        raise errors.ConfigurationError(
            f"[{conf.section_name}] csi_storage_classes = {', '.join(names)}: at least one is needed, each once, "
            "and none with '/' or '#'"
        )
    sections = {name: conf.pool(name, (*POOL_OPTS, *CLASS_OPTIONS)) for name in names}
    return {name: storage_class_config.configured(name, section, backend) for name, section in sections.items()}


def _needed(conf: Section, name: str, meaning: str) -> str:
    value: str | None = getattr(conf, name)
    if not value:
        raise errors.ConfigurationError(f"[{conf.section_name}] {name} is not set; it names {meaning}")
    return value
