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

PLACE_OPTIONS: Sequence[cfg.Opt] = (
    cfg.StrOpt(
        "csi_topology",
        default="none",
        choices=[
            ("none", "all nodes reach the same storage"),
            ("labels", "nodes with the same labels do: csi_topology_prefix, csi_nodes_file"),
            ("node", "each node has storage of its own, and a plugin and an agent for it"),
        ],
        help="From where the storage can be reached.",
    ),
    cfg.StrOpt(
        "csi_topology_prefix",
        help="What stands before the slash in the keys of the labels that tell segments apart, as the plugin's "
        "documentation has it: topology.example.com for topology.example.com/zone.",
    ),
    cfg.StrOpt(
        "csi_nodes_file",
        help="File with the nodes and their labels, as 'kubectl get nodes --output json' writes it. It is read anew "
        "for each report. Replace it as a whole.",
    ),
    cfg.StrOpt("csi_node_name", help="Name of the node, where each has its own storage. Unset, it is the host's."),
)


@dataclass(frozen=True, slots=True)
class Place:
    """A pool: volumes of one class in one segment. ``segment`` is None where the plugin is not told of any."""

    name: str
    storage_class: StorageClass
    label: str
    segment: Segment | None
    node: str | None = None

    @property
    def storage_id(self) -> str | None:
        """The storage that it draws on, as all pools there report it."""
        of_class = self.storage_class.storage_id
        return f"{of_class}/{self.label}" if of_class and self.label else of_class

    def reaches(self, segments: Sequence[Segment]) -> bool:
        """Tell whether what can be reached from these segments can be reached from here."""
        return not segments or self.segment is None or any(self.segment.contains(other) for other in segments)


class Places:
    """Knows which pools there are. ``classes`` are those of the backend, by their names."""

    def __init__(self, classes: Mapping[str, StorageClass], conf: Section, host: str) -> None:
        self._classes = classes
        labels = conf.csi_topology == "labels"
        self._prefix = self._needed(conf, "csi_topology_prefix") if labels else ""
        self._file = Path(self._needed(conf, "csi_nodes_file")) if labels else None
        self._node: str = conf.csi_node_name or host
        self._own: Segment | None = None
        #: Whether the plugin has to be asked where its node is, and whether it has to know of segments.
        self.asks_node = conf.csi_topology == "node"
        self.needs_topology = labels

    def be_at(self, segment: Segment | None) -> None:
        """Say where the node is that the plugin runs on, None if it does not say."""
        self._own = segment

    def now(self) -> list[Place]:
        """Return the pools that there are at this moment.

        Raises :class:`~tonnage.capacity.errors.DriverError` if the nodes cannot be read.
        """
        if self._file is not None:
            segments = self._segments(self._file)
            return [
                Place(f"{each.name}/{segment}", each, str(segment), segment)
                for each in self._classes.values()
                for segment in segments
            ]
        if self.asks_node:
            return [
                # Where there is nothing but inline ephemeral volumes, a plugin need not know of segments at all.
                Place(f"{each.name}/{self._node}", each, self._node, self._own if each.wish else None, self._node)
                for each in self._classes.values()
            ]
        return [Place(each.name, each, "", None) for each in self._classes.values()]

    def mark(self) -> tuple[int, ...]:
        """Return what is another when the file with the nodes is."""
        try:
            status = None if self._file is None else self._file.stat()
        except OSError:
            return ()
        return () if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)

    def knows(self, pool: str) -> bool:
        """Tell whether there can be such a pool, now or with other nodes; a class has no slash in its name."""
        return pool.partition("/")[0] in self._classes

    def _segments(self, file: Path) -> list[Segment]:
        try:
            return cluster_segments.segments(cluster_segments.read_nodes(file), self._prefix)
        except (OSError, ValueError) as error:
            raise errors.DriverError(f"csi_nodes_file = {file} cannot be read: {error}", clean=True) from error

    @staticmethod
    def _needed(conf: Section, option: str) -> str:
        value: str | None = getattr(conf, option)
        if not value:
            raise errors.ConfigurationError(f"[{conf.section_name}] csi_topology = labels needs {option}")
        return value
