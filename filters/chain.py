# SPDX-License-Identifier: Apache-2.0
"""Chain of filters that selects the candidate pools of a request and explains every refusal."""

import logging
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tonnage.capacity import arithmetic, plugin_errors, units
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.decision import FilterOutcome, NearestMiss, Refusal, Rejection
from tonnage.capacity.explanation import FilterVerdict, PoolVerdict
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Operation, Request, judged_thin
from tonnage.filters import reason_validation
from tonnage.filters.base import Filter, Mask
from tonnage.plugin import checked_column, log_failure

LOG = logging.getLogger(__name__)

_FAILURE = "Filter %s failed, and refuses the pools that it cannot judge: %s"

#: A request whose fields have their defaults.
_PLAIN = Request(request_id="", size_gb=0)


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The pools that each filter accepted.

    ``masks[0]`` has the pools in the scope of the request, ``masks[i + 1]`` the pools of ``masks[i]`` that filter *i*
    accepted. Filters that did not run, because no pool remained, have no mask. ``failures`` maps the position of each
    filter that failed to its message.
    """

    masks: tuple[Mask, ...]
    failures: Mapping[int, str] = field(default_factory=dict)

    @property
    def remaining(self) -> Mask:
        """Mask of the pools that passed every filter."""
        return self.masks[-1]


@dataclass(frozen=True, slots=True)
class _Judgement:
    """The pools in the scope of a request that one filter refuses, all of them if it ``failed``."""

    refused: Mask
    failed: bool = False


class FilterChain:
    """Runs filters one after another and keeps the pools that every filter accepts.

    A filter that raises, or returns anything but one boolean for each pool, refuses all pools of that decision.
    """

    def __init__(self, filters: Iterable[Filter], calculation: Calculation = Calculation.CINDER) -> None:
        self.filters = tuple(filters)
        self._calculation = calculation

    def run(self, pools: PoolTable, request: Request) -> FilterResult:
        """Return the pools that each filter accepted."""
        masks = [_in_scope(pools, request)]
        failed: dict[int, str] = {}
        concerned = self._concerned(request)
        for position, plugin in enumerate(self.filters):
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
                failed[position] = plugin_errors.described(error)
                log_failure(LOG, _FAILURE, plugin.name, failed[position])
                masks.append(np.zeros(len(pools), dtype=np.bool_))
        return FilterResult(tuple(masks), failed)

    def candidates(self, pools: PoolTable, request: Request) -> Mask:
        """Return the remaining pools of :meth:`run`, faster, but without attributing refusals to filters.

        It applies the cached verdicts first, then it runs the filters without a cache.
        """
        try:
            return self._accepted_by(pools, request, self.filters)
        except plugin_errors.CAUGHT:
            # A full run finds the filter that failed, and whether any pool would have reached it.
            return self.run(pools, request).remaining

    def eligible(self, pools: PoolTable, request: Request) -> Mask:
        """Return the pools that no filter refuses for reasons other than figures: a superset of the candidates."""
        try:
            return self._accepted_by(pools, request, [plugin for plugin in self.filters if not plugin.reads_figures])
        except plugin_errors.CAUGHT:  # the answer is unknown
            return _in_scope(pools, request)

    def refusal(self, pools: PoolTable, request: Request, result: FilterResult) -> Refusal:
        """Return the refusal of a request without candidates.

        A pool counts for the first categorical filter that refuses it, otherwise for the first filter: a full pool of
        another type would not help if it had room. The outcomes of categorical filters come first. The pools that a
        volume is to leave count only if there are no others.
        """
        result = _without_sources(pools, request, result)
        judgements = list(self._judgements(pools, request, result))
        counted = self._counted(judgements, result)
        return Refusal(
            request=request.describe(),
            pools=int(np.count_nonzero(result.masks[0])),
            outcomes=tuple(
                FilterOutcome(self.filters[position].name, int(np.count_nonzero(refused)))
                for position, refused in counted.items()
            ),
            nearest=self._nearest(pools, request, result, judgements, counted),
            pool=request.limited_to(),
        )

    def explain(self, pools: PoolTable, request: Request, result: FilterResult) -> list[PoolVerdict]:
        """Return the verdicts of the filters on every pool in the scope of the request, in table order.

        Unlike a decision this runs every filter that the request concerns on every pool.
        """
        refusals: dict[int, list[FilterVerdict]] = {}
        judgements = list(self._judgements(pools, request, result))
        for position in self._categorical_first(judgements):
            for index in np.flatnonzero(judgements[position].refused).tolist():
                rejection = self._rejection(position, pools, index, request, result)
                refusals.setdefault(index, []).append(FilterVerdict(self.filters[position].name, rejection))
        thin = np.broadcast_to(judged_thin(pools.thin, pools.thick, request.provisioning), len(pools))
        headroom = np.asarray(arithmetic.headroom(pools, thin, self._calculation))
        verdicts = []
        for index in np.flatnonzero(result.masks[0]).tolist():
            verdict = PoolVerdict(
                pools.names[index], headroom=units.to_wire(float(headroom[index])), thin=bool(thin[index])
            )
            if filter_verdicts := refusals.get(index):
                first, *further = filter_verdicts
                verdict = replace(verdict, filter=first.filter, rejection=first.rejection, also=tuple(further))
            verdicts.append(verdict)
        return verdicts

    def with_calculation(self, calculation: Calculation) -> "FilterChain":
        """Return a copy of the chain with another calculation."""
        return FilterChain([plugin.with_calculation(calculation) for plugin in self.filters], calculation)

    def _accepted_by(self, pools: PoolTable, request: Request, filters: Collection[Filter]) -> Mask:
        """Return the pools that all filters with cached verdicts and all of ``filters`` accept."""
        _, mask, uncached = self.cached_verdicts(pools, request)
        if (request.pool, request.backend, request.backends) != (None, None, None):
            mask = mask & _in_scope(pools, request)
        for plugin in uncached:
            if plugin in filters:
                mask.flags.writeable = False
                mask = mask & _checked(plugin.narrow(pools, request, mask), len(pools))
        return mask

    def cached_verdicts(self, pools: PoolTable, request: Request) -> tuple[Hashable, Mask, list[Filter]]:
        """Return the pools that all filters with cached verdicts accept, whatever the scope of the request.

        The first value is the key of these verdicts, the last are the filters that have to be asked for each decision.
        Raises the exceptions of filters.
        """
        concerned = self._concerned(request)
        keys = {plugin: key for plugin in concerned if (key := plugin.cache_key(request)) is not None}

        def verdicts(pools: PoolTable) -> Mask:
            mask = np.ones(len(pools), dtype=np.bool_)
            for plugin in keys:
                mask &= _checked(plugin.accepts(pools, request), len(pools))
            return mask

        key = (self, *keys.items())
        return key, pools.derived_from_traits(key, verdicts), [plugin for plugin in concerned if plugin not in keys]

    def _concerned(self, request: Request) -> list[Filter]:
        """Return the filters that may refuse a pool for this request; see :attr:`Filter.trigger_fields`."""
        return [
            plugin
            for plugin in self.filters
            if (names := plugin.trigger_fields) is None
            or any(getattr(request, name) != getattr(_PLAIN, name) for name in names)
        ]

    def _nearest(
        self,
        pools: PoolTable,
        request: Request,
        result: FilterResult,
        judgements: Sequence[_Judgement],
        counted: Mapping[int, Mask],
    ) -> NearestMiss | None:
        """Return the nearest miss: the pool that the fewest categorical filters refuse, then the fewest filters.

        Of several such pools, a pool that lacks an amount comes before a pool of an unsuitable category, then the pool
        that passed more filters, then the pool with more headroom.
        """
        category_misses, misses = self._misses(judgements, len(pools))
        thin = judged_thin(pools.thin, pools.thick, request.provisioning)
        headroom = np.asarray(arithmetic.headroom(pools, thin, self._calculation))
        candidates = []
        for position, refused in counted.items():
            rows = np.flatnonzero(refused)
            if not rows.size:
                continue
            index = int(rows[np.lexsort((-headroom[rows], misses[rows], category_misses[rows]))[0]])
            rejection = self._rejection(position, pools, index, request, result)
            lacks_amount = any(isinstance(value, (int, float)) for value in rejection.numbers.values())
            miss = NearestMiss(pools.names[index], self.filters[position].name, rejection)
            candidates.append(((int(category_misses[index]), int(misses[index]), not lacks_amount, -position), miss))
        return min(candidates, key=lambda candidate: candidate[0])[1] if candidates else None

    def _misses(self, judgements: Sequence[_Judgement], rows: int) -> "npt.NDArray[np.int_]":
        """Count the filters that refuse each pool, including filters after the first one that refused it.

        The first row counts the categorical filters, the second all filters.
        """
        misses = np.zeros((2, rows), dtype=np.int_)
        for plugin, judgement in zip(self.filters, judgements, strict=True):
            misses[int(not plugin.is_categorical) :] += judgement.refused
        return misses

    def _counted(self, judgements: Sequence[_Judgement], result: FilterResult) -> dict[int, Mask]:
        """Return the pools that count for each filter in a refusal, by its position; categorical filters come first.

        Other filters count the pools that they refused in the decision, each pool once.
        """
        uncounted = result.masks[0]
        counted: dict[int, Mask] = {}
        for position in self._categorical_first(judgements):
            if self._names_category(position, judgements):
                refused = judgements[position].refused
            elif position + 1 < len(result.masks):
                refused = result.masks[position] & ~result.masks[position + 1]
            else:
                refused = np.zeros_like(uncounted)
            counted[position] = uncounted & refused
            uncounted = uncounted & ~refused
        return counted

    def _categorical_first(self, judgements: Sequence[_Judgement]) -> list[int]:
        """Return the positions of the filters in their order, those that name the category of a pool first."""
        return sorted(range(len(judgements)), key=lambda position: not self._names_category(position, judgements))

    def _names_category(self, position: int, judgements: Sequence[_Judgement]) -> bool:
        """Return whether a filter refuses pools of an unsuitable category, and has not failed."""
        return self.filters[position].is_categorical and not judgements[position].failed

    def _judgements(self, pools: PoolTable, request: Request, result: FilterResult) -> Iterator[_Judgement]:
        """Yield the judgement of each filter on the pools in scope, regardless of the other filters."""
        in_scope, concerned = result.masks[0], self._concerned(request)
        for position, plugin in enumerate(self.filters):
            if plugin not in concerned:
                yield _Judgement(np.zeros(len(pools), dtype=np.bool_))
                continue
            failed = position in result.failures
            refused = in_scope
            if not failed:
                try:
                    refused = in_scope & ~_checked(plugin.narrow(pools, request, in_scope), len(pools))
                except plugin_errors.CAUGHT:  # it fails on pools that earlier filters refused
                    failed = True
            if position + 1 < len(result.masks):
                before, after = result.masks[position : position + 2]
                refused = np.where(before, ~after, refused)
            yield _Judgement(refused, failed)

    def _rejection(
        self, position: int, pools: PoolTable, index: int, request: Request, result: FilterResult
    ) -> Rejection:
        plugin = self.filters[position]
        failure = result.failures.get(position)
        if failure is None:
            try:
                return reason_validation.checked(plugin.reason(pools.row(index), request))
            except plugin_errors.CAUGHT as error:
                failure = plugin_errors.described(error)
                log_failure(LOG, _FAILURE, plugin.name, failure)
        return Rejection("filter_failed", f"could not be judged, {plugin.name} failed ({failure})")


def _in_scope(pools: PoolTable, request: Request) -> Mask:
    mask = np.ones(len(pools), dtype=np.bool_)
    if request.pool is not None:
        mask[:] = False
        index = pools.index(request.pool)
        if index is not None:
            mask[index] = True
    elif request.backend is not None:
        mask = pools.on_backends([request.backend])
    return mask if request.backends is None else mask & pools.on_backends(request.backends)


def _without_sources(pools: PoolTable, request: Request, result: FilterResult) -> FilterResult:
    """Return the result without the pools that have a copy of a volume that is to move, unless no others remain."""
    if request.operation is not Operation.MIGRATE:
        return result
    is_other = np.array([name not in request.attempted for name in pools.names], dtype=np.bool_)
    if not (result.masks[0] & is_other).any():
        return result
    return FilterResult(tuple(mask & is_other for mask in result.masks), result.failures)


def _checked(mask: object, rows: int) -> Mask:
    return checked_column(mask, rows, "b", "booleans")
