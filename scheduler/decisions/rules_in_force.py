# SPDX-License-Identifier: Apache-2.0
"""The rules that decide at present, and everything that follows a change of them. Belongs to the decision thread."""

from collections.abc import Sequence

from tonnage.capacity.arithmetic import Calculation
from tonnage.scheduler.decisions.decider import DecisionObserver
from tonnage.scheduler.decisions.pool_selection import Rules
from tonnage.scheduler.decisions.request_spec import RequestSpec
from tonnage.scheduler.ignored_hints import IgnoredHints
from tonnage.scheduler.simulation.decision_log import DecisionLog


class RulesInForce:
    """The rules that decide at present (``current``), with the log of decisions that records them."""

    def __init__(self, rules: Rules, log: DecisionLog | None = None) -> None:
        self._log = log
        self.apply(rules)

    def apply(self, rules: Rules) -> None:
        """Decide by other rules from now on."""
        self.current = rules
        self._ignored_hints = IgnoredHints(rules.filters.filters)
        if self._log is not None:
            self._log.apply_rules(rules)

    def apply_calculation(self, calculation: Calculation) -> None:
        """Decide by another calculation from now on."""
        self.apply(self.current.judged_by(calculation))

    def observer(self) -> DecisionObserver | None:
        """Return the recorder of a batch that begins, if decisions are recorded."""
        if self._log is not None:
            self._log.start_batch()
        return self._log

    def write_log(self) -> None:
        """Write the decisions of a batch that is booked."""
        if self._log is not None:
            self._log.write()

    def warn_of_ignored_hints(self, specs: Sequence[RequestSpec]) -> None:
        """Log a warning of hints that no filter reads, once for each hint."""
        for spec in specs:
            if spec.request.hints:
                self._ignored_hints.tell(spec.request.hints)
