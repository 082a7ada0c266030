# SPDX-License-Identifier: Apache-2.0
"""Storage classes, as the configuration defines them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.drivers.options import Capabilities, Section, capabilities

#: Name of the storage class of inline ephemeral volumes, which have no class in Kubernetes.
EPHEMERAL = "<ephemeral>"

#: Prefix of the parameters for the sidecars of Kubernetes; a plugin does not receive them.
_SIDECAR_PREFIX = "csi.storage.k8s.io/"

#: Options that can differ between the classes of a backend.
CLASS_OPTIONS: Sequence[cfg.Opt] = (
    cfg.Opt(
        "csi_parameters",
        type=Capabilities(),
        default={},
        help='Parameters of the storage class, which are specific to the plugin, as a JSON object: {"copies": "2"}.',
    ),
    cfg.StrOpt(
        "csi_access",
        default="mount",
        choices=[("mount", "as a file system"), ("block", "as a block device")],
        help="Access to volumes of the class.",
    ),
    cfg.StrOpt("csi_fs_type", default="", help="File system of mounted volumes. If unset, the plugin chooses."),
    cfg.StrOpt(
        "csi_storage_id",
        help="Name of the storage of the class. Set the same name for all classes, also of other backends, whose "
        "volumes are on the same disks: the in-flight capacity of one of them then counts against all.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSettings:
    """The settings of each request for a new volume. ``access`` is mount or block."""

    parameters: Mapping[str, str] = field(default_factory=dict)
    access: str = "mount"
    fs_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass:
    """A kind of volumes. ``settings`` is None for inline ephemeral volumes, which are published instead of created."""

    name: str
    settings: VolumeSettings | None
    storage_id: str | None
    capabilities: Mapping[str, Any]


def storage_class(name: str, section: Section, backend: str) -> StorageClass:
    """Return a storage class from its section.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` where the section cannot work.
    """
    parameters: Mapping[str, Any] = section.csi_parameters
    for key, value in parameters.items():
        if not isinstance(value, str):
            raise errors.ConfigurationError(
                f"[{section.section_name}] csi_parameters: {key} is {value!r}; all values are text, so quote it"
            )
        if key.startswith(_SIDECAR_PREFIX):
            raise errors.ConfigurationError(
                f"[{section.section_name}] csi_parameters: {key} is for Kubernetes' own programs and never reaches a "
                "plugin; leave it out (for a file system there is csi_fs_type)"
            )
    ephemeral = name == EPHEMERAL
    if ephemeral and section.sets("csi_parameters"):
        raise errors.ConfigurationError(
            f"[{section.section_name}] csi_parameters: inline ephemeral volumes have no class and no parameters"
        )
    _refuse_derived_options(section)
    settings = VolumeSettings(parameters=parameters, access=section.csi_access, fs_type=section.csi_fs_type)
    return StorageClass(
        name=name,
        settings=None if ephemeral else settings,
        storage_id=section.csi_storage_id or None,
        capabilities=capabilities(section, backend),
    )


def _refuse_derived_options(section: Section) -> None:
    """Raise ConfigurationError where the section sets options that the driver derives by itself."""
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
