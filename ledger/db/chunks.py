# SPDX-License-Identifier: Apache-2.0
"""Many values in few statements: PostgreSQL takes at most 65,535 parameters in one, SQLite half as many."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

#: How many values go into one statement. With more of them it is no faster.
AT_A_TIME = 1000


def cut(values: Iterable[T]) -> Iterator[list[T]]:
    """Return the values in their order, in as many lists as statements are needed; none for no values."""
    rest = iter(values)
    while part := list(islice(rest, AT_A_TIME)):
        yield part
