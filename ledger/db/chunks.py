# SPDX-License-Identifier: Apache-2.0
"""Lists of values split into chunks of the size that one SQL statement takes.

PostgreSQL takes at most 65,535 parameters in one statement, SQLite half as many.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

#: Number of values in one statement. Larger statements are no faster.
CHUNK_SIZE = 1000


def split(values: Iterable[T]) -> Iterator[list[T]]:
    """Yield the values in their order, in lists of at most :data:`AT_A_TIME`; yield nothing for no values."""
    remaining = iter(values)
    while chunk := list(islice(remaining, CHUNK_SIZE)):
        yield chunk
