# SPDX-License-Identifier: Apache-2.0
"""Node selectors of Kubernetes: lists of terms, at least one of which has to match.

A term is a list of expressions, which all have to match; a term without expressions matches no node. Names and
semantics are those of Kubernetes' ``NodeSelector``.
"""

import enum
import re
from collections.abc import Mapping

import msgspec

#: The only field of a node that ``matchFields`` may use.
NAME_FIELD = "metadata.name"

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_INT64 = range(-(2**63), 2**63)


class Operator(enum.StrEnum):
    """An operator on the value of a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


class NodeSelectorRequirement(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An expression. ``Gt`` and ``Lt`` compare integers; they match no other values."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError if the operator does not take this number of values."""
        if not self.key:
            raise ValueError("an expression has no key")
        count, subject = len(self.values), f"operator {self.operator} of {self.key}"
        if self.operator in (Operator.IN, Operator.NOT_IN) and not count:
            raise ValueError(f"{subject} needs at least one value")
        if self.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST) and count:
            raise ValueError(f"{subject} takes no values")
        if self.operator in (Operator.GREATER, Operator.LESS) and (
            count != 1 or _parse_integer(self.values[0]) is None
        ):
            raise ValueError(f"{subject} needs one value, a whole number")

    def matches(self, value: str | None) -> bool:
        """Return whether a label with this value matches; None is a missing label."""
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
        number, bound = None if value is None else _parse_integer(value), _parse_integer(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator is Operator.GREATER else number < bound

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"no {self.key}"
            case Operator.GREATER | Operator.LESS:
                return f"{self.key} {'>' if self.operator is Operator.GREATER else '<'} {self.values[0]}"
        negation = "" if self.operator is Operator.IN else "not "
        if len(self.values) == 1:
            return f"{self.key} {'' if not negation else '!'}= {self.values[0]}"
        return f"{self.key} {negation}in ({', '.join(self.values)})"


class NodeSelectorTerm(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Expressions about labels and about fields. The only field is the name."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for an unsupported field, operator or number of values in ``matchFields``."""
        for requirement in self.match_fields:
            if (
                requirement.key != NAME_FIELD
                or requirement.operator not in (Operator.IN, Operator.NOT_IN)
                or len(requirement.values) != 1
            ):
                raise ValueError(f"matchFields takes {NAME_FIELD} with operator In or NotIn and one value")

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node matches all expressions. A term without expressions matches no node."""
        return (
            bool(self.match_expressions or self.match_fields)
            and all(requirement.matches(labels.get(requirement.key)) for requirement in self.match_expressions)
            and all(requirement.matches(name) for requirement in self.match_fields)
        )

    def __str__(self) -> str:
        return ", ".join(map(str, (*self.match_expressions, *self.match_fields))) or "nothing that could match"


class NodeSelector(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A list of terms. At least one of them has to match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...]

    def __post_init__(self) -> None:
        """Raise ValueError if there is no term."""
        if not self.node_selector_terms:
            raise ValueError("nodeSelectorTerms is empty: expected at least one term")

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node matches one of the terms."""
        return any(term.matches(name, labels) for term in self.node_selector_terms)


def _parse_integer(text: str) -> int | None:
    """Return a 64-bit integer, None for any other text."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None
