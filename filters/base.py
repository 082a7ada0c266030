# SPDX-License-Identifier: Apache-2.0
"""Base classes of filters.

A filter is a class with an entry point in the namespace ``tonnage.filters``. The option ``scheduler_default_filters``
enables it by name. A filter decides which pools can take a request, and gives a reason for every other pool. It has no
state of its own: its verdicts depend only on the pools and the request that it is given, and it changes neither.
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
    for promise in ("kept_by", "looks_at_figures", "judges_kind", "request_fields"):
        if any(_depth(plugin, method) < _depth(plugin, promise) for method in ("accepts", "narrow", "accepts_pool")):
            setattr(plugin, promise, getattr(Filter, promise))


def _depth(plugin: type, name: str) -> int:
    """Return the number of classes in the method resolution order before the first that defines the attribute."""
    places = (place for place, each in enumerate(plugin.__mro__) if name in vars(each))
    return next(places, len(plugin.__mro__))


class Filter(abc.ABC):
    """A filter that evaluates all pools at once."""

    #: Name of the filter in refusals and explanations: the name that enables it, or the class name before loading.
    name: str = ""

    #: Options of the filter, registered in the section ``options_group`` (``[DEFAULT]`` if it is None) before the
    #: filter is created.
    options: ClassVar[Sequence[cfg.Opt]] = ()
    options_group: ClassVar[str | None] = None

    #: Whether verdicts that are not cached may depend on the figures of pools (see
    #: :class:`~tonnage.capacity.pools.Pool`). If so, the scheduler reads the figures that other schedulers may have
    #: changed before it finally refuses a request because of this filter.
    looks_at_figures: ClassVar[bool] = True

    #: Whether a refusal means that the pool is of another kind than the request, and not that it lacks an amount or
    #: cannot be used now. A refusal of the request names a pool of its kind, if there is one.
    judges_kind: ClassVar[bool] = False

    #: The fields of a :class:`~tonnage.capacity.request.Request` without which the filter accepts every pool: a request
    #: in which all of them have their defaults passes without a call of the filter. None: there are no such fields.
    request_fields: ClassVar[Sequence[str] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in vars(cls):
            cls.name = cls.__name__
        _drop_inherited_promises(cls)

    def __init__(self, conf: Any) -> None:
        """Create the filter. ``conf`` has its own options and ``over_provisioning_calculation`` as attributes."""
        self.conf = conf

    @abc.abstractmethod
    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Return a new boolean array: for each row of ``pools``, whether the pool can take the request.

        Any other return value, and any exception, makes this filter refuse every pool of the decision.
        """

    def narrow(self, pools: PoolTable, request: Request, still_in: Mask) -> Mask:
        """Return the same as :meth:`accepts`, but evaluate only the pools that earlier filters accepted.

        Override this method if leaving out the other pools saves work. ``still_in`` is a read-only mask of the accepted
        pools. The values returned for other pools are ignored.
        """
        return self.accepts(pools, request)

    def kept_by(self, request: Request) -> tuple[Hashable, ...] | None:
        """Return the cache key of the verdicts: the properties of the request on which they depend.

        Return None, as here, to disable the cache, so that the filter runs for each decision.

        Return a key only if the verdict on each pool depends on nothing but this key and the pool's own traits (see
        :class:`~tonnage.capacity.pools.Pool`). The verdicts are then cached, and :meth:`accepts` runs again for pools
        whose traits have changed, in a table of only these pools.

        A subclass that overrides :meth:`accepts` inherits neither this method nor :attr:`looks_at_figures` and
        :attr:`request_fields`.
        """
        return None

    def judged_by(self, calculation: Calculation) -> Self:
        """Return a copy of this filter with another ``over_provisioning_calculation``, for what-if questions."""
        conf = copy.copy(self.conf)
        conf.over_provisioning_calculation = calculation
        other = type(self)(conf)
        other.name = self.name
        return other

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Return why this filter refuses ``pool``. Called only for refusals and explanations."""
        return Rejection("refused", "is not accepted")


class PoolFilter(Filter):
    """A filter that evaluates one pool at a time, and only pools that earlier filters accepted."""

    @abc.abstractmethod
    def accepts_pool(self, pool: Pool, request: Request) -> bool:
        """Return whether the pool can take the request."""

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Evaluate every pool."""
        return self.narrow(pools, request, np.ones(len(pools), dtype=np.bool_))

    def narrow(self, pools: PoolTable, request: Request, still_in: Mask) -> Mask:
        """Evaluate the pools in ``still_in``."""
        verdicts = np.zeros(len(pools), dtype=np.bool_)
        for index in np.flatnonzero(still_in).tolist():
            verdict = self.accepts_pool(pools.row(index), request)
            if not isinstance(verdict, (bool, np.bool_)):
                raise TypeError(f"accepts_pool returned {verdict!r}, expected True or False")
            verdicts[index] = verdict
        return verdicts
