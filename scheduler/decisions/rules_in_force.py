# SPDX-License-Identifier: Apache-2.0
"""The rules that decide at present, and everything that follows a change of them. Belongs to the decision thread."""

from tonnage.capacity.arithmetic import Calculation
from tonnage.scheduler.requests.ignored_hints import IgnoredHints
from tonnage.scheduler.requests.pool_selection import Rules


class RulesInForce:
    """The rules that decide at present (``current``). ``ignored_hints`` warns of hints that no filter reads."""

    def __init__(self, rules: Rules) -> None:
        self.apply(rules)

    def apply(self, rules: Rules) -> None:
        """Decide by other rules from now on."""
        self.current = rules
        self.ignored_hints = IgnoredHints(rules.filters.filters)

    def apply_calculation(self, calculation: Calculation) -> None:
        """Decide by another calculation from now on."""
        self.apply(self.current.with_calculation(calculation))
