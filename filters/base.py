# SPDX-License-Identifier: Apache-2.0
"""Base classes of filters.

A filter is a class with an entry point in the namespace ``tonnage.filters``. The option ``scheduler_default_filters``
enables it by name. A filter decides which pools can take a request, and gives a reason for every other pool. It has no
state of its own: its verdicts depend only on the pools and the request that it is given, and it changes neither.
"""

import abc
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.plugin import SchedulerPlugin, definition_depth

Mask = npt.NDArray[np.bool_]


class Filter(SchedulerPlugin):
    """A filter that evaluates all pools at once."""

    #: Whether verdicts that are not cached may depend on the figures of pools (see
    #: :class:`~tonnage.capacity.pools.Pool`). If so, the scheduler reads the figures that other schedulers may have
    #: changed before it finally refuses a request because of this filter.
    reads_figures: ClassVar[bool] = True

    #: Whether a refusal means that the pool is of an unsuitable category, and not that it lacks an amount or cannot be
    #: used now. A refusal of the request names a pool of a suitable category, if there is one, and counts the other
    #: pools for this filter, even if a filter before it refuses them too.
    is_categorical: ClassVar[bool] = False

    #: The fields of a :class:`~tonnage.capacity.request.Request` without which the filter accepts every pool: a request
    #: in which all of them have their defaults passes without a call of the filter. None: there are no such fields.
    trigger_fields: ClassVar[Sequence[str] | None] = None

    former_names: ClassVar[Mapping[str, str]] = {
        **SchedulerPlugin.former_names,
        "kept_by": "cache_key",
        "looks_at_figures": "reads_figures",
        "judges_kind": "is_categorical",
        "request_fields": "trigger_fields",
    }

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._reset_inherited_promises()

    @classmethod
    def _reset_inherited_promises(cls) -> None:
        """Reset the promises about verdicts that the filter inherits from a class whose verdicts it overrides.

        Otherwise a subclass with other verdicts would be bound by promises that its author never made.
        """
        depth = min(definition_depth(cls, method) for method in ("accepts", "narrow", "accepts_pool"))
        for promise in ("cache_key", "reads_figures", "is_categorical", "trigger_fields"):
            if depth < definition_depth(cls, promise):
                setattr(cls, promise, getattr(Filter, promise))
        cls._pair_former_names()

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

    def cache_key(self, request: Request) -> tuple[Hashable, ...] | None:
        """Return the cache key of the verdicts: the properties of the request on which they depend.

        Return None, as here, to disable the cache, so that the filter runs for each decision.

        Return a key only if the verdict on each pool depends on nothing but this key and the pool's own traits (see
        :class:`~tonnage.capacity.pools.Pool`). The verdicts are then cached, and :meth:`accepts` runs again for pools
        whose traits have changed, in a table of only these pools.

        A subclass that overrides :meth:`accepts` inherits neither this method nor :attr:`reads_figures`,
        :attr:`is_categorical` and :attr:`trigger_fields`.
        """
        return None

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Return why this filter refuses ``pool``. Called only for refusals and explanations."""
        return Rejection("refused", "is not accepted")


class PoolFilter(Filter):
    """A filter that evaluates one pool at a time, and only pools that earlier filters accepted."""

    @abc.abstractmethod
    def accepts_pool(self, pool: Pool, request: Request) -> bool:
        """Return whether the pool can take the request."""

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        return self.narrow(pools, request, np.ones(len(pools), dtype=np.bool_))

    def narrow(self, pools: PoolTable, request: Request, still_in: Mask) -> Mask:
        verdicts = np.zeros(len(pools), dtype=np.bool_)
        for index in np.flatnonzero(still_in).tolist():
            verdict = self.accepts_pool(pools.row(index), request)
            if not isinstance(verdict, (bool, np.bool_)):
                raise TypeError(f"accepts_pool returned {verdict!r}, expected True or False")
            verdicts[index] = verdict
        return verdicts
