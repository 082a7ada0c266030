# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder: those of the API, with the extension enabled."""

import functools
import pathlib
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from tests.servers import ledger_schema
from tests.unit.api.cluster import Cluster
from tests.unit.api.conftest import client, member, project, running_cluster  # noqa: F401
from tonnage.extensions.kubernetes import scheduler_parts
from tonnage.ledger.db import database


@pytest.fixture(scope="package")
def enabled_extensions() -> list[str]:
    """The names of the extensions of the API."""
    return ["kubernetes"]


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The services behind the API, with a scheduler that knows the storage of clusters."""
    builders = {"kubernetes": functools.partial(scheduler_parts.build, cfg.ConfigOpts())}
    with running_cluster(tmp_path_factory.mktemp("cluster"), builders) as running:
        yield running


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    """An empty ledger in a file, for several threads."""
    engine = database.create_engine(f"sqlite:///{tmp_path}/ledger.sqlite")
    ledger_schema.create(engine)
    ledger = database.Database(engine)
    yield ledger
    ledger.close()
