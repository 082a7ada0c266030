# SPDX-License-Identifier: Apache-2.0
"""The rules that decide at present, and everything that follows a change of them. Belongs to the decision thread."""

from tonnage.capacity.arithmetic import Calculation
from tonnage.scheduler.requests.ignored_keys import IgnoredKeys
from tonnage.scheduler.requests.pool_selection import Rules


class RulesInForce:
    """The rules that decide at present (``current``). ``ignored_keys`` warns of hints and specs without effect."""

    def __init__(self, rules: Rules) -> None:
        self.apply(rules)

    def apply(self, rules: Rules) -> None:
        """Decide by other rules from now on."""
        self.current = rules
        self.ignored_keys = IgnoredKeys(rules.filters.filters)

    def apply_calculation(self, calculation: Calculation) -> None:
        """Decide by another calculation from now on."""
        self.apply(self.current.with_calculation(calculation))
