# SPDX-License-Identifier: Apache-2.0
"""The table of an explanation: a row for each pool, the chosen one first."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tonnage.cli.display.table_columns import Column, capacity

if TYPE_CHECKING:
    from tonnage.capacity.explanation import Explanation, PoolVerdict


class VerdictRow(NamedTuple):
    """The verdict on one pool, and whether it is the chosen one."""

    of: "PoolVerdict"
    chosen: bool

    @property
    def word(self) -> str:
        """The verdict in a word."""
        return "refused" if self.of.filter is not None else "chosen" if self.chosen else "candidate"

    @property
    def headroom_gb(self) -> float | None:
        """The headroom in GiB, None if it is infinite or unknown."""
        return self.of.headroom if isinstance(self.of.headroom, float | int) else None

    @property
    def because(self) -> str | None:
        """The reasons of all filters that refuse the pool, or of its last rank; None for any other candidate."""
        if self.of.rejection is None:
            return None if self.of.ranked_last is None else f"{self.of.ranked_last}; ranked last"
        further_reasons = [f"{refusal.filter}: {refusal.rejection.message}" for refusal in self.of.also]
        return "; ".join([f"{self.of.filter}: {self.of.rejection.message}", *further_reasons])

    @property
    def weights(self) -> dict[str, str]:
        """The weights as calculations, by weigher."""
        return {weight.weigher: weight.text for weight in self.of.weights}


_HEADROOM = capacity("headroom", lambda row: row.headroom_gb, "headroom")


def _headroom(row: VerdictRow) -> str:
    provisioning = {None: "", True: " thin", False: " thick"}[row.of.thin]
    return f"{row.of.headroom if isinstance(row.of.headroom, str) else _HEADROOM.cell(row)}{provisioning}"


def _weight_column(weigher: str) -> Column:
    return Column("", lambda row: row.weights.get(weigher), weigher)


_BECAUSE = Column("because", lambda row: row.because, "because", width=70)

#: The columns without those of weighers.
_VERDICTS: Sequence[Column] = (
    Column("pool", lambda row: row.of.pool, "pool"),
    Column("verdict", lambda row: row.word, "verdict"),
    Column(_HEADROOM.key, _HEADROOM.value, _HEADROOM.heading, _headroom),
    Column("is_thin", lambda row: row.of.thin),
    Column(
        "total_weight",
        lambda row: row.of.total_weight,
        "weight",
        lambda row: "" if row.of.total_weight is None else f"{row.of.total_weight:.3f}",
    ),
    Column("code", lambda row: None if row.of.rejection is None else row.of.rejection.code),
    Column("weights", lambda row: row.weights),
)


def rows(explanation: "Explanation") -> list[VerdictRow]:
    """Return the rows: the chosen pool, the other candidates by weight, and the refused pools."""
    return [VerdictRow(verdict, verdict.pool == explanation.pool) for verdict in explanation.ranked()]


def columns(rows: Sequence[VerdictRow]) -> list[Column]:
    """Return the columns of a table with these rows, with one for each weigher."""
    weighers = dict.fromkeys(weigher for row in rows for weigher in row.weights)
    return [*_VERDICTS, *map(_weight_column, weighers), _BECAUSE]


def notes(explanation: "Explanation", shown: Sequence[VerdictRow]) -> list[str]:
    """Return a line for each shown pool with an ``auto`` ratio and for each weigher that has failed, and the advice."""
    ratios = [(row.of.pool, row.of.auto_ratio) for row in shown if row.of.auto_ratio is not None]
    failures = {weight.weigher: weight.failure for verdict in explanation.verdicts for weight in verdict.weights}
    return [
        *(f"{pool}: the over-subscription ratio is {auto.ratio:g} (auto: {auto.formula})" for pool, auto in ratios),
        *(
            f"{weigher} failed and counts 0 for every pool: {failure}"
            for weigher, failure in failures.items()
            if failure is not None
        ),
        *explanation.advice,
    ]


def with_nan(value: Any) -> Any:
    """Replace null by nan in the weights of pools that cannot be ranked, because JSON has no nan."""
    if isinstance(value, list):
        return [with_nan(member) for member in value]
    if isinstance(value, dict):
        return {key: math.nan if key == "raw" and member is None else with_nan(member) for key, member in value.items()}
    return value
