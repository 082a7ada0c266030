# SPDX-License-Identifier: Apache-2.0
"""The small language of volume type extra specs.

A spec begins with an operator, or is the exact value that a capability must have:

=============================  =====================================================================
``<is> yes``                   the same truth value
``<in> text``                  the text is part of the value
``<or> a <or> b``              one of these
``<all-in> a b``               all of these are in the (list) value
``s==`` ``s!=`` ``s<`` ...     comparison as text
``==`` ``!=`` ``>=`` ``<=``    comparison as numbers
``=``                          at least that number, for historical reasons
=============================  =====================================================================

Operators and their meaning are those of the Block Storage scheduler (and, for ``<all-in>``, of ``oslo.utils``),
including that only the first word after an operator of two operands counts. What cannot be compared does not match;
nothing raises.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any

from oslo_utils import strutils

Predicate = Callable[[Any], bool]


def _numbers(compare: Callable[[float, float], bool]) -> Callable[[Any, str], bool]:
    return lambda value, word: compare(float(value), float(word))


def _is(value: Any, word: str) -> bool:
    return strutils.bool_from_string(value) is strutils.bool_from_string(word)


def _in(value: Any, word: str) -> bool:
    return word in value


_BINARY: dict[str, Callable[[Any, str], bool]] = {
    "<is>": _is,
    "<in>": _in,
    "=": _numbers(operator.ge),
    "==": _numbers(operator.eq),
    "!=": _numbers(operator.ne),
    ">=": _numbers(operator.ge),
    "<=": _numbers(operator.le),
    "s==": operator.eq,
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
}


@functools.lru_cache(maxsize=4096)
def compiled(spec: str) -> Predicate:
    """Return the predicate on a capability that a spec stands for.

    A list matches where one of its elements does; ``<all-in>`` looks at the list as a whole.
    """
    words = spec.split()
    name = words[0] if words else ""
    if name == "<all-in>":
        return functools.partial(_has_all, words[1:])
    if name == "<or>":
        return functools.partial(_any_element, functools.partial(_equals_one_of, words[1::2]))
    if name in _BINARY:
        return functools.partial(_any_element, functools.partial(_compares, _BINARY[name], words[1:2]))
    return functools.partial(_any_element, functools.partial(_equals_one_of, [spec]))


def _any_element(matches: Predicate, value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(matches(element) for element in value)
    return matches(value)


def _equals_one_of(words: list[str], value: Any) -> bool:
    return any(bool(word == value) for word in words)


def _has_all(words: list[str], value: Any) -> bool:
    elements = value if isinstance(value, (list, tuple)) else [value]
    return bool(words) and all(word in elements for word in words)


def _compares(method: Callable[[Any, str], bool], words: list[str], value: Any) -> bool:
    if value is None or not words:
        return False
    try:
        return bool(method(value, words[0]))
    except (TypeError, ValueError, OverflowError):
        return False
