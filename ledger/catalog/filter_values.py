# SPDX-License-Identifier: Apache-2.0
"""Parsing of text mappings in the filters of clients, such as ``{'key': 'value'}``."""

import ast
import re

from tonnage.capacity import errors

#: Largest number of pairs: each becomes a condition of its own, and databases refuse statements with very many.
MAX_PAIRS = 64

_TEXT = r"""('[^'"\\\n\r]*'|"[^"\\\n\r]*")"""

#: Regular expression of a mapping: a Python dictionary of strings without escapes.
PATTERN = rf"^\{{({_TEXT}: ?{_TEXT}(, ?{_TEXT}: ?{_TEXT}){{0,{MAX_PAIRS - 1}}})?\}}$"

_MAX_SHOWN = 64


def parse(text: str, label: str) -> dict[str, str]:
    """Return the mapping that ``text`` spells.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for any other text; ``label`` names the filter in its message.
    """
    if "\0" in text or not re.fullmatch(PATTERN, text):
        raise errors.InvalidInput(
            f"{label} is {text[:_MAX_SHOWN]!r}: expected {{'key': 'value'}}, at most {MAX_PAIRS} pairs"
        )
    mapping: dict[str, str] = ast.literal_eval(text)
    return mapping
