# SPDX-License-Identifier: Apache-2.0
"""What a filter is.

A filter is a class, found by its entry point in the namespace ``tonnage.filters`` and enabled by its name in
``scheduler_default_filters``. It says which pools a request may go to, and why not to the others. It keeps no state,
works on nothing but the pools and the request it is given, and changes neither.
"""

import abc
import copy
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from oslo_config import cfg

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request

Mask = npt.NDArray[np.bool_]


def _drop_inherited_promises(plugin: type["Filter"]) -> None:
    """Reset the promises about verdicts that a filter inherits from a class whose verdicts it overrides.

    Otherwise a subclass that judges differently would be bound by promises that its author never made.
    """
    for promise in ("kept_by", "looks_at_figures"):
        if any(_depth(plugin, method) < _depth(plugin, promise) for method in ("accepts", "narrow", "accepts_pool")):
            setattr(plugin, promise, getattr(Filter, promise))


def _depth(plugin: type, name: str) -> int:
    """Return the number of classes in the method resolution order before the first that defines the attribute."""
    places = (place for place, each in enumerate(plugin.__mro__) if name in vars(each))
    return next(places, len(plugin.__mro__))


class Filter(abc.ABC):
    """A filter that answers for all pools at once."""

    #: What refusals and explanations call the filter: the name it is enabled by, the class name until it is loaded.
    name: str = ""

    #: Options of the filter, registered in the section ``options_group`` (none: ``[DEFAULT]``) before it is made.
    options: ClassVar[Sequence[cfg.Opt]] = ()
    options_group: ClassVar[str | None] = None

    #: Whether verdicts may depend on figures of pools (see :class:`~tonnage.capacity.pools.Pool`) where they
    #: are not kept. Before such a filter refuses a request for good, those figures are read anew that others may have
    #: changed.
    looks_at_figures: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in vars(cls):
            cls.name = cls.__name__
        _drop_inherited_promises(cls)

    def __init__(self, conf: Any) -> None:
        """``conf`` has as attributes the values of the filter's own options, and ``over_provisioning_calculation``."""
        self.conf = conf

    @abc.abstractmethod
    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Return for each row of ``pools`` whether the request may go there: a new array of as many booleans.

        Whatever else is returned, and any exception, refuses every pool of this decision with the filter's name.
        """

    def narrow(self, pools: PoolTable, request: Request, still_in: Mask) -> Mask:
        """As :meth:`accepts`, for a filter that can save work by leaving out pools that earlier ones refused.

        ``still_in`` is read-only. What is answered for pools that are not in it does not matter.
        """
        return self.accepts(pools, request)

    def kept_by(self, request: Request) -> tuple[Hashable, ...] | None:
        """Return what of the request the verdicts depend on; None, as here, to be asked anew for each decision.

        For a filter that looks at nothing else, and of pools at their traits alone (see
        :class:`~tonnage.capacity.pools.Pool`), each pool by itself. Its verdicts are then kept under that value, and
        :meth:`accepts` is asked again for pools whose traits have changed, in a table of these alone.
        """
        return None

    def judged_by(self, calculation: Calculation) -> Self:
        """Return this filter as it is under another ``over_provisioning_calculation``, for what-if questions."""
        conf = copy.copy(self.conf)
        conf.over_provisioning_calculation = calculation
        other = type(self)(conf)
        other.name = self.name
        return other

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Tell why this filter refuses ``pool``; asked only when somebody wants to know."""
        return Rejection("refused", "is not accepted")


class PoolFilter(Filter):
    """A filter that looks at one pool at a time, and only at those that are still in."""

    @abc.abstractmethod
    def accepts_pool(self, pool: Pool, request: Request) -> bool:
        """Tell whether the request may go to this pool."""

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Ask for every pool."""
        return self.narrow(pools, request, np.ones(len(pools), dtype=np.bool_))

    def narrow(self, pools: PoolTable, request: Request, still_in: Mask) -> Mask:
        """Ask for the pools that are still in."""
        verdicts = np.zeros(len(pools), dtype=np.bool_)
        for index in np.flatnonzero(still_in).tolist():
            verdict = self.accepts_pool(pools.row(index), request)
            if not isinstance(verdict, (bool, np.bool_)):
                raise TypeError(f"accepts_pool returned {verdict!r}, expected True or False")
            verdicts[index] = verdict
        return verdicts
