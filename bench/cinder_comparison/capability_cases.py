# SPDX-License-Identifier: Apache-2.0
"""Random cases about capabilities of pools and extra specs of volume types."""

import json
import random
from typing import Any

from cinder_comparison import case_elements
from cinder_comparison.cases import Case, CaseRequest, PoolCase

_MEDIA = ["ssd", "hdd", "SSD", "ssd nvme"]
_VALUES: list[Any] = [
    *_MEDIA,
    *(True, False, "True", "false", "yes", "no", "", 0, 1, 10, 2.5, "10", "9", "2.50", "a b", "1e3", "nan", None),
    *(
        ["iSCSI", "FC"],
        ["ssd", "hdd"],
        [1, 2],
        [],
        [True],
        [["ssd"]],
        {"ssd": True},
        {"kind": "ssd", "level": {"n": 3}},
    ),
]
_OPERATORS = ["<is>", "<in>", "<or>", "=", "==", "!=", ">=", "<=", "s==", "s!=", "s<", "s<=", "s>", "s>=", "<all-in>"]
_KEYS = ["media", "tier", "nested", "storage_protocol", "QoS_support", "replication_enabled", "IOPS"]


def _capabilities(dice: random.Random) -> dict[str, Any]:
    found = {key: dice.choice(_VALUES) for key in dice.sample(_KEYS, dice.randint(3, len(_KEYS)))}
    if "storage_protocol" in found:
        found["storage_protocol"] = dice.choice(case_elements.PROTOCOLS)
    if dice.random() < 0.6:
        found["nested"] = {"kind": dice.choice(_VALUES), "level": {"n": dice.choice(_VALUES)}}
    return found


def _words(dice: random.Random, value: Any) -> str:
    """Return an extra spec that may match the value."""
    value = dice.choice(value) if isinstance(value, list) and value else value
    word = str(dice.choice([value, value, dice.choice(_VALUES[:-5]), dice.choice(case_elements.PROTOCOLS)]))
    if dice.random() < 0.25:
        return word
    operator = dice.choice(_OPERATORS)
    if operator == "<or>":
        return dice.choice([f"<or> {word}", f"<or> x <or> {word}", f"<or> {word} <or> ssd", "<or>", f"<or> x {word}"])
    if operator == "<all-in>":
        return dice.choice([f"<all-in> {word}", "<all-in> ssd hdd", "<all-in> ssd"])
    return dice.choice(
        [f"{operator} {word}", f"{operator} {word}", f"{operator} {word} more", f" {operator}  {word} ", operator]
    )


def extra_specs(dice: random.Random) -> Case:
    """Return a case about extra specs, many of which may match."""
    pools = []
    for name in case_elements.pool_names(dice, 6):
        report = {**case_elements.consistent_report(dice, extreme=0), **_capabilities(dice)}
        report.update(case_elements.two_decimals(report))
        pools.append(PoolCase(name, "east", 7, report))
    known = dice.choice(pools).report
    specs = {}
    for _ in range(dice.choice([0, 1, 1, 1, 2, 3])):
        key = dice.choice([*_KEYS, *_KEYS, *known, "nothing"])
        value = known.get(key)
        if isinstance(value, dict) and dice.random() < 0.8:
            path = dice.choice(["kind", "level:n", "level", "kind:deeper", "none"])
            key, value = f"capabilities:{key}:{path}", value.get(path.partition(":")[0])
            value = value.get("n") if isinstance(value, dict) else value
        elif dice.random() < 0.3:
            key = f"capabilities:{key}"
        specs[key] = _words(dice, value)
    if dice.random() < 0.2:
        specs[dice.choice(["vendor:key", "provisioning:type", "capabilities", "capabilities:"])] = dice.choice(
            ["<is> False", "thin", "<in> media", "<or> thin"]
        )
    if specs.get("provisioning:type") not in (None, "thin"):
        specs["provisioning:type"] = "thick"
    return Case("CapabilitiesFilter", CaseRequest(1, extra_specs=specs), pools)


def storage_protocol(dice: random.Random) -> Case:
    """Return a case about the names of protocols in an extra spec, a query or a driver's function."""
    wanted = dice.choice([*case_elements.PROTOCOL_NAMES, *case_elements.PROTOCOL_NAMES, "ceph", "ISCSI"])
    pools = case_elements.simple_pools(dice)
    for pool in pools:
        pool.report["storage_protocol"] = dice.choice([*case_elements.PROTOCOLS, [wanted]])
    asked = dice.choices(["spec", "query", "function"], [6, 1, 3])[0]
    if asked == "query":
        query = json.dumps(["=", dice.choice(["$storage_protocol", "$capabilities.storage_protocol"]), wanted])
        return Case("JsonFilter", CaseRequest(1, hints={"query": query}), pools)
    if asked == "spec":
        key = dice.choice(["storage_protocol", "capabilities:storage_protocol"])
        spec = dice.choice([wanted, f"<or> ceph <or> {wanted}", f"<in> {wanted}", f"s== {wanted}", f"s!= {wanted}"])
        return Case("CapabilitiesFilter", CaseRequest(1, extra_specs={key: spec}), pools)
    for pool in pools:
        name, operator = dice.choice(["stats", "capabilities"]), dice.choice(["==", "!="])
        pool.report["filter_function"] = f"({name}.storage_protocol {operator} '{wanted}')"
    return Case("DriverFilter", CaseRequest(1), pools)
