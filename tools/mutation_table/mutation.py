# SPDX-License-Identifier: Apache-2.0
"""A change of one line that breaks a rule."""

import dataclasses
from collections.abc import Sequence

from mutation_table import guards


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A change of the code that breaks one rule.

    ``old`` is the text in ``file`` that implements the rule, ``new`` its replacement, with which at least one of
    ``tests`` must fail.
    """

    rule: str
    file: str
    old: str
    new: str
    tests: Sequence[str] = (guards.MODEL,)
    #: Whether ``--quick`` includes the mutation.
    quick: bool = False
