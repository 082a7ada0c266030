#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of node fit: the time to find the nodes with room for several volumes together.

It is compared with a check of each volume alone. Each node has a pool for each storage class; two classes share disks.
A pod has one volume of each class, and a second volume of the first class::

    python bench/joint_fit.py
    python bench/joint_fit.py --nodes 20000 --classes 8 --json

Times are milliseconds of one call for all nodes, as medians of wall-clock time and of processor time, which depends
least on other work on the machine. With ``several pools`` each class has two pools on each node, so that the volumes
have a choice. ``with reasons`` includes the reason for each refused node. ``first call`` computes the pools that each
node can reach, which are cached until nodes or topologies change.

Exit status: 0; 1 if the check of each volume alone refused a node that has room for all of them together.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tonnage.capacity import type_conversion
from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.extensions.kubernetes.capacity import pool_columns
from tonnage.extensions.kubernetes.capacity.claim_sums import ClaimSums
from tonnage.extensions.kubernetes.capacity.driver_storage import Driver, Pool, Storage
from tonnage.extensions.kubernetes.capacity.node_accessibility import AccessibilityCache
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit import node_decision
from tonnage.extensions.kubernetes.fit.node_decision import Decision
from tonnage.extensions.kubernetes.fit.refusal_reasons import RefusalReasons

GI = 2**30
HOST = "kubernetes.io/hostname"
DRIVER = "disk.example.com"


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--classes", type=int, default=4)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--json", action="store_true", help="print one line of JSON and no table")
    return parser.parse_args(words)


def cluster(nodes: int, classes: int, pools: int) -> pool_columns.PoolColumns:
    """Return a driver with ``pools`` pools of 5 to 50 Gi for each class on each node."""
    random = np.random.default_rng(7)
    storage = []
    for number in range(classes):
        sizes = random.integers(5, 50, size=(nodes, pools)).tolist()
        here = [
            Pool(
                name=f"node-{node}-{place}",
                node_topology=_only(f"node-{node}"),
                capacity=sizes[node][place] * GI,
                backing_id=f"node-{node}-{place}" if number < 2 else None,
            )
            for node in range(nodes)
            for place in range(pools)
        ]
        storage.append(Storage(f"class-{number}", tuple(here)))
    return pool_columns.from_driver(Driver(name=DRIVER, uid="bench", version=1, tracking=True, storage=tuple(storage)))


def _only(node: str) -> NodeSelector:
    expression = {"key": HOST, "operator": "In", "values": [node]}
    return type_conversion.convert({"nodeSelectorTerms": [{"matchExpressions": [expression]}]}, NodeSelector)


def measure(driver: pool_columns.PoolColumns, nodes: Nodes, classes: int, calls: int) -> dict[str, Any]:
    """Return the figures of one cluster."""
    volumes = [Volume(f"v{number}", DRIVER, f"class-{number}", 12 * GI) for number in range(classes)]
    volumes.append(Volume("again", DRIVER, "class-0", 12 * GI))
    accessibility = AccessibilityCache()

    def decide(asked: Sequence[Volume]) -> Decision:
        return node_decision.decide(
            {DRIVER: driver}, {DRIVER: driver.packing_pools(0, ClaimSums())}, 0, asked, nodes, accessibility
        )

    def told() -> None:
        found = decide(volumes)
        reasons = RefusalReasons(found)
        for row in np.nonzero(~found.packing.fits)[0].tolist():
            reasons.reason(row)

    began = time.process_time()
    decide(volumes)
    first = time.process_time() - began
    together = decide(volumes).packing.fits
    alone = np.logical_and.reduce([decide([one]).packing.fits for one in volumes])
    return {
        "joint_ms": _median(lambda: decide(volumes), calls),
        "alone_ms": _median(lambda: [decide([one]) for one in volumes], calls),
        "with_reasons_ms": _median(told, max(3, calls // 10)),
        "first_call_ms": round(first * 1000, 2),
        "nodes_joint": int(together.sum()),
        "nodes_alone": int(alone.sum()),
        "wrong": int((together & ~alone).sum()),
    }


def _median(call: Callable[[], object], calls: int) -> dict[str, float]:
    wall, processor = [], []
    for _ in range(calls):
        began = time.perf_counter(), time.process_time()
        call()
        wall.append(time.perf_counter() - began[0])
        processor.append(time.process_time() - began[1])
    return {"wall": round(statistics.median(wall) * 1000, 2), "cpu": round(statistics.median(processor) * 1000, 2)}


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = arguments(words)
    nodes = Nodes([Node(f"node-{each}", {HOST: f"node-{each}"}) for each in range(options.nodes)])
    found = {}
    for name, pools in (("one pool", 1), ("several pools", 2)):
        print(f"... {name} of each class on each node", file=sys.stderr, flush=True)
        driver = cluster(options.nodes, options.classes, pools)
        found[name] = measure(driver, nodes, options.classes, options.calls)
    if options.json:
        print(json.dumps({"nodes": options.nodes, "classes": options.classes, **found}))
    else:
        print(f"{options.nodes} nodes, {options.classes} classes, {options.classes + 1} volumes; milliseconds")
        for name, each in found.items():
            joint, alone, told = (each[key] for key in ("joint_ms", "alone_ms", "with_reasons_ms"))
            print(
                f"{name}: together {joint['wall']} (cpu {joint['cpu']}), {each['nodes_joint']} nodes take them; "
                f"each alone {alone['wall']} (cpu {alone['cpu']}), {each['nodes_alone']} nodes; "
                f"with reasons {told['wall']} (cpu {told['cpu']}); first call cpu {each['first_call_ms']}"
            )
    return 1 if any(each["wrong"] for each in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
