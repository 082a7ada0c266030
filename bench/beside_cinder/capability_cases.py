# SPDX-License-Identifier: Apache-2.0
"""Random cases about what pools are capable of, and what types ask of that."""

import json
import random
from typing import Any

from beside_cinder import parts
from beside_cinder.cases import Case, PoolCase, Wish

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
        found["storage_protocol"] = dice.choice(parts.PROTOCOLS)
    if dice.random() < 0.6:
        found["nested"] = {"kind": dice.choice(_VALUES), "level": {"n": dice.choice(_VALUES)}}
    return found


def _words(dice: random.Random, value: Any) -> str:
    """Return a spec that has a chance to fit that value."""
    value = dice.choice(value) if isinstance(value, list) and value else value
    word = str(dice.choice([value, value, dice.choice(_VALUES[:-5]), dice.choice(parts.PROTOCOLS)]))
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


def typed(dice: random.Random) -> Case:
    """Return a case about extra specs, many of which have a chance to fit."""
    pools = []
    for name in parts.names(dice, 6):
        report = {**parts.sound(dice, extreme=0), **_capabilities(dice)}
        report.update(parts.two_decimals(report))
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
    return Case("CapabilitiesFilter", Wish(1, extra_specs=specs), pools)


def by_protocol(dice: random.Random) -> Case:
    """Return a case about nothing but the names of protocols: a spec, a query or the function of a driver."""
    wanted = dice.choice([*parts.SPELLED, *parts.SPELLED, "ceph", "ISCSI"])
    pools = parts.plain(dice)
    for pool in pools:
        pool.report["storage_protocol"] = dice.choice([*parts.PROTOCOLS, [wanted]])
    asked = dice.choices(["spec", "query", "function"], [6, 1, 3])[0]
    if asked == "query":
        query = json.dumps(["=", dice.choice(["$storage_protocol", "$capabilities.storage_protocol"]), wanted])
        return Case("JsonFilter", Wish(1, hints={"query": query}), pools)
    if asked == "spec":
        key = dice.choice(["storage_protocol", "capabilities:storage_protocol"])
        spec = dice.choice([wanted, f"<or> ceph <or> {wanted}", f"<in> {wanted}", f"s== {wanted}", f"s!= {wanted}"])
        return Case("CapabilitiesFilter", Wish(1, extra_specs={key: spec}), pools)
    for pool in pools:
        name, operator = dice.choice(["stats", "capabilities"]), dice.choice(["==", "!="])
        pool.report["filter_function"] = f"({name}.storage_protocol {operator} '{wanted}')"
    return Case("DriverFilter", Wish(1), pools)
