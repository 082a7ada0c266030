# SPDX-License-Identifier: Apache-2.0
"""The settings of a plugin in the section of its backend.

All functions raise :class:`~tonnage.capacity.errors.ConfigurationError` for settings that cannot work.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from oslo_config import cfg

from tonnage.capacity import errors, number_bounds
from tonnage.drivers.csi import storage_class_config
from tonnage.drivers.csi.class_pools import TOPOLOGY_OPTIONS
from tonnage.drivers.csi.ephemeral_volumes import INLINE_OPTIONS
from tonnage.drivers.csi.storage_class_config import CLASS_OPTIONS, StorageClass
from tonnage.drivers.options import POOL_OPTS, Section

#: The longest path of a socket, in bytes.
_MAX_PATH_BYTES = 107

#: The endpoints of the standard that are sockets of this machine.
_ENDPOINT = re.compile(r"unix:///[^\x00?#]+")

OPTIONS: Sequence[cfg.Opt] = (
    cfg.StrOpt("csi_endpoint", help="The plugin's socket: unix:///var/lib/csi/plugin.sock."),
    cfg.StrOpt(
        "csi_state_file",
        help="File that maps the plugin's volumes to those of Tonnage. Keep it as safe as the volumes.",
    ),
    cfg.ListOpt(
        "csi_storage_classes",
        default=["default"],
        help="Names of the storage classes. A section [backend:class] has the settings of one class: "
        "csi_parameters, csi_access, csi_fs_type, csi_storage_id, reserved_percentage, extra_capabilities and "
        "others. <ephemeral> reports the capacity for inline ephemeral volumes, see csi_ephemeral_folder.",
    ),
    cfg.FloatOpt(
        "csi_timeout",
        default=120.0,
        min=0.1,
        max=number_bounds.LONGEST_WAIT,
        help="Timeout in seconds for creating, extending or deleting a volume. While the plugin is away or busy "
        "with that volume, the call is retried.",
    ),
    cfg.FloatOpt(
        "csi_look_timeout",
        default=15.0,
        min=0.1,
        max=number_bounds.LONGEST_WAIT,
        help="Timeout in seconds for a query of all pools or all volumes. Pools of unknown capacity are not reported.",
    ),
    *TOPOLOGY_OPTIONS,
    *INLINE_OPTIONS,
    *CLASS_OPTIONS,
)


def endpoint(conf: Section) -> str:
    """Return the endpoint of the plugin's socket."""
    address = _required(conf, "csi_endpoint", "the plugin's socket as unix:///path")
    if not _ENDPOINT.fullmatch(address) or len(address.removeprefix("unix://").encode()) > _MAX_PATH_BYTES:
        raise errors.ConfigurationError(
            f"[{conf.section_name}] csi_endpoint = {address}: name a socket on this machine as unix:///path, of at "
            f"most {_MAX_PATH_BYTES} bytes; plugins are not reached over networks"
        )
    return address


def state_file(conf: Section) -> Path:
    """Return the path of the file that maps the plugin's volumes to those of Tonnage."""
    return Path(_required(conf, "csi_state_file", "the file to keep in which volume is which")).absolute()


def storage_classes(conf: Section, backend: str) -> Mapping[str, StorageClass]:
    """Return the storage classes of a backend by name."""
    names: list[str] = conf.csi_storage_classes
    if not names or len(set(names)) != len(names) or any(set(name) & set("/#") for name in names):
        raise errors.ConfigurationError(
            f"[{conf.section_name}] csi_storage_classes = {', '.join(names)}: at least one is needed, each once, "
            "and none with '/' or '#'"
        )
    sections = {name: conf.pool(name, (*POOL_OPTS, *CLASS_OPTIONS)) for name in names}
    return {name: storage_class_config.storage_class(name, section, backend) for name, section in sections.items()}


def _required(conf: Section, name: str, meaning: str) -> str:
    value: str | None = getattr(conf, name)
    if not value:
        raise errors.ConfigurationError(f"[{conf.section_name}] {name} is not set; it names {meaning}")
    return value
