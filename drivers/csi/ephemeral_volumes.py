# SPDX-License-Identifier: Apache-2.0
"""Inline ephemeral volumes: the plugin makes one when it is published on its node, and it goes when it is no more.

For pods that is kubelet's doing. Where a backend has a folder for them the agent does it, and to the plugin each volume
is a pod of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.capacity.units import GIB
from tonnage.drivers.csi.storage_class_config import EPHEMERAL
from tonnage.drivers.options import Capabilities, Section

#: Where plugins that want pod information are told how large an inline volume is to be: a quantity, or nothing.
SIZE = "csi.storage.k8s.io/size"

_POD = "csi.storage.k8s.io/pod."
_EPHEMERAL = "csi.storage.k8s.io/ephemeral"
_NAMESPACE = "tonnage"

INLINE_OPTIONS: Sequence[cfg.Opt] = (
    cfg.StrOpt(
        "csi_ephemeral_folder",
        help="Folder in which inline ephemeral volumes are published, each under a name of its own, with "
        "csi_topology = node. Unset, the pool <ephemeral> only shows what is there.",
    ),
    cfg.BoolOpt(
        "csi_pod_info",
        default=False,
        help="Whether the plugin wants pod information, podInfoOnMount in its CSIDriver object. Only then can it be "
        f"told the size of an inline ephemeral volume, as {SIZE}.",
    ),
    cfg.Opt(
        "csi_ephemeral_attributes",
        type=Capabilities(),
        default={},
        help="What pods would say to the plugin in volumeAttributes, as a JSON object of texts. A size does not belong "
        "here: the volume has one.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A volume that is to be at ``target``. ``size`` is a quantity, None where none was given."""

    handle: str
    size: str | None
    target: str
    attributes: Mapping[str, str]

    @property
    def publish_context(self) -> dict[str, str]:
        """How large it is to be."""
        return {SIZE: self.size or ""}

    @property
    def volume_context(self) -> dict[str, str]:
        """What the plugin is told beside that."""
        pod = {"name": self.handle, "namespace": _NAMESPACE, "uid": self.handle}
        return {**self.attributes, **{f"{_POD}{key}": value for key, value in pod.items()}, _EPHEMERAL: "true"}


@dataclass(frozen=True, slots=True)
class InlinePlace:
    """Where inline volumes of a backend are published, and how."""

    folder: Path
    attributes: Mapping[str, str]

    def publication(self, handle: str, size: int) -> Publication:
        """Return what a volume of this handle, of so many bytes, is published as."""
        return Publication(
            handle=handle, size=_quantity(size), target=str(self.folder / handle), attributes=self.attributes
        )


def configured(conf: Section) -> InlinePlace | None:
    """Return where inline volumes are published as the section says, None if nowhere.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` where that cannot be.
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
    return InlinePlace(path, conf.csi_ephemeral_attributes)


def _quantity(size: int) -> str:
    return str(size) if size % GIB else f"{size // GIB}Gi"
