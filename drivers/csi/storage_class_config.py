# SPDX-License-Identifier: Apache-2.0
"""Storage classes, as the configuration has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.drivers.options import Capabilities, Section, capabilities

#: What Kubernetes calls the storage of inline ephemeral volumes, which have no class.
EPHEMERAL = "<ephemeral>"

#: What the sidecars of Kubernetes keep for themselves; a plugin does not see such parameters.
_SIDECARS = "csi.storage.k8s.io/"

#: What can be different for a class.
CLASS_OPTIONS: Sequence[cfg.Opt] = (
    cfg.Opt(
        "csi_parameters",
        type=Capabilities(),
        default={},
        help='Parameters of the storage class, which only the plugin understands, as a JSON object: {"copies": "2"}.',
    ),
    cfg.StrOpt(
        "csi_access",
        default="mount",
        choices=[("mount", "as a file system"), ("block", "as a block device")],
        help="How volumes of the class are used.",
    ),
    cfg.StrOpt("csi_fs_type", default="", help="File system of volumes that are mounted; unset, the plugin chooses."),
    cfg.StrOpt(
        "csi_storage_id",
        help="Name of the storage that volumes of the class are on. Classes that have them on the same disks name the "
        "same, and so do other backends that use it: what is in flight for one of them counts against all.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How volumes are made: what goes with each request for one. ``access`` is mount or block."""

    parameters: Mapping[str, str] = field(default_factory=dict)
    access: str = "mount"
    fs_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass:
    """A way of making volumes. ``wish`` is None for inline ephemeral volumes, which are not made by us."""

    name: str
    wish: Wish | None
    storage_id: str | None
    capabilities: Mapping[str, Any]


def configured(name: str, section: Section, backend: str) -> StorageClass:
    """Return a class as its section says.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` where that cannot be.
    """
    parameters: Mapping[str, Any] = section.csi_parameters
    for key, value in parameters.items():
        if not isinstance(value, str):
            raise errors.ConfigurationError(
                f"[{section.section_name}] csi_parameters: {key} is {value!r}; all values are text, so quote it"
            )
        if key.startswith(_SIDECARS):
            raise errors.ConfigurationError(
                f"[{section.section_name}] csi_parameters: {key} is for Kubernetes' own programs and never reaches a "
                "plugin; leave it out (for a file system there is csi_fs_type)"
            )
    ephemeral = name == EPHEMERAL
    if ephemeral and section.sets("csi_parameters"):
        raise errors.ConfigurationError(
            f"[{section.section_name}] csi_parameters: inline ephemeral volumes have no class and no parameters"
        )
    _refuse_what_is_asked_for(section)
    wish = Wish(parameters=parameters, access=section.csi_access, fs_type=section.csi_fs_type)
    return StorageClass(
        name=name,
        wish=None if ephemeral else wish,
        storage_id=section.csi_storage_id or None,
        capabilities=capabilities(section, backend),
    )


def _refuse_what_is_asked_for(section: Section) -> None:
    """Raise ConfigurationError where the section sets what the driver finds out by itself."""
    if section.storage_classes:
        raise errors.ConfigurationError(
            f"[{section.section_name}] storage_classes: volume_driver = csi has them from csi_storage_classes"
        )
    if section.provisioner:
        raise errors.ConfigurationError(
            f"[{section.section_name}] provisioner = {section.provisioner}: with volume_driver = csi it is the plugin, "
            "by the name that it gives itself; leave it out"
        )
    for name in ("node_name", "node_list", "topology_labels", "node_topology"):
        if section.csi_topology != "none" and getattr(section, name):
            raise errors.ConfigurationError(
                f"[{section.section_name}] {name}: with csi_topology = {section.csi_topology} the driver finds out "
                "from where storage can be reached; leave it out"
            )
