# SPDX-License-Identifier: Apache-2.0
"""What formulas are written with, beside operators, that serve a single figure and a column of them.

For a single figure these take a tenth of the time that numpy takes.
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
    """Let columns have ``nan`` and ``inf`` without warnings; single figures give none."""

    @functools.wraps(function)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> R:
        if args and isinstance(getattr(args[0], "total", args[0]), float):
            return function(*args, **kwargs)
        with np.errstate(invalid="ignore"):
            return function(*args, **kwargs)

    return quiet


def where(condition: Bools, yes: Floats, no: Floats) -> Floats:
    """Return one or the other."""
    if isinstance(condition, (bool, np.bool_)):
        return yes if condition else no
    return np.where(condition, yes, no)


def finite(value: Floats) -> Bools:
    """Tell what is neither ``nan`` nor infinite."""
    return math.isfinite(value) if isinstance(value, float) else np.isfinite(value)


def floor(value: Floats) -> Floats:
    """Round down; ``nan`` and ``inf`` stay."""
    if isinstance(value, float):
        return float(math.floor(value)) if math.isfinite(value) else value
    return np.floor(value)


def least(one: Floats, other: Floats) -> Floats:
    """Return the smaller; ``nan`` where one of them is."""
    if isinstance(one, float) and isinstance(other, float):
        return one if one < other or one != one else other
    return np.minimum(one, other)


def hundredths(value: Floats) -> Floats:
    """Round to the nearest hundredth; ``nan`` and ``inf`` stay. (For what is compared: ``round`` is more exact.)"""
    hundreds = value * 100
    if isinstance(hundreds, float):
        return round(hundreds) / 100 if math.isfinite(hundreds) else hundreds
    return np.rint(hundreds) / 100


@np.errstate(over="ignore", invalid="ignore")
def two_decimals(column: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return a column rounded as Python's ``round`` does, which numpy's does a little differently."""
    hundreds = column * 100
    nearest = np.rint(hundreds)
    rounded = nearest / 100
    # Where the product's own rounding may have moved it past a half, and where there is no number.
    unsure = ~(np.abs(np.abs(hundreds - nearest) - 0.5) > 1e-6 + np.abs(hundreds) * 1e-15)
    if unsure.any():
        rounded[unsure] = [round(value, 2) for value in column[unsure].tolist()]
    return rounded
