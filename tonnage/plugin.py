# SPDX-License-Identifier: Apache-2.0
"""Base classes of plug-ins: the filters, weighers and storage drivers of this package and of others."""

import abc
import copy
import functools
import inspect
import logging
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from oslo_config import cfg

from tonnage.capacity import plugin_errors
from tonnage.capacity.arithmetic import Calculation


def definition_depth(plugin_class: type, name: str) -> int:
    """Return the number of classes in the method resolution order before the first that defines the attribute."""
    depths = (depth for depth, ancestor in enumerate(plugin_class.__mro__) if name in vars(ancestor))
    return next(depths, len(plugin_class.__mro__))


class Plugin(abc.ABC):  # noqa: B024 -- its subclasses have abstract methods
    """A filter, a weigher or a storage driver. ``conf`` has the values of its options as attributes."""

    #: Options of the plug-in, registered before it is created.
    options: ClassVar[Sequence[cfg.Opt]] = ()

    #: The former names of attributes and methods, each with its present name. A plug-in may use either of them.
    former_names: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._pair_former_names()

    def __init__(self, conf: Any) -> None:
        self.conf = conf

    @classmethod
    def _pair_former_names(cls) -> None:
        """Make both names of each pair stand for the nearer definition in the method resolution order.

        Each class has both names, so that ``super()`` finds the same definition under either of them.
        """
        for former, present in cls.former_names.items():
            former_depth, present_depth = definition_depth(cls, former), definition_depth(cls, present)
            if former_depth < present_depth:
                setattr(cls, present, inspect.getattr_static(cls, former))
            elif present_depth < former_depth:
                setattr(cls, former, inspect.getattr_static(cls, present))


class SchedulerPlugin(Plugin):
    """A filter or a weigher. The scheduler creates it again when its configuration changes."""

    #: Name of the plug-in in refusals and explanations: the name that enables it, or the class name before loading.
    name: str = ""

    #: The fields of pools' reports that have an effect only through the plug-ins that read them, such as a rule that an
    #: operator sets for a pool. Schedulers warn of such a field if no enabled plug-in names it here.
    reads: ClassVar[Collection[str]] = ()

    #: The section in which ``options`` are registered, ``[DEFAULT]`` if it is None.
    options_group: ClassVar[str | None] = None

    former_names: ClassVar[Mapping[str, str]] = {"judged_by": "with_calculation"}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in vars(cls):
            cls.name = cls.__name__

    def __init__(self, conf: Any) -> None:
        """Create the plug-in. ``conf`` has its own options and ``over_provisioning_calculation`` as attributes."""
        super().__init__(conf)

    def with_calculation(self, calculation: Calculation) -> Self:
        """Return a copy with another ``over_provisioning_calculation``, for hypothetical decisions."""
        conf = copy.copy(self.conf)
        conf.over_provisioning_calculation = calculation
        plugin = type(self)(conf)
        plugin.name = self.name
        return plugin


def running_in(thread: threading.Thread) -> str | None:
    """Return the name of the plug-in of which a thread runs a method at present, None if it runs none."""
    frame = None if thread.ident is None else sys._current_frames().get(thread.ident)
    while frame is not None:
        plugin = frame.f_locals.get("self")
        if isinstance(plugin, SchedulerPlugin):
            return plugin.name
        frame = frame.f_back
    return None


def checked_column(result: object, rows: int, dtype_kinds: str, elements: str) -> npt.NDArray[Any]:
    """Return the column that a plug-in has computed for a table of pools.

    ``dtype_kinds`` are the letters of numpy for the allowed types, and ``elements`` is their name in errors. Raises
    TypeError for any other result. It may not be of a subclass of arrays, such as one with a mask of its own.
    """
    if type(result) is not np.ndarray or result.dtype.kind not in dtype_kinds or result.shape != (rows,):
        raise TypeError(f"returned {plugin_errors.type_text(result)}, expected an array of {rows} {elements}")
    return result


@functools.lru_cache(maxsize=1000)
def log_failure(log: logging.Logger, text: str, name: str, failure: str) -> None:
    """Log the failure of a plug-in; because of the cache, each message is logged once for all decisions."""
    log.error(text, name, failure, exc_info=sys.exception())
