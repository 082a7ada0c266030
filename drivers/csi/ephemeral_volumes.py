# SPDX-License-Identifier: Apache-2.0
"""Inline ephemeral volumes, which a plugin creates when they are published on its node.

The plugin deletes such a volume when it is unpublished. Kubelet publishes the volumes of pods. Where a backend has a
folder for inline volumes, the agent publishes them, and to the plugin each volume is a pod of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.capacity.units import GIB
from tonnage.drivers.csi.storage_class_config import EPHEMERAL
from tonnage.drivers.options import Capabilities, Section

#: Key of the size of an inline volume, for plugins that want pod information. The value is a quantity, or empty.
SIZE_KEY = "csi.storage.k8s.io/size"

_POD_KEY_PREFIX = "csi.storage.k8s.io/pod."
_EPHEMERAL_KEY = "csi.storage.k8s.io/ephemeral"
_NAMESPACE = "tonnage"

INLINE_OPTIONS: Sequence[cfg.Opt] = (
    cfg.StrOpt(
        "csi_ephemeral_folder",
        help="Folder in which inline ephemeral volumes are published, each under a name of its own, with "
        "csi_topology = node. If unset, the pool <ephemeral> only reports its capacity.",
    ),
    cfg.BoolOpt(
        "csi_pod_info",
        default=False,
        help="Whether the plugin wants pod information, podInfoOnMount in its CSIDriver object. Only then it "
        f"receives the size of an inline ephemeral volume, as {SIZE_KEY}.",
    ),
    cfg.Opt(
        "csi_ephemeral_attributes",
        type=Capabilities(),
        default={},
        help="Attributes for the plugin, like those in the volumeAttributes of pods, as a JSON object of strings. Do "
        "not set a size here: each volume has its own.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A volume that is published at ``target``. ``size`` is a quantity of Kubernetes, None without a size."""

    handle: str
    size: str | None
    target: str
    attributes: Mapping[str, str]

    @property
    def publish_context(self) -> dict[str, str]:
        """The context with the size of the volume."""
        return {SIZE_KEY: self.size or ""}

    @property
    def volume_context(self) -> dict[str, str]:
        """The other context: the configured attributes and the pod information."""
        pod = {"name": self.handle, "namespace": _NAMESPACE, "uid": self.handle}
        return {
            **self.attributes,
            **{f"{_POD_KEY_PREFIX}{key}": value for key, value in pod.items()},
            _EPHEMERAL_KEY: "true",
        }


@dataclass(frozen=True, slots=True)
class InlineFolder:
    """The folder in which a backend publishes inline volumes, and their attributes."""

    folder: Path
    attributes: Mapping[str, str]

    def publication(self, handle: str, size: int) -> Publication:
        """Return the publication of a volume with this handle and ``size`` bytes."""
        return Publication(
            handle=handle, size=_quantity(size), target=str(self.folder / handle), attributes=self.attributes
        )


def inline_folder(conf: Section) -> InlineFolder | None:
    """Return the folder for inline volumes that the section configures, None if it has none.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` where the settings cannot work.
    """
    folder: str | None = conf.csi_ephemeral_folder
    option = f"[{conf.section_name}] csi_ephemeral_folder = {folder}"
    if not folder:
        return None
    if EPHEMERAL not in conf.csi_storage_classes:
        raise errors.ConfigurationError(f"{option}: name {EPHEMERAL} among csi_storage_classes")
    if conf.csi_topology != "node":
        raise errors.ConfigurationError(
            f"{option}: inline ephemeral volumes are made on the node of the agent; set csi_topology = node"
        )
    if not conf.csi_pod_info:
        raise errors.ConfigurationError(
            f"{option}: without pod information the plugin is not told how large volumes are to be; set csi_pod_info = "
            "true if it wants that, as its CSIDriver object says"
        )
    for key, value in conf.csi_ephemeral_attributes.items():
        if not isinstance(value, str):
            raise errors.ConfigurationError(
                f"[{conf.section_name}] csi_ephemeral_attributes: {key} is {value!r}; all values are text, so quote it"
            )
    path = Path(folder).absolute()
    if not path.is_dir():
        raise errors.ConfigurationError(f"{option}: there is no such folder")
    return InlineFolder(path, conf.csi_ephemeral_attributes)


def _quantity(size: int) -> str:
    return str(size) if size % GIB else f"{size // GIB}Gi"
