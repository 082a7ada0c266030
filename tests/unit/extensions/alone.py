# SPDX-License-Identifier: Apache-2.0
"""Processes with one extension alone: what they start, serve and store because of it."""

import contextlib
import functools
import pathlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from tests.unit.api.cluster import configuration, parts
from tests.unit.scheduler import managers
from tonnage import enabled_extensions, extension
from tonnage.api import app
from tonnage.api.auth import policies
from tonnage.ledger.db import database, schema
from tonnage.ledger.db.database import Database
from tonnage.scheduler.configuration import settings as scheduler_settings
from tonnage.scheduler.extension_parts import ExtensionParts


def conf_of(folder: pathlib.Path, name: str, text: str = "") -> cfg.ConfigOpts:
    """Return the configuration of a scheduler with this extension alone, from a file with this text."""
    file = folder / "tonnage.conf"
    file.write_text(f"[DEFAULT]\nenabled_extensions = {name}\n{text}", encoding="utf-8")
    conf = cfg.ConfigOpts()
    scheduler_settings.register(conf)
    conf([], project="tonnage", default_config_files=[str(file)], default_config_dirs=[])
    enabled_extensions.register_options(conf)
    return conf


@contextlib.contextmanager
def scheduler(conf: cfg.ConfigOpts, ledger: Database) -> Iterator[ExtensionParts]:
    """Run a scheduler with the enabled extensions, and give the parts that it has of them."""
    builders = {
        name: functools.partial(build, conf) for name, build in enabled_extensions.parts(conf, "scheduler").items()
    }
    agents: Any = SimpleNamespace(run=lambda *command: None)
    core = managers.manager(ledger, agents, managers.settings(), builders=builders)
    core.start()
    try:
        yield core.extensions
    finally:
        core.stop()


def tables(name: str) -> set[str]:
    """Return the tables of a new ledger with this extension alone, without those of the core."""
    declaration = extension.installed()[name]
    engine = database.create_engine("sqlite://")
    schema.sync(engine, {name: declaration})
    names = set(sa.inspect(engine).get_table_names())
    engine.dispose()
    return names - core_tables()


@functools.cache
def core_tables() -> set[str]:
    """Return the tables of a new ledger without extensions."""
    engine = database.create_engine("sqlite://")
    schema.sync(engine, {})
    names = set(sa.inspect(engine).get_table_names())
    engine.dispose()
    return names


def paths(name: str) -> set[str]:
    """Return the paths that the API serves because of this extension, below /v3."""
    core, own = ({path for path, _, _ in app.documented_routes(parts(*names))} for names in ((), (name,)))
    return {path.removeprefix("/v3") for path in own - core}


def rules(name: str) -> set[str]:
    """Return the names of the policy rules that exist because of this extension."""
    core, own = (
        {str(rule.name) for rule in policies.enabled_rules(configuration(enabled_extensions=names))}
        for names in ((), (name,))
    )
    return own - core
