# SPDX-License-Identifier: Apache-2.0
"""The figures of a run, as JSON and as a table."""

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

#: Figures that must be zero, with their meaning.
ZEROS = {
    "over_commit_gb": "largest excess of a pool's stored or promised capacity above its limit, in GiB",
    "lost": "granted volumes and extends that are missing at the end, without an error message",
    "duplicates": "volumes in two pools, and volumes without a granted request",
    "drift_gb": "difference between ledger and storage at rest, in GiB",
    "leaked_claims": "claims that are pending or abandoned at rest",
    "wrong_refusals": "requests refused although a pool had room all the time",
    "broken_invariants": "checks in which counters differ from the claims, or are less than the stored volumes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The result of a run; sizes in GiB, times in the unit that their name ends with."""

    requests: int
    placed: int
    refused: int
    faults: dict[str, int]
    over_commit_gb: float
    lost: int
    duplicates: int
    drift_gb: float
    leaked_claims: int
    wrong_refusals: int
    broken_invariants: int
    placements_per_s: float
    p50_ms: float
    p99_ms: float
    longest_gap_s: float
    seconds: float
    looks: int
    resends: int
    orphans: int
    database: str
    seed: int
    expected: int | None = None

    @property
    def clean(self) -> bool:
        """Whether all figures of ``ZEROS`` are zero, and the expected number of volumes, if known, was placed."""
        return not any(getattr(self, name) for name in ZEROS) and self.expected in (None, self.placed)

    def line(self) -> str:
        """Return the figures as one line of JSON."""
        return json.dumps(dataclasses.asdict(self))

    def show(self, console: Console, examples: dict[str, str]) -> None:
        """Print the figures as a table."""
        table = Table(title=f"Torture on {self.database}, seed {self.seed}", title_justify="left")
        table.add_column("figure")
        table.add_column("value", justify="right")
        table.add_column("meaning", style="dim")
        rows: list[tuple[str, Any, str]] = [
            ("requests", self.requests, f"in {self.seconds:.0f} s; {self.resends} sent again without an answer"),
            ("placed", self.placed, "" if self.expected is None else f"{self.expected} fit"),
            ("refused", self.refused, ""),
            ("orphans", self.orphans, "stored copies that no claim counts, and that operators can see"),
        ]
        for name, value, meaning in rows:
            table.add_row(name, str(value), meaning)
        for name, meaning in ZEROS.items():
            value = getattr(self, name)
            table.add_row(name, f"[bold red]{value:g}[/]" if value else "[green]0[/]", meaning)
        table.add_row("placements/s", f"{self.placements_per_s:.1f}", "")
        table.add_row("p50, p99", f"{self.p50_ms:.0f}, {self.p99_ms:.0f} ms", "from the first sending to the answer")
        table.add_row("longest gap", f"{self.longest_gap_s:.1f} s", "longest time in which no request was granted")
        table.add_row("faults", str(sum(self.faults.values())), ", ".join(f"{n} {k}" for k, n in self.faults.items()))
        console.print(table)
        for kind, text in examples.items():
            console.print(f"[red]{kind}[/]: {text}", highlight=False)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile of the values by nearest rank; ``share`` is 0 to 1."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0
