# SPDX-License-Identifier: Apache-2.0
"""The pools of a backend: one for each storage class in each segment of the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.drivers.csi import cluster_segments
from tonnage.drivers.csi.cluster_segments import Segment
from tonnage.drivers.csi.storage_class_config import StorageClass
from tonnage.drivers.options import Section

TOPOLOGY_OPTIONS: Sequence[cfg.Opt] = (
    cfg.StrOpt(
        "csi_topology",
        default="none",
        choices=[
            ("none", "all nodes reach the same storage"),
            ("labels", "nodes with the same labels reach the same storage: csi_topology_prefix, csi_nodes_file"),
            ("node", "each node has its own storage, with a plugin and an agent"),
        ],
        help="The nodes from which the storage can be reached.",
    ),
    cfg.StrOpt(
        "csi_topology_prefix",
        help="Prefix, before the slash, of the keys of the labels that identify segments; see the plugin's "
        "documentation: topology.example.com for topology.example.com/zone.",
    ),
    cfg.StrOpt(
        "csi_nodes_file",
        help="File with the nodes and their labels, as 'kubectl get nodes --output json' writes it. It is read anew "
        "for each report. Replace the file in one step.",
    ),
    cfg.StrOpt("csi_node_name", help="Name of the node, if each has its own storage. Default: the host name."),
)


@dataclass(frozen=True, slots=True)
class ClassPool:
    """A pool: volumes of one storage class in one segment. ``segment`` is None where the plugin is not given any.

    ``node`` is the node whose own storage it is, ``nodes`` are the names of the nodes in its segment.
    """

    name: str
    storage_class: StorageClass
    segment_label: str
    segment: Segment | None
    node: str | None = None
    nodes: tuple[str, ...] = ()

    @property
    def storage_id(self) -> str | None:
        """The id of the pool's storage, equal in the reports of all pools on that storage."""
        class_storage_id = self.storage_class.storage_id
        return (
            f"{class_storage_id}/{self.segment_label}" if class_storage_id and self.segment_label else class_storage_id
        )

    def can_reach(self, segments: Sequence[Segment]) -> bool:
        """Return whether a volume that is accessible from these segments is accessible from the pool's segment."""
        return not segments or self.segment is None or any(self.segment.is_within(other) for other in segments)


class ClassPools:
    """The pools of a backend. ``classes`` are the backend's storage classes by name."""

    def __init__(self, classes: Mapping[str, StorageClass], conf: Section, host: str) -> None:
        self._classes = classes
        labels = conf.csi_topology == "labels"
        self._prefix = self._required(conf, "csi_topology_prefix") if labels else ""
        self._nodes_file = Path(self._required(conf, "csi_nodes_file")) if labels else None
        self._node_name: str = conf.csi_node_name or host
        self._node_segment: Segment | None = None
        #: ``per_node`` is true if the plugin has to report the segment of its node, ``needs_topology`` if it has to
        #: support segments.
        self.per_node = conf.csi_topology == "node"
        self.needs_topology = labels

    def set_node_segment(self, segment: Segment | None) -> None:
        """Set the segment of the plugin's own node, None if the plugin does not report it."""
        self._node_segment = segment

    def current(self) -> list[ClassPool]:
        """Return the current pools.

        Raises :class:`~tonnage.capacity.errors.DriverError` if the nodes cannot be read.
        """
        if self._nodes_file is not None:
            segments = self._segments(self._nodes_file)
            return [
                ClassPool(f"{storage_class.name}/{segment}", storage_class, str(segment), segment, nodes=nodes)
                for storage_class in self._classes.values()
                for segment, nodes in segments.items()
            ]
        if self.per_node:
            return [
                # A plugin with inline ephemeral volumes alone may lack support for segments.
                ClassPool(
                    f"{storage_class.name}/{self._node_name}",
                    storage_class,
                    self._node_name,
                    self._node_segment if storage_class.settings else None,
                    self._node_name,
                )
                for storage_class in self._classes.values()
            ]
        return [ClassPool(storage_class.name, storage_class, "", None) for storage_class in self._classes.values()]

    def nodes_file_version(self) -> tuple[int, ...]:
        """Return a value that changes with the file of the nodes."""
        try:
            status = None if self._nodes_file is None else self._nodes_file.stat()
        except OSError:
            return ()
        return () if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)

    def has_class_of(self, pool: str) -> bool:
        """Return whether the pool's class exists, so that the pool can exist with these or other nodes.

        The name of a class has no slash.
        """
        return pool.partition("/")[0] in self._classes

    def _segments(self, file: Path) -> dict[Segment, tuple[str, ...]]:
        try:
            return cluster_segments.segments_of_nodes(cluster_segments.read_nodes(file), self._prefix)
        except (OSError, ValueError) as error:
            raise errors.DriverError(f"csi_nodes_file = {file} cannot be read: {error}", clean=True) from error

    @staticmethod
    def _required(conf: Section, option: str) -> str:
        value: str | None = getattr(conf, option)
        if not value:
            raise errors.ConfigurationError(f"[{conf.section_name}] csi_topology = labels needs {option}")
        return value
