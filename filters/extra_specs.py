# SPDX-License-Identifier: Apache-2.0
"""The operators of volume type extra specs.

A spec begins with an operator, or is the exact value that a capability must have:

=============================  =====================================================================
``<is> yes``                   the same truth value
``<in> text``                  the text is part of the value
``<or> a <or> b``              one of these values
``<all-in> a b``               all of these elements are in the value, which is a list
``s==`` ``s!=`` ``s<`` ...     comparison as text
``==`` ``!=`` ``>=`` ``<=``    comparison as numbers
``=``                          comparison as numbers with ``>=``, for historical reasons
=============================  =====================================================================

The operators and their meaning come from the Block Storage scheduler and, for ``<all-in>``, from ``oslo.utils``. As
there, only the first word after a binary operator counts. Values that cannot be compared do not match, and raise no
error.
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
    """Return the predicate on a capability's value that a spec expresses.

    A list matches if one of its elements matches; ``<all-in>`` checks the list as a whole.
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
