# SPDX-License-Identifier: Apache-2.0
"""Chain of filters that selects the candidate pools of a request and explains every refusal."""

import functools
import logging
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tonnage.capacity import arithmetic, plugin_errors, units
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.decision import FilterOutcome, NearestMiss, Refusal, Rejection
from tonnage.capacity.explanation import FilterVerdict, PoolVerdict
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request, judged_thin
from tonnage.filters import reason_validation
from tonnage.filters.base import Filter, Mask

LOG = logging.getLogger(__name__)

#: A request whose fields have their defaults.
_PLAIN = Request(request_id="", size_gb=0)


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The pools that each filter left.

    ``masks[0]`` has the pools in the scope of the request, ``masks[i + 1]`` the pools that filter *i* left. Filters
    that did not run, because no pool was left, have no mask. ``failures`` maps the position of each filter that failed
    to its message.
    """

    masks: tuple[Mask, ...]
    failures: Mapping[int, str] = field(default_factory=dict)

    @property
    def remaining(self) -> Mask:
        """Mask of the pools that passed every filter."""
        return self.masks[-1]

    def refused(self, place: int) -> int:
        """Return the number of pools that the filter at position ``place`` refused."""
        if place + 1 >= len(self.masks):
            return 0
        return int(np.count_nonzero(self.masks[place])) - int(np.count_nonzero(self.masks[place + 1]))


class FilterChain:
    """Runs filters one after another and keeps the pools that every filter accepts.

    A filter that raises, or returns anything but one boolean for each pool, refuses all pools of that decision.
    """

    def __init__(self, filters: Iterable[Filter], calculation: Calculation = Calculation.CINDER) -> None:
        self.filters = tuple(filters)
        self._calculation = calculation

    def run(self, pools: PoolTable, request: Request) -> FilterResult:
        """Return the pools that each filter left."""
        masks = [_asked(pools, request)]
        failed: dict[int, str] = {}
        concerned = self._concerned(request)
        for place, plugin in enumerate(self.filters):
            still_in = masks[-1]
            if not still_in.any():
                break
            if plugin not in concerned:
                masks.append(still_in)
                continue
            still_in.flags.writeable = False
            try:
                masks.append(still_in & _checked(plugin.narrow(pools, request, still_in), len(pools)))
            except plugin_errors.CAUGHT as error:
                failed[place] = plugin_errors.described(error)
                _log_failure(plugin.name, failed[place])
                masks.append(np.zeros(len(pools), dtype=np.bool_))
        return FilterResult(tuple(masks), failed)

    def candidates(self, pools: PoolTable, request: Request) -> Mask:
        """Return the pools that :meth:`run` leaves, faster, but without attributing refusals to filters.

        The cached verdicts of all filters that have some come first, then the other filters run.
        """
        try:
            return self._left_by(pools, request, self.filters)
        except plugin_errors.CAUGHT:
            # A full run finds the filter that failed, and whether any pool would have reached it.
            return self.run(pools, request).remaining

    def admitted(self, pools: PoolTable, request: Request) -> Mask:
        """Return the pools that no filter refuses for reasons other than figures: a superset of the candidates."""
        try:
            return self._left_by(pools, request, [each for each in self.filters if not each.looks_at_figures])
        except plugin_errors.CAUGHT:  # it is not known
            return _asked(pools, request)

    def refusal(self, pools: PoolTable, request: Request, result: FilterResult) -> Refusal:
        """Return the refusal of a request without candidates."""
        return Refusal(
            request=request.describe(),
            pools=int(np.count_nonzero(result.masks[0])),
            outcomes=tuple(FilterOutcome(plugin.name, result.refused(i)) for i, plugin in enumerate(self.filters)),
            nearest=self._nearest(pools, request, result),
            pool=request.limited_to(),
        )

    def explain(self, pools: PoolTable, request: Request, result: FilterResult) -> list[PoolVerdict]:
        """Return the verdicts of the filters on every pool in the scope of the request, in table order.

        Unlike a decision this runs every filter that the request concerns on every pool.
        """
        refusals: dict[int, list[FilterVerdict]] = {}
        for place, refused in enumerate(self._refused(pools, request, result)):
            for index in np.flatnonzero(refused).tolist():
                rejection = self._rejection(place, pools, index, request, result)
                refusals.setdefault(index, []).append(FilterVerdict(self.filters[place].name, rejection))
        thin = np.broadcast_to(judged_thin(pools.thin, pools.thick, request.provisioning), len(pools))
        headroom = np.asarray(arithmetic.headroom(pools, thin, self._calculation))
        verdicts = []
        for index in np.flatnonzero(result.masks[0]).tolist():
            verdict = PoolVerdict(
                pools.names[index], headroom=units.to_wire(float(headroom[index])), thin=bool(thin[index])
            )
            if found := refusals.get(index):
                first, *others = found
                verdict = replace(verdict, filter=first.filter, rejection=first.rejection, also=tuple(others))
            verdicts.append(verdict)
        return verdicts

    def judged_by(self, calculation: Calculation) -> "FilterChain":
        """Return a copy of the chain with another calculation."""
        return FilterChain([plugin.judged_by(calculation) for plugin in self.filters], calculation)

    def _left_by(self, pools: PoolTable, request: Request, asked: Collection[Filter]) -> Mask:
        """Return the pools that all filters with cached verdicts and all filters in ``asked`` accept."""
        concerned = self._concerned(request)
        keys = {plugin: key for plugin in concerned if (key := plugin.kept_by(request)) is not None}

        def verdicts(pools: PoolTable) -> Mask:
            mask = np.ones(len(pools), dtype=np.bool_)
            for plugin in keys:
                mask &= _checked(plugin.accepts(pools, request), len(pools))
            return mask

        mask = pools.derived_from_traits((self, *keys.items()), verdicts)
        if (request.pool, request.backend, request.backends) != (None, None, None):
            mask = mask & _asked(pools, request)
        for plugin in concerned:
            if plugin not in keys and plugin in asked:
                mask.flags.writeable = False
                mask = mask & _checked(plugin.narrow(pools, request, mask), len(pools))
        return mask

    def _concerned(self, request: Request) -> list[Filter]:
        """Return the filters that may refuse a pool for this request; see :attr:`Filter.request_fields`."""
        return [
            plugin
            for plugin in self.filters
            if (names := plugin.request_fields) is None
            or any(getattr(request, name) != getattr(_PLAIN, name) for name in names)
        ]

    def _nearest(self, pools: PoolTable, request: Request, result: FilterResult) -> NearestMiss | None:
        """Return the nearest miss: the pool that the fewest filters refuse, first those that judge its kind.

        Of several such pools, a pool that lacks an amount comes before a pool of an unsuitable kind, then the pool that
        passed more filters, then the pool with more headroom.
        """
        kind_misses, misses = self._misses(pools, request, result)
        thin = judged_thin(pools.thin, pools.thick, request.provisioning)
        headroom = np.asarray(arithmetic.headroom(pools, thin, self._calculation))
        candidates = []
        for place in range(len(self.filters)):
            if not result.refused(place):
                continue
            rows = np.flatnonzero(result.masks[place] & ~result.masks[place + 1])
            index = int(rows[np.lexsort((-headroom[rows], misses[rows], kind_misses[rows]))[0]])
            rejection = self._rejection(place, pools, index, request, result)
            lacks_amount = any(isinstance(value, (int, float)) for value in rejection.numbers.values())
            miss = NearestMiss(pools.names[index], self.filters[place].name, rejection)
            candidates.append(((int(kind_misses[index]), int(misses[index]), not lacks_amount, -place), miss))
        return min(candidates, key=lambda candidate: candidate[0])[1] if candidates else None

    def _misses(self, pools: PoolTable, request: Request, result: FilterResult) -> "npt.NDArray[np.int_]":
        """Count the filters that refuse each pool, including filters after the first one that refused it.

        The first row counts those that judge the kind of the pool, the second all filters.
        """
        misses = np.zeros((2, len(pools)), dtype=np.int_)
        for plugin, refused in zip(self.filters, self._refused(pools, request, result), strict=True):
            misses[int(not plugin.judges_kind) :] += refused
        return misses

    def _refused(self, pools: PoolTable, request: Request, result: FilterResult) -> Iterator[Mask]:
        """Yield a mask for each filter: the pools in scope that it refuses, regardless of the other filters."""
        asked, concerned = result.masks[0], self._concerned(request)
        for place, plugin in enumerate(self.filters):
            if plugin not in concerned:
                yield np.zeros(len(pools), dtype=np.bool_)
                continue
            try:
                if place in result.failures:
                    raise RuntimeError(result.failures[place])
                refused = asked & ~_checked(plugin.narrow(pools, request, asked), len(pools))
            except plugin_errors.CAUGHT:  # it failed before, or fails on pools that earlier filters refused
                refused = asked
            if place + 1 < len(result.masks):
                before, after = result.masks[place : place + 2]
                refused = np.where(before, ~after, refused)
            yield refused

    def _rejection(self, place: int, pools: PoolTable, index: int, request: Request, result: FilterResult) -> Rejection:
        plugin = self.filters[place]
        failure = result.failures.get(place)
        if failure is None:
            try:
                return reason_validation.checked(plugin.reason(pools.row(index), request))
            except plugin_errors.CAUGHT as error:
                failure = plugin_errors.described(error)
                _log_failure(plugin.name, failure)
        return Rejection("filter_failed", f"could not be judged, {plugin.name} failed ({failure})")


def _asked(pools: PoolTable, request: Request) -> Mask:
    mask = np.ones(len(pools), dtype=np.bool_)
    if request.pool is not None:
        mask[:] = False
        index = pools.index(request.pool)
        if index is not None:
            mask[index] = True
    elif request.backend is not None:
        mask = pools.on_backends([request.backend])
    return mask if request.backends is None else mask & pools.on_backends(request.backends)


def _checked(mask: object, rows: int) -> Mask:
    # A subclass of ndarray may behave differently: a masked array, for example.
    if type(mask) is not np.ndarray or mask.dtype != np.bool_ or mask.shape != (rows,):
        raise TypeError(f"returned {plugin_errors.kind(mask)}, expected an array of {rows} booleans")
    return mask


@functools.lru_cache(maxsize=1000)
def _log_failure(name: str, failure: str) -> None:
    """Log a failure once for each message: the cache suppresses repetitions in later decisions."""
    LOG.error(
        "Filter %s failed, and refuses the pools that it cannot judge: %s", name, failure, exc_info=sys.exception()
    )
