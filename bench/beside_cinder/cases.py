# SPDX-License-Identifier: Apache-2.0
"""Random cases: a request, and pools as drivers report them, most of them sound and some of them not."""

import json
import random
import uuid
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field
from typing import Any

from beside_cinder import expressions

STANDARD, CINDER = "standard", "cinder"
WEIGHERS = "weighers"

ZONES = ["east", "west"]
_PLACES = [f"h{host}@b{backend}#p{pool}" for host in (1, 2, 3) for backend in (1, 2) for pool in (1, 2, 3)]

_WITH_VOLUMES = [place for place in _PLACES if not place.endswith("3")]

#: Volumes that there are, by id, and the pool of each; there are pools without one.
VOLUMES = {str(uuid.UUID(int=number, version=4)): _WITH_VOLUMES[number * 7 % 12] for number in range(30)}
_NO_VOLUME = str(uuid.UUID(int=1000, version=4))

#: Volumes of another project than the one that asks, and the pool of each.
FOREIGN = {str(uuid.UUID(int=1100 + number, version=4)): _WITH_VOLUMES[number] for number in range(3)}

#: Instances and the hosts that they run on; one of which nobody may know the host.
INSTANCES = {str(uuid.UUID(int=2000 + number, version=4)): f"h{number}" for number in (1, 2, 9)}
_NO_INSTANCE = str(uuid.UUID(int=2100, version=4))


@dataclass(frozen=True, slots=True)
class PoolCase:
    """A pool: what its driver reports, what was allocated by then, and the sizes of volumes placed there since."""

    name: str
    zone: str
    allocated: int
    report: dict[str, Any]
    placed: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Wish:
    """A request. ``new_size`` is that of a volume that grows from ``size``, 0 where one is new."""

    size: int
    new_size: int = 0
    extra_specs: dict[str, str] = field(default_factory=dict)
    qos_specs: dict[str, str] = field(default_factory=dict)
    zone: str | None = None
    hints: dict[str, Any] = field(default_factory=dict)
    attempted: list[str] = field(default_factory=list)

    @property
    def takes(self) -> int:
        """The GiB that a pool would take on."""
        return self.new_size - self.size if self.new_size else self.size


@dataclass(frozen=True, slots=True)
class Case:
    """One question to both: ``plugin`` is the name of a filter here, or ``weighers``, which have multipliers."""

    plugin: str
    request: Wish
    pools: list[PoolCase]
    calculation: str = STANDARD
    ratio: float | str = 20.0
    weighers: dict[str, float] = field(default_factory=dict)


def draw(number: int, seed: int) -> Iterator[Case]:
    """Yield so many cases, the same ones for the same seed."""
    dice = random.Random(seed)
    kinds, shares = zip(*_KINDS, strict=True)
    for kind in dice.choices(kinds, shares, k=number):
        yield kind(dice)


def _names(dice: random.Random, most: int) -> list[str]:
    return dice.sample(_PLACES, dice.randint(1, most))


def _figure(dice: random.Random, low: float, high: float) -> float:
    """Return a number as drivers report them: whole, or with two decimals, or with what a division left."""
    number = dice.uniform(low, high)
    kind = dice.random()
    return round(number) if kind < 0.5 else round(number, 2) if kind < 0.9 else number


def _sound(dice: random.Random, *, extreme: float) -> dict[str, Any]:
    """Return a report with figures that fit together, more or less, for any share of extremes."""
    # A hundred and its like show best how a share of them is rounded.
    total = dice.choice([100, 200, 1000]) if dice.random() < 0.15 else _figure(dice, 0, dice.choice(_LARGEST))
    free = min(_figure(dice, 0, total), total)
    report: dict[str, Any] = {"total_capacity_gb": total, "free_capacity_gb": free}
    if dice.random() < 0.85:
        report["provisioned_capacity_gb"] = _figure(dice, 0, total * dice.choice([0.5, 1, 3, 20]))
    if dice.random() < 0.8:
        report["reserved_percentage"] = dice.choice([0, 0, 5, 7, 10, 29, 29, 57, 58, dice.randint(0, 100)])
    if dice.random() < 0.7:
        some = round(dice.uniform(1, 5), dice.choice([0, 1, 2]))
        report["max_over_subscription_ratio"] = dice.choice(["auto", 1.0, 1.5, 2, 20.0, some])
    thin, thick = dice.choice([(True, False), (True, False), (True, True), (False, True), (False, False)])
    for key, value in (("thin_provisioning_support", thin), ("thick_provisioning_support", thick)):
        if value or dice.random() < 0.5:
            report[key] = value
    if dice.random() < extreme:
        report.update(dice.choice(_EXTREMES)(dice, total))
    return report


def _two_decimals(report: dict[str, Any]) -> dict[str, Any]:
    return {key: round(value, 2) for key, value in report.items() if type(value) is float}


_LARGEST = [20, 200, 2000, 100_000]

_EXTREMES: list[Callable[[random.Random, float], dict[str, Any]]] = [
    lambda dice, total: {"free_capacity_gb": dice.choice(["unknown", "infinite"])},
    lambda dice, total: {"total_capacity_gb": dice.choice(["unknown", "infinite"])},
    lambda dice, total: {"total_capacity_gb": "unknown", "free_capacity_gb": "unknown"},
    lambda dice, total: {"free_capacity_gb": total + dice.choice([1, 2, dice.randint(1, 100)])},
    lambda dice, total: {"free_capacity_gb": total + 1, "max_over_subscription_ratio": "auto"},
    lambda dice, total: {"free_capacity_gb": 0},
    lambda dice, total: {"total_capacity_gb": 0},
    lambda dice, total: {"reserved_percentage": 100},
    lambda dice, total: {"provisioned_capacity_gb": 0},
    lambda dice, total: {"max_over_subscription_ratio": dice.choice([0, 0.5, 0.99, -1])},
]


def _spoiled(dice: random.Random, report: dict[str, Any]) -> None:
    """Put something into a report that does not belong there, or leave out what does."""
    key = dice.choice(
        [
            "total_capacity_gb",
            "free_capacity_gb",
            "provisioned_capacity_gb",
            "reserved_percentage",
            "max_over_subscription_ratio",
            "thin_provisioning_support",
        ]
    )
    value = dice.choice([None, None, "much", str(report.get(key, 10)), -5, True, "True", [], "missing"])
    if value == "missing":
        report.pop(key, None)
    else:
        report[key] = value


def _provisioning(dice: random.Random) -> dict[str, str]:
    if dice.random() < 0.6:
        return {}
    return {"provisioning:type": dice.choices(["thin", "thick", " Thick", "THIN", "fat"], [45, 45, 4, 3, 3])[0]}


def _capacity(dice: random.Random) -> Case:
    calculation, ratio = dice.choice([STANDARD, CINDER]), dice.choice([20.0, 1.0, 1.7, "auto"])
    specs = _provisioning(dice)
    pools = []
    for name in _names(dice, 4):
        report = _sound(dice, extreme=0.15)
        allocated = dice.choice([0, round(dice.uniform(0, 200))])
        placed = [dice.randint(1, 50) for _ in range(dice.choice([0, 0, 0, 1, 3]))]
        if dice.random() < 0.04:
            _spoiled(dice, report)
        pools.append(PoolCase(name, "east", allocated, report, placed))
    size = dice.randint(1, 200) if dice.random() < 0.5 else max(1, _near_a_limit(dice, pools[0], calculation))
    # A volume that grows by as much as another one has is the same to either.
    before = dice.choice([0, 0, 0, dice.randint(1, 100)])
    wish = Wish(before or size, before + size if before else 0, extra_specs=specs)
    return Case("CapacityFilter", wish, pools, calculation, ratio)


def _near_a_limit(dice: random.Random, pool: PoolCase, calculation: str) -> int:
    """Change a pool so that one of its limits is a size, to a GiB or exactly, and return that size."""
    report = pool.report
    total, free, ratio = map(report.get, ("total_capacity_gb", "free_capacity_gb", "max_over_subscription_ratio"))
    percentage = report.get("reserved_percentage", 0)
    if not all(type(value) in (int, float) for value in (total, free, ratio, percentage)):
        return dice.randint(1, 200)
    reserve = int(total * percentage / 100)
    if dice.random() < 0.3:
        return int((free - reserve) * dice.choice([1, ratio])) + dice.choice([-1, 0, 0, 1])
    size = dice.randint(1, 100)
    near = dice.choice([0, 0, 0, 0.003, -0.003, 0.01, 0.3, 0.5])
    if not near:
        # So few decimals that the limit has two, which decimals can say exactly and binary fractions cannot.
        total, ratio = round(total, 1), round(dice.uniform(1.1, 5), 1)
        report.update(total_capacity_gb=total, max_over_subscription_ratio=ratio)
    limit = (total - reserve) * ratio if calculation == STANDARD else total * ratio
    report["provisioned_capacity_gb"] = max(0, round(limit - size - sum(pool.placed) + near, 3))
    return size


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
#: Protocols, some of them under several names.
_SPELLED = ["iSCSI", "iscsi", "FC", "fc", "fibre_channel", "NFS", "nfs", "NVMe-oF", "NVMeOF", "nvmeof", "NVMe-TCP"]
_PROTOCOLS: list[Any] = [*_SPELLED, "ceph", ["iSCSI", "FC"]]
_KEYS = ["media", "tier", "nested", "storage_protocol", "QoS_support", "replication_enabled", "IOPS"]


def _capabilities(dice: random.Random) -> dict[str, Any]:
    found = {key: dice.choice(_VALUES) for key in dice.sample(_KEYS, dice.randint(3, len(_KEYS)))}
    if "storage_protocol" in found:
        found["storage_protocol"] = dice.choice(_PROTOCOLS)
    if dice.random() < 0.6:
        found["nested"] = {"kind": dice.choice(_VALUES), "level": {"n": dice.choice(_VALUES)}}
    return found


def _words(dice: random.Random, value: Any) -> str:
    """Return a spec that has a chance to fit that value."""
    value = dice.choice(value) if isinstance(value, list) and value else value
    word = str(dice.choice([value, value, dice.choice(_VALUES[:-5]), dice.choice(_PROTOCOLS)]))
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


def _typed(dice: random.Random) -> Case:
    pools = []
    for name in _names(dice, 6):
        report = {**_sound(dice, extreme=0), **_capabilities(dice)}
        report.update(_two_decimals(report))
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


def _by_protocol(dice: random.Random) -> Case:
    """Return a case about nothing but the names of protocols: a spec, a query or the function of a driver."""
    wanted = dice.choice([*_SPELLED, *_SPELLED, "ceph", "ISCSI"])
    pools = _plain(dice)
    for pool in pools:
        pool.report["storage_protocol"] = dice.choice([*_PROTOCOLS, [wanted]])
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


def _plain(dice: random.Random, most: int = 6) -> list[PoolCase]:
    """Return pools of which only place and zone matter."""
    report = {"total_capacity_gb": 100, "free_capacity_gb": 100, "thick_provisioning_support": True}
    return [PoolCase(name, dice.choice([*ZONES, ""]), 0, dict(report)) for name in _names(dice, most)]


def _zoned(dice: random.Random) -> Case:
    return Case("AvailabilityZoneFilter", Wish(1, zone=dice.choice([*ZONES, "north", "", None])), _plain(dice))


def _beside(dice: random.Random) -> Case:
    plugin, hint = dice.choice([("SameBackendFilter", "same_host"), ("DifferentBackendFilter", "different_host")])
    some: list[Any] = dice.sample([*VOLUMES, *FOREIGN], dice.choice([1, 1, 2, 3]))
    value = dice.choices(
        [
            some[0],
            some,
            [*some, _NO_VOLUME],
            [_NO_VOLUME],
            [],
            "none",
            ["none"],
            [*some, "none"],
            "",
            None,
            some[0].replace("-", ""),
        ],
        [20, 40, 10, 10, 5, 3, 3, 3, 3, 3, 1],
    )[0]
    return Case(plugin, Wish(1, hints=dice.choice([{hint: value}, {hint: value}, {hint: value}, {}])), _plain(dice))


def _retried(dice: random.Random) -> Case:
    pools = _plain(dice)
    attempted = [pool.name for pool in pools if dice.random() < 0.4]
    return Case("RetryFilter", Wish(1, attempted=attempted), pools)


def _local(dice: random.Random) -> Case:
    instance = dice.choices([*INSTANCES, _NO_INSTANCE, "none", "", None], [5, 5, 3, 1, 1, 1, 1])[0]
    hints = {"local_to_instance": instance} if dice.random() < 0.9 else {}
    return Case("InstanceLocalityFilter", Wish(1, hints=hints), _plain(dice))


def _rich(dice: random.Random) -> list[PoolCase]:
    """Return pools with figures and capabilities that queries and functions may look at."""
    pools = []
    for name in _names(dice, 5):
        total = dice.randint(1, 1000)
        report = {
            "total_capacity_gb": total,
            "free_capacity_gb": dice.choice([dice.randint(0, total), round(dice.uniform(0, total), 2)]),
            "provisioned_capacity_gb": dice.randint(0, 2000),
            "reserved_percentage": dice.choice([0, 5, 10]),
            "max_over_subscription_ratio": dice.choice([1.0, 2.0, 2.5]),
            "thin_provisioning_support": dice.random() < 0.7,
            "thick_provisioning_support": dice.random() < 0.5,
            "vendor_name": dice.choice(["acme", "Acme", "7"]),
            "driver_version": dice.choice(["1.0", "2.3.4", "3"]),
            "storage_protocol": dice.choice(_PROTOCOLS),
            "QoS_support": dice.choice([True, False]),
            "media": dice.choice(["ssd", "hdd"]),
            "latency": dice.choice([1, 0.5, "2", "1.5", "slow", True, None, [1], {"max": 3}]),
            "dedup": dice.choice([True, False]),
            "nested": {"level": dice.randint(1, 3)},
        }
        for key in dice.sample([*report], dice.choice([0, 0, 1, 2])):
            if key not in ("total_capacity_gb", "free_capacity_gb", "provisioned_capacity_gb"):
                del report[key]
        pools.append(PoolCase(name, dice.choice(ZONES), dice.randint(0, 500), report))
    return pools


def _queried(dice: random.Random) -> Case:
    pools = _rich(dice)
    query = _query(dice, dice.choice([1, 1, 2, 3, 3]))
    text: Any = json.dumps(query)
    odd = dice.random()
    if odd < 0.02:
        text = dice.choice([text[:-1], "hello", '"text"', "5", '{"=": 1}'])
    elif odd < 0.04:
        text = dice.choice([query, "", None, "[]"])
    hints = {"query": text} if dice.random() < 0.95 else {}
    return Case("JsonFilter", Wish(1, hints=hints), pools)


def _query(dice: random.Random, depth: int) -> list[Any]:
    if depth > 1:
        parts = [_query(dice, depth - 1) for _ in range(dice.choice([0, 1, 2, 2, 3]))]
        return [dice.choice(["and", "or", "and", "or", "not"]), *parts]
    operator = dice.choices(["=", "<", ">", "<=", ">=", "in", "not", "or", "~"], [10, 1, 1, 1, 1, 6, 1, 1, 0.3])[0]
    return [operator, *(_operand(dice) for _ in range(dice.choice([0, 1, 2, 2, 2, 2, 2, 3])))]


def _operand(dice: random.Random) -> Any:
    return dice.choice(
        [
            "$" + dice.choice(["host", "backend_id", "pool_name", "vendor_name", "driver_version", "storage_protocol"]),
            "$"
            + dice.choice(["free_capacity_gb", "total_capacity_gb", "allocated_capacity_gb", "reserved_percentage"]),
            "$" + dice.choice(["provisioned_capacity_gb", "QoS_support", "multiattach"]),
            "$max_over_subscription_ratio",
            "$" + dice.choice(["thin_provisioning_support", "thick_provisioning_support", "nothing"]),
            "$capabilities."
            + dice.choice(["media", "latency", "dedup", "nested.level", "nested", "none", "vendor_name"]),
            "$capabilities." + dice.choice(["total_capacity_gb", "thin_provisioning_support", "media.deeper"]),
            dice.choice(["$service.availability_zone", "$capabilities.timestamp.x", "$filter_function"]),
            dice.choice(["ssd", "hdd", "acme", "iSCSI", "1.0", "", None, "east"]),
            dice.choice([0, 1, 2, 5, 10, 100, 500, 2.5, True, False]),
            dice.choice(_PLACES),
        ]
    )


def _functioned(dice: random.Random) -> Case:
    pools = _rich(dice)
    for pool in pools:
        if dice.random() < 0.95:
            pool.report["filter_function"] = expressions.condition(dice)
    return Case("DriverFilter", _wish_of_type(dice), pools)


def _wish_of_type(dice: random.Random) -> Wish:
    specs = {"tier": dice.choice(["gold", "2"])} if dice.random() < 0.5 else {}
    qos = {"maxIOPS": dice.choice(["500", "1000"])} if dice.random() < 0.5 else {}
    return Wish(dice.randint(1, 200), extra_specs=specs, qos_specs=qos)


def _weighed(dice: random.Random) -> Case:
    calculation, specs = dice.choice([STANDARD, CINDER]), _provisioning(dice)
    names = ["CapacityWeigher", "AllocatedCapacityWeigher", "GoodnessWeigher", "VolumeNumberWeigher"]
    several = dice.random() < 0.4
    chosen = dice.sample(names, dice.randint(2, 4)) if several else [dice.choice([*names[:1] * 3, *names])]
    alike = dice.random() < 0.1
    if alike:
        specs, chosen = {}, names[:2]
    weighers = {name: dice.choice([1.0, -1.0, 2.0, 0.5, -3.0]) for name in chosen}
    if "GoodnessWeigher" in weighers:
        weighers["GoodnessWeigher"] = 1.0  # which has no option
    pools = []
    for pool in _rich(dice):
        # What functions look at fits together.
        figures = _sound(dice, extreme=0 if "GoodnessWeigher" in weighers else 0.03 if several else 0.25)
        for key in ("thin_provisioning_support", "thick_provisioning_support"):
            pool.report.pop(key, None)
        pool.report.update(figures)
        if "GoodnessWeigher" in weighers and dice.random() < 0.9:
            pool.report["goodness_function"] = expressions.rating(dice)
            pool.report.update(_two_decimals(pool.report))
        placed = [dice.randint(1, 50)] if dice.random() < 0.2 and "GoodnessWeigher" not in weighers else []
        pools.append(PoolCase(pool.name, pool.zone, pool.allocated, pool.report, placed))
    if alike:
        pools = _alike(dice, pools)
    wish = _wish_of_type(dice)
    wish.extra_specs.update(specs)
    return Case(WEIGHERS, wish, pools, calculation, dice.choice([20.0, 1.7, "auto"]), weighers)


def _alike(dice: random.Random, pools: list[PoolCase]) -> list[PoolCase]:
    """Return two of these pools, with as much room in either, by figures that binary fractions cannot say."""
    room = dice.randint(1, 50)
    for pool in pools[:2]:
        total = round(dice.uniform(50, 2000), 1)
        pool.report.update(
            total_capacity_gb=total,
            free_capacity_gb=total,
            provisioned_capacity_gb=round(total * 1.7 - room, 2),
            reserved_percentage=0,
            max_over_subscription_ratio=1.7,
            thin_provisioning_support=True,
        )
        pool.placed.clear()
    return pools[:2]


#: What is drawn, and how often.
_KINDS: list[tuple[Callable[[random.Random], Case], int]] = [
    (_capacity, 45),
    (_by_protocol, 3),
    (_typed, 16),
    (_weighed, 14),
    (_functioned, 8),
    (_queried, 8),
    (_beside, 2),
    (_zoned, 2),
    (_retried, 1),
    (_local, 1),
]
