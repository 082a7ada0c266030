# SPDX-License-Identifier: Apache-2.0
"""The interface of the API to extensions: the objects that they may use, and the parts that they add.

The part ``api`` of an :class:`~tonnage.extension.Extension` names a function ``(conf, context) -> ApiParts``, which the
API calls when the application is built. Example of an extension with one path below ``/v3``::

    def build(conf: cfg.ConfigOpts, context: ApiContext) -> ApiParts:
        return ApiParts(routes=[("/rack-power", RackPower(context.resources), None)])

The core describes its own routes in the same way, see :mod:`tonnage.api.app`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from oslo_config import cfg

from tonnage import enabled_extensions
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.http.annotations import Route
from tonnage.capacity import errors


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolForecast:
    """The forecast for the bound of a pool that is reached first: in words, and the median of the days until then.

    ``full_in_days`` is None beyond the horizon.
    """

    text: str
    full_in_days: float | None


#: Returns the forecasts of all pools that have one, by the names of the pools.
PoolForecasts: TypeAlias = Callable[[], Mapping[str, PoolForecast]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiContext:
    """The objects that an extension may use. All are safe to use from many threads.

    ``health_reasons`` returns the reasons for which ``/healthcheck`` answers 503. ``pool_forecasts`` returns the
    forecasts of all enabled extensions; call it while a request is answered, when all extensions are built.
    """

    resources: ResourceContext
    health_reasons: Callable[[], list[str]]
    pool_forecasts: PoolForecasts


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParts:
    """The parts that an extension adds to the API.

    ``routes`` are paths below ``/v3``, which are also served below ``/v3/{project_id}``. ``unversioned_routes`` are
    full paths. ``files`` are full paths of files for browsers, which the OpenAPI document leaves out. ``statuses`` are
    the HTTP statuses of the extension's own classes of errors. ``pool_forecasts`` are shown with the pools.
    """

    routes: Sequence[Route] = ()
    unversioned_routes: Sequence[Route] = ()
    files: Sequence[Route] = ()
    statuses: Mapping[type[errors.TonnageError], int] = field(default_factory=dict)
    pool_forecasts: PoolForecasts | None = None


def load(
    conf: cfg.ConfigOpts, resources: ResourceContext, health_reasons: Callable[[], list[str]]
) -> dict[str, ApiParts]:
    """Return the parts of the enabled extensions, by the names of the extensions.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an extension that cannot be loaded.
    """
    sources: list[PoolForecasts] = []
    context = ApiContext(resources=resources, health_reasons=health_reasons, pool_forecasts=lambda: _merged(sources))
    parts: dict[str, ApiParts] = {
        name: build(conf, context) for name, build in enabled_extensions.parts(conf, "api").items()
    }
    sources += [part.pool_forecasts for part in parts.values() if part.pool_forecasts is not None]
    return parts


def _merged(sources: Iterable[PoolForecasts]) -> Mapping[str, PoolForecast]:
    return {pool: forecast for source in sources for pool, forecast in source().items()}
