# SPDX-License-Identifier: Apache-2.0
"""Functions of formulas that accept a single figure or a column of figures.

For a single figure they take a tenth of the time of the numpy functions.
"""

import functools
import math
from collections.abc import Callable
from typing import ParamSpec, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = "float | np.float64 | npt.NDArray[np.float64]"
Bools: TypeAlias = "bool | np.bool_ | npt.NDArray[np.bool_]"

P = ParamSpec("P")
R = TypeVar("R")


def quiet(function: Callable[P, R]) -> Callable[P, R]:
    """Suppress numpy's warnings about results that are ``nan`` or ``inf``, in columns. Single figures cause none."""

    @functools.wraps(function)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> R:
        if args and isinstance(getattr(args[0], "total", args[0]), float):
            return function(*args, **kwargs)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            return function(*args, **kwargs)

    return quiet


def where(condition: Bools, yes: Floats, no: Floats) -> Floats:
    """Return ``yes`` if the condition is true, else ``no``; for columns, in each row."""
    if isinstance(condition, (bool, np.bool_)):
        return yes if condition else no
    return np.where(condition, yes, no)


def finite(value: Floats) -> Bools:
    """Return whether a value is neither ``nan`` nor infinite."""
    return math.isfinite(value) if isinstance(value, float) else np.isfinite(value)


def floor(value: Floats) -> Floats:
    """Round down; ``nan`` and ``inf`` are unchanged."""
    if isinstance(value, float):
        return float(math.floor(value)) if math.isfinite(value) else value
    return np.floor(value)


def least(first: Floats, second: Floats) -> Floats:
    """Return the smaller value; ``nan`` if either is ``nan``."""
    if isinstance(first, float) and isinstance(second, float):
        return first if first < second or first != first else second
    return np.minimum(first, second)


def hundredths(value: Floats) -> Floats:
    """Round to the nearest hundredth, for comparisons (``round`` is more exact); ``nan`` and ``inf`` are unchanged."""
    hundreds = value * 100
    if isinstance(hundreds, float):
        return round(hundreds) / 100 if math.isfinite(hundreds) else hundreds
    return np.rint(hundreds) / 100


@np.errstate(over="ignore", invalid="ignore")
def two_decimals(column: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return a column with the same results as Python's ``round``, which differ slightly from numpy's."""
    hundreds = column * 100
    nearest = np.rint(hundreds)
    rounded = nearest / 100
    # Values that the rounding of the product may have moved past a half, and values that are not numbers.
    uncertain = ~(np.abs(np.abs(hundreds - nearest) - 0.5) > 1e-6 + np.abs(hundreds) * 1e-15)
    if uncertain.any():
        rounded[uncertain] = [round(value, 2) for value in column[uncertain].tolist()]
    return rounded
