# SPDX-License-Identifier: Apache-2.0
"""Suggestions for names of backends and pools that do not exist."""

import difflib
import re
from collections.abc import Collection

#: Most names in a text.
_MOST_NAMES = 5


def advice(text: str, full_names: Collection[str], otherwise: str) -> str:
    """Return the end of a message about an unknown name: the similar full names, or ``otherwise`` without any.

    A full name is ``host@backend`` or ``host@backend#pool``; its last part is compared as well.
    """
    by_name = {re.split("[@#]", name)[-1]: name for name in full_names} | {name: name for name in full_names}
    similar = dict.fromkeys(by_name[match] for match in difflib.get_close_matches(text, by_name))
    return f"did you mean {listed(similar)}?" if similar else otherwise


def listed(names: Collection[str]) -> str:
    """Return the first names as a phrase."""
    shown = list(names)[:_MOST_NAMES]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")
