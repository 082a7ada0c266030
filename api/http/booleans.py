# SPDX-License-Identifier: Apache-2.0
"""True and false as clients spell them."""

from collections.abc import Mapping

#: The words, as oslo knows them, in the spellings that there are.
WORDS: Mapping[str, bool] = {
    spelling: value
    for value, words in ((True, "true yes on t y 1"), (False, "false no off f n 0"))
    for word in words.split()
    for spelling in (word, word.capitalize(), word.upper())
}

#: What a field of a body may hold: one of the words, the same without quotes, or nothing, which is false.
VALUES: tuple[object, ...] = (None, True, False, 0, 1, *WORDS)


def parse(value: object) -> bool:
    """Return what one of :data:`VALUES` means. Raises :class:`ValueError` for anything else."""
    if isinstance(value, str) and value in WORDS:
        return WORDS[value]
    if value is None or value in (0, 1):
        return bool(value)
    raise ValueError("neither true nor false")
