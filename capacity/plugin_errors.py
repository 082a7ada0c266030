# SPDX-License-Identifier: Apache-2.0
"""Texts about the errors of plugins: short lines that can always be printed, stored and sent."""

import asyncio
from typing import Final

import numpy as np

#: The exceptions of plugins that are caught: errors, and attempts to end the process, a task or a generator. Not
#: KeyboardInterrupt, which Python may raise anywhere in the main thread.
CAUGHT: Final = (Exception, SystemExit, GeneratorExit, asyncio.CancelledError)

_MOST = 300


def described(error: BaseException) -> str:
    """Return an exception as ``Type: message``. The text of an exception may itself raise."""
    name = type(error).__name__
    try:
        text = str(error)
    except CAUGHT:
        return one_line(f"{name}, whose message cannot be shown")
    return one_line(f"{name}: {text}" if text else name)


def type_text(value: object) -> str:
    """Return the type of a value as a text, without reading it: ``a list``, ``an array of bool of shape (3,)``."""
    if type(value) is np.ndarray:
        return one_line(f"an array of {value.dtype} of shape {value.shape}")
    return one_line(f"a {type(value).__name__}")


def one_line(text: str, most: int = _MOST) -> str:
    """Return the text on one line of printable characters, shortened to ``most`` characters."""
    if len(text) <= most and text.isprintable():
        return text
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return line if len(line) <= most else f"{line[: most - 3]}..."[:most]
