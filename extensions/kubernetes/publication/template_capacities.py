# SPDX-License-Identifier: Apache-2.0
"""Entries for the template nodes of cluster-autoscaler.

cluster-autoscaler simulates kube-scheduler on a node that does not exist yet, made from a template of its node group.
No entry is for such a node, so no pod with volumes would fit there. The simulated node has a label of its own, and an
entry for it has the capacity of an empty node of the group.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from tonnage.capacity import errors
from tonnage.capacity.topology.node_selectors import NodeSelectorRequirement, Operator
from tonnage.extensions.kubernetes.capacity.capacity_entries import CapacityEntry
from tonnage.extensions.kubernetes.cluster import quantities

#: The label of simulated nodes. No real node has it.
TEMPLATE_LABEL = "cluster-autoscaler.kubernetes.io/template-node"


@dataclass(frozen=True, slots=True)
class TemplateCapacity:
    """The capacity in bytes of an empty node with these labels, for a storage class."""

    storage_class: str
    capacity: int
    labels: tuple[tuple[str, str], ...] = ()


def parse(lines: Iterable[str]) -> list[TemplateCapacity]:
    """Return the capacities of lines such as ``fast 100Gi pool=a``: class, size, labels of the node group.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError`.
    """
    capacities = []
    for line in lines:
        words = line.split()
        storage_class, size, labels = "".join(words[:1]), "".join(words[1:2]), words[2:]
        try:
            capacity = quantities.parse(size)
        except ValueError as error:
            raise _error(line, str(error)) from None
        pairs = [label.partition("=") for label in labels]
        if not all(key and separator and value for key, separator, value in pairs):
            raise _error(line, "a label has the form key=value")
        capacities.append(TemplateCapacity(storage_class, capacity, tuple((key, value) for key, _, value in pairs)))
    return capacities


def _error(line: str, problem: str) -> errors.ConfigurationError:
    return errors.ConfigurationError(
        f"option [kubernetes] template_node_capacity = {line}: {problem}; expected a storage class, a size and labels, "
        "as in fast 100Gi pool=a"
    )


def build_entries(capacities: Sequence[TemplateCapacity], provisioners: Mapping[str, str]) -> dict[str, CapacityEntry]:
    """Return the entries by name. ``provisioners`` are those of the storage classes; other classes have none."""
    entries = {}
    for template in capacities:
        if template.storage_class in provisioners:
            labels = ((TEMPLATE_LABEL, "true"), *template.labels)
            selector = tuple(
                NodeSelectorRequirement(key=key, operator=Operator.IN, values=(value,)) for key, value in labels
            )
            content = msgspec.json.encode([template.storage_class, selector])
            name = f"tonnage-template-{hashlib.sha256(content).hexdigest()[:32]}"
            driver = provisioners[template.storage_class]
            entries[name] = CapacityEntry(driver, template.storage_class, selector, template.capacity, None)
    return entries
