# SPDX-License-Identifier: Apache-2.0
"""The fields of a report that state rules for placement: their values that plug-ins cannot read.

A pool with such a value is valid, but the plug-in that reads the field excludes the pool, or counts it as poor, for
each request. The plug-ins are the core's own filters and weighers.
"""

import difflib
import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from tonnage.capacity import plugin_errors
from tonnage.capacity.topology import accessibility
from tonnage.capacity.topology.accessibility import InvalidAccessibility

#: The most characters of a value in a text.
_MAX_QUOTED = 200

#: More texts than there are functions of pools. An entry keeps nothing but the text.
_MAX_TEXTS = 1 << 16

#: Minimum similarity of an unknown name and a known one for a suggestion, from 0 to 1.
_MIN_SIMILARITY = 0.8

#: The functions of a pool, with the effect of one that cannot be read.
_FUNCTIONS = {
    "filter_function": "DriverFilter excludes the pool",
    "goodness_function": "GoodnessWeigher counts the pool as poor",
}

_PERCENTAGES = ("min_free_capacity_percentage", "min_free_capacity_extend_percentage")


def unreadable(pool: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each field of a pool with a value that its plug-in cannot read, with the error and its effect."""
    for field, effect in _FUNCTIONS.items():
        function = pool.get(field)
        if function is None:
            continue
        if (problem := _syntax_error(str(function))) is not None:
            yield field, f"{field} {_quoted(function)} {problem}; {effect}"
        elif (problem := _unknown_names(str(function))) is not None:
            yield field, f"{field} {_quoted(function)} {problem}; {effect} where the result depends on that"
    for field in _PERCENTAGES:
        value = pool.get(field)
        if value is not None and math.isnan(percentage(value)):
            yield field, f"{field} is {_quoted(value)}, no percentage from 0 to 100; FreeSpaceFilter excludes the pool"
    nodes = accessibility.parse_for_topology(pool)
    if isinstance(nodes, InvalidAccessibility):
        field = next((name for name in sorted(accessibility.FIELDS) if f"$.{name}" in nodes.problem), "node_list")
        yield (
            field,
            f"{field} cannot be read: {plugin_errors.one_line(nodes.problem)}; TopologyFilter excludes the pool",
        )


def percentage(value: object) -> float:
    """Return a reported percentage, from 0 to 100, which may be a text; nan for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return math.nan
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return math.nan
    return number if 0 <= number <= 100 else math.nan


@functools.lru_cache(maxsize=_MAX_TEXTS)
def _syntax_error(function: str) -> str | None:
    """Return why an expression is invalid, None if it is valid."""
    from tonnage.capacity.expressions import parser  # its import takes long, and few processes read functions

    try:
        parser.compiled(function)
    except parser.ExpressionError as error:
        return plugin_errors.one_line(error.message)
    return None


@functools.lru_cache(maxsize=_MAX_TEXTS)
def _unknown_names(function: str) -> str | None:
    """Return which names of a valid expression never have a value, None if there is none."""
    from tonnage.capacity.expressions import attributes, parser

    unknown = [path for path in dict.fromkeys(parser.compiled(function).names) if not attributes.is_known(path)]
    if not unknown:
        return None
    texts = []
    for name in map(".".join, unknown):
        near = difflib.get_close_matches(name, attributes.NAMES, 1, _MIN_SIMILARITY)
        texts.append(f"{name} (is it {near[0]}?)" if near else name)
    return plugin_errors.one_line(f"has {', '.join(texts)}, and there is no such name", 2 * _MAX_QUOTED)


def _quoted(value: object) -> str:
    return plugin_errors.one_line(repr(value), _MAX_QUOTED)
