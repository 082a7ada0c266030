# SPDX-License-Identifier: Apache-2.0
"""The words for true and false that clients send."""

from collections.abc import Mapping

#: The words that oslo accepts, in lower case, capitalized and in upper case.
WORDS: Mapping[str, bool] = {
    variant: value
    for value, words in ((True, "true yes on t y 1"), (False, "false no off f n 0"))
    for word in words.split()
    for variant in (word, word.capitalize(), word.upper())
}

#: The accepted values of a field: the words, booleans, 0, 1, and null, which is false.
VALUES: tuple[object, ...] = (None, True, False, 0, 1, *WORDS)


def parse(value: object) -> bool:
    """Return one of :data:`VALUES` as a boolean. Raises :class:`ValueError` for any other value."""
    if isinstance(value, str) and value in WORDS:
        return WORDS[value]
    if value is None or value in (0, 1):
        return bool(value)
    raise ValueError("neither true nor false")
