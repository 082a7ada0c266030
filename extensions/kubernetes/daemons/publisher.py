# SPDX-License-Identifier: Apache-2.0
"""``tonnage-publisher``: imports the capacity that agents publish for clusters, and publishes capacity to a cluster."""

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from cotyledon import types
from oslo_config import cfg

from tonnage import enabled_extensions, installation
from tonnage.agent.backoff import FailureLog
from tonnage.capacity import errors
from tonnage.cli import setup, tls_verification, unknown_options
from tonnage.cli.daemons import workers
from tonnage.extensions.kubernetes import options as kubernetes_options
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.publication import agent_import
from tonnage.extensions.kubernetes.publication.publisher_schedule import RoundSchedule
from tonnage.extensions.kubernetes.publication.type_pools import TypePools
from tonnage.ledger.db import database, schema
from tonnage.ledger.db import options as database_options
from tonnage.rpc import options as rpc_options

LOG = logging.getLogger(__name__)

PROG = "tonnage-publisher"

#: Seconds between two looks at the claims.
_CLAIMS_SECONDS = 0.5


class PublisherWorker(workers.Worker):
    """The worker process that imports and publishes capacity."""

    prog = PROG

    def __init__(self, worker_id: types.WorkerId, conf: cfg.ConfigOpts) -> None:
        super().__init__(worker_id)
        self._conf = conf
        self._ending = threading.Event()

    def serve(self) -> None:
        """Import and publish periodically until :meth:`end` is called. Published objects stay."""
        options, failure_log = self._conf.kubernetes, FailureLog(LOG)
        with contextlib.ExitStack() as cleanup:
            ledger = database.connect(self._conf)
            cleanup.callback(ledger.close)
            publish = _publisher(options, ledger, cleanup) if options.publisher_namespace else None
            importer = _importer(options, ledger)
            self.started = True
            _write_state(options.publisher_state_file, "No round has ended yet")
            schedule = RoundSchedule(options.publisher_interval)
            while not self._ending.is_set():
                state, is_full = "ok", schedule.begin()
                claims = self._claims(ledger) if options.publisher_subtracts_claims else None
                try:
                    if is_full and (imported := importer.import_reports()):
                        LOG.info("Took over %d pool(s) of agents", imported)
                    if publish is not None:
                        done = publish()
                        if done:
                            LOG.info("CSIStorageCapacity in namespace %s: %s", options.publisher_namespace, done)
                        if done.failed:
                            state = f"{done.failed} CSIStorageCapacity object(s) cannot be written; the log names them"
                except errors.TonnageError as error:
                    state = f"Figures are not exchanged: {error.message}"
                    failure_log.failed(state)
                else:
                    failure_log.recovered("Figures are exchanged again")
                _write_state(options.publisher_state_file, state)
                schedule.end()
                self._wait(ledger, schedule, claims)

    def _wait(self, ledger: database.Database, schedule: RoundSchedule, seen: Mapping[Any, int] | None) -> None:
        """Wait for the next round, which comes early if there are other claims than the last round has seen."""
        is_changed = False
        while (seconds := schedule.wait_seconds(is_changed)) > 0 and not self._ending.is_set():
            self._ending.wait(seconds if seen is None else min(seconds, _CLAIMS_SECONDS))
            if seen is not None:
                claims = self._claims(ledger)
                is_changed = claims is not None and claims != seen

    @staticmethod
    def _claims(ledger: database.Database) -> Mapping[Any, int] | None:
        """Return the claimed sizes that are published, None while the ledger does not answer."""
        try:
            with ledger.reading() as session:
                return capacity_claims.published_bytes(session)
        except errors.Unavailable:
            return None

    def end(self) -> None:
        self._ending.set()


def _write_state(path: str | None, state: str) -> None:
    """Replace the content of the state file, if there is one. Raises ConfigurationError if it cannot be written."""
    if not path:
        return
    new = f"{path}.new"
    try:
        with open(new, "w", encoding="utf-8") as file:
            file.write(f"{state}\n")
        os.replace(new, path)
    except OSError as error:
        raise errors.ConfigurationError(
            f"option [kubernetes] publisher_state_file = {path}: {error.strerror}; name a file in a folder that "
            f"{PROG} may write to"
        ) from error


def _importer(options: Any, ledger: database.Database) -> agent_import.AgentImporter:
    """Return the import of the figures of agents, and of the pools of volume types if classes have some."""
    classes = options.volume_type_classes
    types = TypePools(classes, options.volume_type_zone_label, options.publisher_lifetime) if classes else None
    return agent_import.AgentImporter(ledger, options.publisher_lifetime, types, options.volume_type_driver)


def _publisher(options: Any, ledger: database.Database, cleanup: contextlib.ExitStack) -> Callable[[], Any]:
    """Return a function that publishes capacity. Raises ConfigurationError for unusable options."""
    try:
        from tonnage.extensions.kubernetes.cluster import api_connection
        from tonnage.extensions.kubernetes.publication import capacity_publisher, template_capacities
    except ImportError as error:
        raise errors.ConfigurationError(
            f"option [kubernetes] publisher_namespace needs the client of Kubernetes ({error}); install it with: "
            f"{installation.install_command('kubernetes')}"
        ) from error
    api = cleanup.enter_context(api_connection.connect(options.kubeconfig))
    return capacity_publisher.Publisher(
        ledger,
        api,
        options.publisher_namespace,
        subtracts_claims=options.publisher_subtracts_claims,
        owner=options.publisher_owner,
        template_capacities=template_capacities.parse(options.template_node_capacity),
    ).publish


@setup.clean_exit(PROG)
def main() -> None:
    """Run the publisher until SIGTERM or Ctrl-C."""
    conf, argv = cfg.CONF, sys.argv[1:]
    setup.configure(conf, argv, PROG, [rpc_options.register, kubernetes_options.register, database_options.register])
    unknown_options.warn(conf)
    tls_verification.warn(conf)
    with contextlib.ExitStack() as cleanup:
        ledger = database.connect(conf)
        cleanup.callback(ledger.close)
        schema.require_current(ledger.engine, enabled_extensions.enabled(conf))
        # Errors in the configuration are reported before a worker starts.
        _importer(conf.kubernetes, ledger)
        if conf.kubernetes.publisher_namespace:
            _publisher(conf.kubernetes, ledger, cleanup)
    workers.run(conf, PROG, workers.WorkerPlan([workers.WorkerSpec(PROG, PublisherWorker, (conf,))]))
