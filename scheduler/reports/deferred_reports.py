# SPDX-License-Identifier: Apache-2.0
"""Reports that it is another scheduler's turn to apply, kept until that one has."""

from collections.abc import Iterator
from dataclasses import dataclass

from tonnage.rpc.batching.packed_reports import PackedReport


@dataclass(frozen=True, slots=True)
class _Kept:
    message: PackedReport
    since: float


class DeferredReports:
    """Reports by backend, with the time at which each came, in seconds of any clock.

    All of a backend are kept, not only the newest: while that is on its way into the ledger, the one before it is what
    the ledger has.
    """

    #: Of one backend; whoever has its turn is far behind then.
    MOST = 8

    def __init__(self) -> None:
        self._kept: dict[str, list[_Kept]] = {}

    def put(self, message: PackedReport, now: float) -> None:
        """Keep one."""
        kept = self._kept.setdefault(message.backend, [])
        kept.append(_Kept(message, now))
        kept.sort(key=lambda each: (each.message.epoch, each.message.seq))
        # What came first stays, as it tells for how long nobody has applied any.
        del kept[1 : -(self.MOST - 1)]

    def newest(self) -> Iterator[PackedReport]:
        """Return of each backend the newest."""
        return iter([kept[-1].message for kept in self._kept.values()])

    def find(self, backend: str, epoch: int, seq: int) -> PackedReport | None:
        """Return a certain report, or None if it is not here."""
        kept = self._kept.get(backend, [])
        return next((each.message for each in kept if (each.message.epoch, each.message.seq) == (epoch, seq)), None)

    def drop(self, backend: str, epoch: int, seq: int) -> None:
        """Forget that report and all before it."""
        left = [each for each in self._kept.get(backend, []) if (each.message.epoch, each.message.seq) > (epoch, seq)]
        if left:
            self._kept[backend] = left
        else:
            self._kept.pop(backend, None)

    def take(self, backend: str) -> list[PackedReport]:
        """Return all of a backend, which are kept no longer."""
        return [each.message for each in self._kept.pop(backend, [])]

    def since(self, backend: str) -> float | None:
        """Return when the first of a backend came that is still here; None if there is none."""
        kept = self._kept.get(backend)
        return min(each.since for each in kept) if kept else None
