# SPDX-License-Identifier: Apache-2.0
"""Texts for people, such as an error of a storage. A text never keeps the row from being written."""

import contextlib
import contextvars
from collections.abc import Iterator

import sqlalchemy as sa

from tonnage.ledger.models.base import exact_text

#: Most bytes in UTF-8 of a column without a length: that is all that MariaDB's TEXT takes.
_MOST_BYTES = 2**16 - 1

_only_ascii: contextvars.ContextVar[bool] = contextvars.ContextVar("only_ascii", default=False)


class FreeText(sa.TypeDecorator[str]):
    """The type of a column with text for people, from any source, of at most ``length`` characters or 64 KiB.

    A text is cut to that length, NUL and characters that UTF-8 cannot encode become ``?``.
    """

    impl: sa.types.TypeEngine[str] | type[sa.types.TypeEngine[str]] = sa.Text
    cache_ok = True

    def __init__(self, length: int | None = None) -> None:
        super().__init__()
        self.impl = exact_text(length)
        self.length = length

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Return a text that the column takes."""
        if value is None:
            return None
        text = storable_text(value)
        if _only_ascii.get():
            text = text.encode("ascii", "backslashreplace").decode()
        if self.length is None:
            return text.encode()[:_MOST_BYTES].decode(errors="ignore")
        return text[: self.length]


def storable_text(text: str) -> str:
    """Return text that every database stores: NUL and characters that UTF-8 cannot encode become ``?``."""
    return text.encode(errors="replace").decode().replace("\0", "?")


def is_storable(text: str) -> bool:
    """Return whether a text is stored without a change; inside :func:`only_ascii` only one of ASCII is."""
    return storable_text(text) == text and (text.isascii() or not _only_ascii.get())


@contextlib.contextmanager
def only_ascii() -> Iterator[None]:
    """Write texts for people with escapes in place of all characters that are not in ASCII, in this thread.

    A table with a wrong character set does not take other characters.
    """
    token = _only_ascii.set(True)
    try:
        yield
    finally:
        _only_ascii.reset(token)
