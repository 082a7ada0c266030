# SPDX-License-Identifier: Apache-2.0
"""A change of the rules in force changes the calculation and the warnings of hints with them."""

from types import SimpleNamespace

from tonnage.capacity.arithmetic import Calculation
from tonnage.filters.base import Filter
from tonnage.filters.chain import FilterChain
from tonnage.filters.json_query import JsonFilter
from tonnage.scheduler.decisions.rules_in_force import RulesInForce
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.weighers.chain import WeigherChain

HINTS = {"query": '["=", "$pool", "p"]'}


def rules(*filters: type[Filter]) -> Rules:
    chain = FilterChain([plugin(SimpleNamespace()) for plugin in filters], Calculation.CINDER)
    return Rules(chain, WeigherChain([]), Calculation.CINDER)


def test_other_rules_replace_the_current_ones_with_their_warnings() -> None:
    in_force = RulesInForce(rules())
    assert len(in_force.ignored_keys.hints(HINTS)) == 1
    other = rules(JsonFilter)
    in_force.apply(other)
    assert in_force.current is other
    assert in_force.ignored_keys.hints(HINTS) == []


def test_another_calculation_keeps_the_plug_ins() -> None:
    in_force = RulesInForce(rules(JsonFilter))
    in_force.apply_calculation(Calculation.STANDARD)
    assert in_force.current.calculation is Calculation.STANDARD
    assert [type(plugin) for plugin in in_force.current.filters.filters] == [JsonFilter]
    assert in_force.ignored_keys.hints(HINTS) == []
