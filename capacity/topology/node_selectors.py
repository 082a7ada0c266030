# SPDX-License-Identifier: Apache-2.0
"""Node selectors: terms of which one has to match, each of expressions that all have to.

Names and meaning are those of Kubernetes' ``NodeSelector``; a term without expressions matches nothing.
"""

import enum
import re
from collections.abc import Mapping

import msgspec

#: The one field of a node that can be asked for.
NAME_FIELD = "metadata.name"

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBERS = range(-(2**63), 2**63)


class Operator(enum.StrEnum):
    """What is asked of a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


class Requirement(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One expression. ``Gt`` and ``Lt`` compare whole numbers and match nothing else."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a number of values that the operator does not take."""
        if not self.key:
            raise ValueError("an expression has no key")
        given, what = len(self.values), f"operator {self.operator} of {self.key}"
        if self.operator in (Operator.IN, Operator.NOT_IN) and not given:
            raise ValueError(f"{what} needs at least one value")
        if self.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST) and given:
            raise ValueError(f"{what} takes no values")
        if self.operator in (Operator.GREATER, Operator.LESS) and (given != 1 or _number(self.values[0]) is None):
            raise ValueError(f"{what} needs one value, a whole number")

    def matches(self, value: str | None) -> bool:
        """Tell whether a label of that value will do; None is a label that is not there."""
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
        found, bound = None if value is None else _number(value), _number(self.values[0])
        if found is None or bound is None:
            return False
        return found > bound if self.operator is Operator.GREATER else found < bound

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"no {self.key}"
            case Operator.GREATER | Operator.LESS:
                return f"{self.key} {'>' if self.operator is Operator.GREATER else '<'} {self.values[0]}"
        within = "" if self.operator is Operator.IN else "not "
        if len(self.values) == 1:
            return f"{self.key} {'' if not within else '!'}= {self.values[0]}"
        return f"{self.key} {within}in ({', '.join(self.values)})"


class Term(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Expressions about labels and about fields, of which there is one: the name."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a field that cannot be asked for, or not this way."""
        for one in self.match_fields:
            if one.key != NAME_FIELD or one.operator not in (Operator.IN, Operator.NOT_IN) or len(one.values) != 1:
                raise ValueError(f"matchFields takes {NAME_FIELD} with operator In or NotIn and one value")

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Tell whether a node matches all expressions, of which there is at least one."""
        return (
            bool(self.match_expressions or self.match_fields)
            and all(one.matches(labels.get(one.key)) for one in self.match_expressions)
            and all(one.matches(name) for one in self.match_fields)
        )

    def __str__(self) -> str:
        return ", ".join(map(str, (*self.match_expressions, *self.match_fields))) or "nothing that could match"


class NodeSelector(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Terms, one of which has to match."""

    node_selector_terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        """Raise ValueError if there is no term."""
        if not self.node_selector_terms:
            raise ValueError("nodeSelectorTerms is empty: expected at least one term")

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Tell whether a node matches one of the terms."""
        return any(term.matches(name, labels) for term in self.node_selector_terms)


def _number(text: str) -> int | None:
    """Return a whole number of 64 bits, None for anything else."""
    if not _NUMBER.fullmatch(text):
        return None
    found = int(text)
    return found if found in _NUMBERS else None
