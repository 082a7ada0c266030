# SPDX-License-Identifier: Apache-2.0
"""The rows of the ledger's overviews for commands: read in SQL with a configuration, otherwise by the REST API."""

import argparse
import contextlib
import dataclasses
import datetime
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Protocol

from oslo_config import cfg
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.cli import ledger_access
from tonnage.cli.rest import connection_arguments
from tonnage.cli.rest.api_client import ApiClient
from tonnage.ledger.catalog import refusals
from tonnage.ledger.catalog.refusals import RefusalCount, RefusalFilter
from tonnage.ledger.inventory import names
from tonnage.ledger.inventory.overviews import OVERVIEWS

_REFUSALS = "/scheduler-stats/refusals"

#: Most refusals in one answer of the REST API.
_MOST_REFUSALS = 9999


class LedgerRows(Protocol):
    """The source of the rows of overviews."""

    def rows(self, overview: str, **filters: str | None) -> list[Any]:
        """Return the rows of an overview. Filters that are None are left out.

        Raises :class:`~tonnage.capacity.errors.NotFound` for the name of a missing object in a filter.
        """

    def refusals(self, refusal_filter: RefusalFilter, limit: int | None) -> list[Any]:
        """Return the newest recorded refusals that match, at most ``limit`` of them, the newest first.

        Raises :class:`~tonnage.capacity.errors.NotFound` for the name of a missing pool.
        """

    def refusal_counts(self, refusal_filter: RefusalFilter) -> list[RefusalCount]:
        """Return the numbers of the refusals that match by day and reason."""


class _SqlRows:
    """Rows of one session, all of the same state of the ledger."""

    def __init__(self, session: orm.Session, down_time: float) -> None:
        self._session, self._down_time = session, down_time

    def rows(self, overview: str, **filters: str | None) -> list[Any]:
        """Return the rows of an overview."""
        values = {name: value for name, value in filters.items() if value is not None}
        return list(OVERVIEWS[overview].read(self._session, values, self._down_time))

    def refusals(self, refusal_filter: RefusalFilter, limit: int | None) -> list[Any]:
        """Return refusals."""
        self._require(refusal_filter)
        return refusals.load(self._session, refusal_filter, limit)

    def refusal_counts(self, refusal_filter: RefusalFilter) -> list[RefusalCount]:
        """Return numbers of refusals."""
        self._require(refusal_filter)
        return refusals.count(self._session, refusal_filter)

    def _require(self, refusal_filter: RefusalFilter) -> None:
        if refusal_filter.pool is not None:
            names.require_pool_or_backend(self._session, refusal_filter.pool)


class _RestRows:
    """Rows of the REST API. ``service_down_time`` is that of its configuration."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def rows(self, overview: str, **filters: str | None) -> list[Any]:
        """Return the rows of an overview, of all its pages."""
        rows = page = self._page(overview, filters)
        while page and OVERVIEWS[overview].has_pages:
            page = self._page(overview, {**filters, "after": page[-1].id})
            rows = rows + page
        return rows

    def refusals(self, refusal_filter: RefusalFilter, limit: int | None) -> list[Any]:
        """Return refusals."""
        most = str(min(limit or _MOST_REFUSALS, _MOST_REFUSALS))
        objects = self._client.get(_REFUSALS, "refusals", limit=most, **dataclasses.asdict(refusal_filter))
        return [as_row(fields) for fields in objects]

    def refusal_counts(self, refusal_filter: RefusalFilter) -> list[RefusalCount]:
        """Return numbers of refusals."""
        criteria = dataclasses.asdict(refusal_filter)
        objects = self._client.get(_REFUSALS, "refusal_counts", summary="true", **criteria)
        return [
            RefusalCount(fields.day, fields.verb, fields.filter, fields.code, fields.refusals, fields.last_at)
            for fields in map(as_row, objects)
        ]

    def _page(self, overview: str, filters: dict[str, str | None]) -> list[Any]:
        objects = self._client.get(f"/scheduler-stats/ledger/{overview}", "rows", **filters)
        try:
            return OVERVIEWS[overview].from_objects(objects)
        except (KeyError, TypeError, ValueError) as error:
            raise errors.Unavailable(
                f"the REST API answers rows of {overview} that this command cannot read ({error}): use the command of "
                "the same release"
            ) from None


def over_rest(client: ApiClient) -> LedgerRows:
    """Return the rows that a REST API has."""
    return _RestRows(client)


@contextlib.contextmanager
def source(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> Iterator[LedgerRows]:
    """Return the source of rows that the command line, the environment or the configuration names.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for a missing or outdated database.
    """
    url = connection_arguments.ledger_url(conf, arguments.url)
    if url is not None:
        yield _RestRows(ApiClient(url, cloud=arguments.os_cloud))
        return
    with ledger_access.connect(conf).reading(snapshot=True) as session:
        yield _SqlRows(session, conf.service_down_time)


def read(conf: cfg.ConfigOpts, arguments: argparse.Namespace, overview: str, **filters: str | None) -> list[Any]:
    """Return the rows of one overview, see :func:`source` and :meth:`LedgerRows.rows`."""
    with source(conf, arguments) as ledger:
        return ledger.rows(overview, **filters)


def as_row(fields: Mapping[str, Any]) -> Any:
    """Return an object of the REST API as a row, with its times as such, and the age of one that has ``created_at``."""
    row = SimpleNamespace(**fields)
    for name, value in fields.items():
        if name.endswith("_at") and value is not None:
            setattr(row, name, datetime.datetime.fromisoformat(value))
    if fields.get("created_at") is not None:
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        row.age = max((now - row.created_at).total_seconds(), 0.0)
    return row
