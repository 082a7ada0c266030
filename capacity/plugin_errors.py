# SPDX-License-Identifier: Apache-2.0
"""What a plugin did wrong, in words: a short line, whatever it did, that can be printed, stored and sent."""

import asyncio
from typing import Final

import numpy as np

#: What is caught of a plugin: any error, and the attempt to end the process, a task or a generator. Not Ctrl-C, which
#: Python raises wherever the main thread is at.
CAUGHT: Final = (Exception, SystemExit, GeneratorExit, asyncio.CancelledError)

_MOST = 300


def described(error: BaseException) -> str:
    """Return an exception as ``Type: message``. Exceptions can fail to say what they mean."""
    name = type(error).__name__
    try:
        text = str(error)
    except CAUGHT:
        return one_line(f"{name}, whose message cannot be shown")
    return one_line(f"{name}: {text}" if text else name)


def kind(value: object) -> str:
    """Return what sort of value it is, without looking into it: ``a list``, ``an array of bool of shape (3,)``."""
    if type(value) is np.ndarray:
        return one_line(f"an array of {value.dtype} of shape {value.shape}")
    return one_line(f"a {type(value).__name__}")


def one_line(text: str, most: int = _MOST) -> str:
    """Return the text in at most so many characters, all of which can be printed."""
    if len(text) <= most and text.isprintable():
        return text
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= most else f"{line[: most - 3]}..."[:most]
