# SPDX-License-Identifier: Apache-2.0
"""The intended differences from Cinder: the rows of the tables in ``docs/differences-from-cinder.rst``.

Each row is a predicate that explains differences. Most of them change one property of the case and ask Tonnage again:
if the answer is then Cinder's, the row explains the difference.
"""

import itertools
import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cinder_comparison import capacity_rules as rules
from cinder_comparison import tonnage_answers
from cinder_comparison.cases import CINDER, STANDARD, VOLUMES, WEIGHERS, Case, PoolCase
from cinder_comparison.comparison import ORDER, Difference, same
from tonnage.capacity import storage_protocols
from tonnage.capacity.expressions import evaluation
from tonnage.capacity.pools.pool_table import Pool, PoolTable

_CAPACITY, _WEIGHER = "CapacityFilter", "CapacityWeigher"
_CAPABILITIES, _JSON, _DRIVER, _GOODNESS = "CapabilitiesFilter", "JsonFilter", "DriverFilter", "GoodnessWeigher"
_SAME, _OTHER = "SameBackendFilter", "DifferentBackendFilter"
_EXPRESSIONS = {_DRIVER: "filter_function", _GOODNESS: "goodness_function"}

_FIGURES = {
    "total_capacity_gb",
    "free_capacity_gb",
    "provisioned_capacity_gb",
    "reserved_percentage",
    "max_over_subscription_ratio",
}

#: Fields that have a default value in Tonnage if a report omits them.
_WITH_DEFAULTS = {
    "thin_provisioning_support",
    "thick_provisioning_support",
    "reserved_percentage",
    "max_over_subscription_ratio",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its name in the documentation, its filters and weighers, and the predicate for its differences."""

    name: str
    parts: Collection[str]
    explains: Callable[[Difference], bool]


@dataclass(frozen=True, slots=True)
class Change:
    """A row about one property of a case: with that property changed, Tonnage gives Cinder's answer.

    ``change`` returns the case with the property changed, None if the case does not have it.
    """

    name: str
    parts: Collection[str]
    change: Callable[[Difference], Case | None]


def explaining(difference: Difference) -> set[str]:
    """Return the names of the rows that explain a difference."""
    found = {row.name for row in _ROWS if difference.part in row.parts and row.explains(difference)}
    return found or _changes(difference) or set(_departures(difference))


def _changes(difference: Difference) -> set[str]:
    """Return the changes that turn the answer into Cinder's: single changes, or otherwise pairs of changes."""
    possible = [change for change in _CHANGES if difference.part in change.parts]
    for count in (1, 2):
        chosen = [some for some in itertools.permutations(possible, count) if _turned_by(difference, some)]
        if chosen:
            return {change.name for some in chosen for change in some}
    return set()


def _turned_by(difference: Difference, changes: Collection[Change]) -> bool:
    changed = difference
    for each in changes:
        case = each.change(changed)
        if case is None:
            return False
        changed = replace(changed, case=case)
    said = None if difference.failed else _again(difference, changed.case)
    return said is not None and same(said, difference.there)


def _again(difference: Difference, case: Case) -> Any:
    """Return Tonnage's answer to a changed case, None if it is no verdict and no weight."""
    answer = tonnage_answers.answer(case)
    if answer.refused is not None or answer.left_out:
        return None
    if case.plugin == WEIGHERS:
        return answer.raw[difference.part][difference.pool.name]
    return answer.verdicts[difference.place]


def _with_report(difference: Difference, changes: Mapping[str, Any]) -> Case:
    pool = difference.pool
    pools = list(difference.case.pools)
    pools[difference.place] = replace(pool, report={**pool.report, **changes})
    return replace(difference.case, pools=pools)


def _text_flags(difference: Difference) -> Case | None:
    """Every text but the empty one is true in Cinder, also ``"False"``."""
    flags = ("thin_provisioning_support", "thick_provisioning_support")
    report = difference.pool.report
    texts = {flag: bool(report[flag]) for flag in flags if isinstance(report.get(flag), str)}
    return _with_report(difference, texts) if texts else None


def _departures(difference: Difference) -> Collection[str]:
    """Return the departures from the capacity rules that explain the difference."""
    case, pool, here, there = difference.case, difference.pool, difference.here, difference.there
    if difference.failed:
        return ()
    if difference.part == _CAPACITY:
        return rules.explained_by(lambda chosen: rules.admits(case, pool, chosen), case, here, there)
    if difference.part == _WEIGHER and _ranked(pool):
        return rules.explained_by(lambda chosen: rules.rank(case, pool, chosen), case, here, there)
    return ()


def _unranked(difference: Difference) -> bool:
    """In Cinder a pool without a rank has the weight -1, or the largest weight with a negative multiplier."""
    last = difference.there == -1 or difference.case.weighers[_WEIGHER] < 0
    return not _ranked(difference.pool) and math.isnan(difference.here) and last


def _all_unranked(difference: Difference) -> bool:
    none_ranked = not any(map(_ranked, difference.case.pools))
    return difference.failed == "ValueError" and none_ranked and difference.case.weighers.get(_WEIGHER, 1) < 0


def _ranked(pool: PoolCase) -> bool:
    figures = pool.report["total_capacity_gb"], pool.report["free_capacity_gb"]
    return "unknown" not in figures and "infinite" not in figures


def _noise(difference: Difference) -> bool:
    """Two pools have the same headroom, but Cinder 17 computes different last digits."""
    weights = difference.answer.raw.get(_WEIGHER)
    if weights is None or difference.case.calculation != CINDER:
        return False
    known = [weight for weight in weights.values() if not math.isnan(weight)]
    return len(known) > 1 and max(known) - min(known) < 1e-6


def _refused(difference: Difference) -> bool:
    return difference.answer.refused is not None and "provisioning:type" in difference.answer.refused


def _left_out(difference: Difference) -> bool:
    return difference.place in difference.answer.left_out


def _null(difference: Difference) -> bool:
    """Cinder fails with a figure that is null. It refuses a pool whose free capacity is null before it calculates."""
    if _left_out(difference) or None not in difference.pool.report.values():
        return False
    has_no_free = difference.pool.report.get("free_capacity_gb", 0) is None
    return difference.failed == "TypeError" or (has_no_free and difference.there is False)


def _text_figure(difference: Difference) -> bool:
    """Cinder calculates with a figure that is a text."""
    words = {"auto", "unknown", "infinite"}
    texts = [value for key, value in difference.pool.report.items() if key in _FIGURES and isinstance(value, str)]
    return difference.failed == "TypeError" and not words.issuperset(texts) and not _left_out(difference)


def _divides_by_zero(difference: Difference) -> bool:
    return difference.failed == "ZeroDivisionError"


def _asked(difference: Difference) -> dict[str, str]:
    """Return the extra specs that the filter reads, by the first key of their path."""
    asked = {}
    for key, spec in difference.case.request.extra_specs.items():
        scope, *path = key.split(":")
        if not path:
            asked[scope] = spec
        elif scope == "capabilities":
            asked[path[0]] = spec
    return asked


def _has_default(difference: Difference) -> bool:
    if difference.failed:
        return False
    keys = set(_asked(difference))
    if difference.part == _JSON:
        keys = set(re.findall(r"\$capabilities\.(\w+)", json.dumps(_query(difference))))
    return any(difference.pool.report.get(key) in (None, "auto") for key in _WITH_DEFAULTS & keys)


def _truth_of_a_figure(difference: Difference) -> bool:
    """In Cinder ``<is>`` treats 1 as true and 1.0 as false."""
    return any(key in _FIGURES and spec.split()[:1] == ["<is>"] for key, spec in _asked(difference).items())


def _wrong_spec(difference: Difference) -> bool:
    return difference.failed in ("TypeError", "IndexError") and difference.here is False


def _all_in(difference: Difference) -> bool:
    specs = difference.case.request.extra_specs.values()
    return difference.here is True and any(spec.split()[:1] == ["<all-in>"] for spec in specs)


def _without_scope_alone(difference: Difference) -> Case | None:
    """An extra spec with the scope alone always matches in Cinder."""
    wish = difference.case.request
    others = {key: spec for key, spec in wish.extra_specs.items() if key != "capabilities"}
    if others == wish.extra_specs:
        return None
    return replace(difference.case, request=replace(wish, extra_specs=others))


def _with_spellings(difference: Difference) -> Case | None:
    """In Cinder a protocol with several names is the list of its names, which equals no single name."""
    names = storage_protocols.aliases(difference.pool.report.get("storage_protocol"))
    return _with_report(difference, {"storage_protocol": list(names)}) if isinstance(names, tuple) else None


def _named(difference: Difference) -> list[Any]:
    values = [*difference.case.request.hints.values()]
    return values[0] if values and isinstance(values[0], list) else values


def _by_pool(difference: Difference) -> bool:
    """Cinder compares the pools of the named volumes, not their backends."""
    named = [VOLUMES.get(volume, "") for volume in _named(difference)]
    on_pool = difference.pool.name in named
    on_backend = difference.pool.name.partition("#")[0] in [name.partition("#")[0] for name in named]
    return on_backend and not on_pool and difference.there is (difference.part == _OTHER)


def _nova_cannot_tell(difference: Difference) -> bool:
    return difference.failed in ("CinderException", "InvalidUUID") and difference.here is False


def _failing_query(difference: Difference) -> bool:
    return difference.failed in ("TypeError", "AttributeError", "KeyError", "JSONDecodeError")


def _query(difference: Difference) -> Any:
    """Return the parsed query; None without a query, or if Cinder fails with it."""
    text = difference.case.request.hints.get("query")
    return json.loads(text) if text and not difference.failed else None


def _with_query(difference: Difference, query: Any) -> Case | None:
    if query == _query(difference):
        return None
    wish = replace(difference.case.request, hints={"query": json.dumps(query)})
    return replace(difference.case, request=wish)


def _with_true_inner_nots(difference: Difference) -> Case | None:
    def true(part: Any, inner: bool = False) -> Any:
        if not isinstance(part, list):
            return part
        if inner and part[:1] == ["not"]:
            return len(part) > 1
        return [true(each, inner=True) for each in part]

    return _with_query(difference, true(_query(difference)))


def _with_zone(difference: Difference) -> Case | None:
    zone = json.dumps(difference.pool.zone)
    text = json.dumps(_query(difference)).replace('"$service.availability_zone"', zone)
    return _with_query(difference, json.loads(text))


def _with_ratio_of_thick(difference: Difference) -> Case | None:
    if difference.pool.report.get("thin_provisioning_support"):
        return None
    return _with_report(difference, {"max_over_subscription_ratio": 1.0})


def _function(difference: Difference) -> str:
    return str(difference.pool.report.get(_EXPRESSIONS[difference.part], ""))


def _with_whole_numbers(difference: Difference) -> Case | None:
    whole = {key: int(value) for key, value in difference.pool.report.items() if isinstance(value, float)}
    return _with_report(difference, whole) if whole else None


def _with_two_operands(difference: Difference) -> Case | None:
    """Cinder ignores the end of ``(a) and (b) and (c)`` and of ``a ? b : c ? d : e``; return the case without it."""
    part = r"\([^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*\)"
    text = _function(difference)
    found = re.fullmatch(rf"({part} (and|or) {part}) \2 {part}", text)
    found = found or re.fullmatch(r"([^?:]+ \? [^?:]+ : [^?:]+) \? [^?:]+ : [^?:]+", text)
    return None if found is None else _with_report(difference, {_EXPRESSIONS[difference.part]: found[1]})


def _text(difference: Difference) -> bool:
    """Cinder adds, multiplies and compares texts, and every text but the empty one is true."""
    if difference.answer.refused is not None:
        return False
    if difference.part == WEIGHERS:
        pools = difference.case.pools if difference.failed == "TypeError" else []
        return any(_is_text(difference.case, pool, "goodness_function") for pool in pools)
    return _is_text(difference.case, difference.pool, _EXPRESSIONS[difference.part])


def _is_text(case: Case, pool: PoolCase, function: str) -> bool:
    answered = tonnage_answers.pool_of(pool, case.ratio)
    if not isinstance(answered, Pool):
        return False
    found = evaluation.results(PoolTable([answered]), tonnage_answers.request_of(case.request), np.arange(1), function)
    results = [result for _, each in found for result in each]
    return any(isinstance(result, str) or "which is no number" in str(result) for result in results)


def _comma(difference: Difference) -> bool:
    """In Cinder ``(a, b)`` is a list, which is true and not a number."""
    if difference.part == WEIGHERS:
        functions = [pool.report.get("goodness_function", "") for pool in difference.case.pools]
        return difference.failed == "TypeError" and any(map(_LIST.fullmatch, functions))
    return difference.there is True and _LIST.fullmatch(_function(difference)) is not None


_LIST = re.compile(r"\([^()]+, 5\)")


def _wider(difference: Difference) -> bool:
    """The text is a valid expression only in Tonnage; Cinder's verdict is its verdict for an invalid one."""
    odd = r"\^ -|[^&]&[^&]|[^|]\|[^|]|_gb2|\w\.\w+\.\w|\.\w+ (and|or) "
    return difference.there in (False, 0) and re.search(odd, _function(difference)) is not None


_ROWS = [
    Row("Reports that are refused", {_CAPACITY}, _left_out),
    Row("Null", {_CAPACITY}, _null),
    Row("Texts of numbers", {_CAPACITY}, _text_figure),
    Row("Division by zero", {_CAPACITY, WEIGHERS}, _divides_by_zero),
    Row("Neither thin nor thick", {_CAPACITY, WEIGHERS}, _refused),
    Row("Pools without a rank", {_WEIGHER}, _unranked),
    Row("No pool with a rank", {WEIGHERS}, _all_unranked),
    Row("Last digits", {ORDER}, _noise),
    Row("Specs that cannot be compared", {_CAPABILITIES}, _wrong_spec),
    Row("All of a list", {_CAPABILITIES}, _all_in),
    Row("Capabilities with a default", {_CAPABILITIES, _JSON}, _has_default),
    Row("Truth of a figure", {_CAPABILITIES}, _truth_of_a_figure),
    Row("Pool or backend", {_SAME, _OTHER}, _by_pool),
    Row("Instances that Nova does not tell", {"InstanceLocalityFilter"}, _nova_cannot_tell),
    Row("Queries that fail", {_JSON}, _failing_query),
    Row("Texts", {_DRIVER, _GOODNESS, WEIGHERS}, _text),
    Row("A comma", {_DRIVER, WEIGHERS}, _comma),
    Row("A wider language", {_DRIVER, _GOODNESS}, _wider),
]

_CHANGES = [
    Change("Texts of flags", {_CAPACITY}, _text_flags),
    Change("The scope alone", {_CAPABILITIES}, _without_scope_alone),
    Change("Names of a protocol", {_JSON}, _with_spellings),
    Change("An inner not", {_JSON}, _with_true_inner_nots),
    Change("The service", {_JSON}, _with_zone),
    Change("The ratio of thick pools", {_JSON}, _with_ratio_of_thick),
    Change("Whole numbers", {_DRIVER, _GOODNESS}, _with_whole_numbers),
    Change("A third operand", {_DRIVER, _GOODNESS}, _with_two_operands),
]

#: All rows.
NAMES = [
    *dict.fromkeys([*rules.DEPARTURES[STANDARD], *rules.DEPARTURES[CINDER]]),
    *(row.name for row in [*_ROWS, *_CHANGES]),
]
