# SPDX-License-Identifier: Apache-2.0
"""The figures of the API benchmark, their ratios and their table."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import cinder_peer
import comparison_runner
from measurement import CINDER

TONNAGE = "tonnage"

#: Kinds of requests: a new volume, all pools as Cinder shows them, all pools with their capacity factors.
VOLUMES, POOLS, FACTORS = "volumes", "pools", "factors"

#: Cinder's request for the comparison with each kind. Cinder has no capacity factors.
_COMPARED = {VOLUMES: VOLUMES, POOLS: POOLS, FACTORS: POOLS}

#: The required ratio of Tonnage's rate to Cinder's.
_AIM = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of one measurement. ``cpu_ms`` is the processor time per request in ms, by kind of process.

    ``failed`` requests do not count; a failed request of Tonnage ends the run. ``placed_per_second`` is the number of
    volumes that got a pool: Cinder answers before that. ``stages`` are the stages of the API and of the scheduler, in
    milliseconds per request.
    """

    what: str
    variant: str
    database: str
    pools: int
    in_flight: int
    requests_per_second: float
    p50_ms: float
    p99_ms: float
    answer_bytes: int
    failed: int
    cpu_ms: Mapping[str, float]
    others_cpus: float
    fsyncs_per_second: float
    placed_per_second: float | None = None
    stages: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def ratios(measured: Sequence[Figures]) -> dict[str, float]:
    """Return the ratios of Tonnage's rates to Cinder's, from the medians of all rounds.

    There are two kinds of ratios: each side at its best number of clients, and both at the same number.
    """
    rates: dict[tuple[str, str, str, int], list[float]] = {}
    for one in measured:
        rates.setdefault((one.database, one.what, one.variant, one.in_flight), []).append(one.requests_per_second)
    medians = {key: statistics.median(each) for key, each in rates.items()}
    found: dict[str, float] = {}
    for database, what, variant, in_flight in medians:
        if variant != TONNAGE:
            continue
        best = {
            side: max((rate for key, rate in medians.items() if key[:3] == (database, kind, side)), default=None)
            for side, kind in ((TONNAGE, what), (CINDER, _COMPARED[what]))
        }
        if best[TONNAGE] and best[CINDER]:
            found[f"{what}_{database}"] = best[TONNAGE] / best[CINDER]
        same = medians.get((database, _COMPARED[what], CINDER, in_flight))
        if same:
            found[f"{what}_{database}_{in_flight}_at_a_time"] = medians[database, what, TONNAGE, in_flight] / same
    return found


def table(measured: Sequence[Figures]) -> str:
    """Return a table of the figures, the ratios first."""
    lines = [f"times the requests per second of Cinder {cinder_peer.RELEASE}: each at its best, and as many at a time"]
    for label, ratio in ratios(measured).items():
        aim = "" if label.endswith("at_a_time") else f"   (the aim is {_AIM})"
        lines.append(f"  {label.replace('_', ' '):<40}{ratio:8.2f}{aim}")
    groups = list(dict.fromkeys(name for one in measured for name in one.cpu_ms))
    asked = ["what", "variant", "database", "at a time"]
    heads = [*asked, "requests/s", "failed", "placed/s", "p50 ms", "p99 ms", "KiB", "fsync/s", "others"]
    rows = [
        [
            *(one.what, one.variant, one.database, one.in_flight),
            *(one.requests_per_second, one.failed or None, one.placed_per_second, one.p50_ms, one.p99_ms),
            *(one.answer_bytes // 1024, round(one.fsyncs_per_second), one.others_cpus),
            *(one.cpu_ms.get(name) for name in groups),
        ]
        for one in measured
    ]
    lines += ["", comparison_runner.table([*heads, *(f"{name} ms" for name in groups)], rows)]
    lines.append("(others: processors that other work kept busy meanwhile; ms: processor time per request)")
    for one in measured:
        for name, stages in one.stages.items():
            about = f"{one.what}, {one.in_flight} at a time"
            lines += ["", f"where the processor time of the {name} goes, ms per request ({about})"]
            lines += [f"  {stage:<44}{milliseconds:8.2f}" for stage, milliseconds in stages.items()]
    return "\n".join(lines)
