# SPDX-License-Identifier: Apache-2.0
"""``tonnage-publisher``: writes what drivers have to a Kubernetes cluster, for kube-scheduler."""

import contextlib
import logging
import sys
import threading
from types import ModuleType

from cotyledon import types
from oslo_config import cfg

from tonnage.agent.pauses import Complaints
from tonnage.capacity import errors
from tonnage.cli import setup
from tonnage.cli import unknown_options
from tonnage.cli import workers
from tonnage.k8s import publisher_options
from tonnage.ledger import database
from tonnage.ledger import schema

LOG = logging.getLogger(__name__)

PROG = "tonnage-publisher"


class PublisherWorker(workers.Worker):
    """The process that publishes."""

    prog = PROG

    def __init__(self, worker_id: types.WorkerId, conf: cfg.ConfigOpts) -> None:
        super().__init__(worker_id)
        self._conf = conf
        self._ending = threading.Event()

    def serve(self) -> None:
        """Publish until told to end. What was written stays."""
        connecting, publisher = _with_client()
        options, complaints = self._conf.kubernetes, Complaints(LOG)
        with contextlib.ExitStack() as cleanup:
            ledger = database.connect(self._conf)
            cleanup.callback(ledger.close)
            api = cleanup.enter_context(connecting.connect(options.kubeconfig))
            one = publisher.Publisher(ledger, api, options.publisher_namespace)
            LOG.info("Publishing in namespace %s", options.publisher_namespace)
            while not self._ending.is_set():
                try:
                    done = one.publish()
                except errors.TonnageError as error:
                    complaints.about(f"Nothing can be published: {error.message}")
                else:
                    complaints.over("Publishing again")
                    if done:
                        LOG.info("CSIStorageCapacity in namespace %s: %s", options.publisher_namespace, done)
                self._ending.wait(options.publisher_interval)

    def terminate(self) -> None:
        """End after what is being written."""
        self._ending.set()


def _with_client() -> tuple[ModuleType, ModuleType]:
    """Return the modules that need the client of Kubernetes, which is not installed everywhere."""
    try:
        from tonnage.k8s import connecting
        from tonnage.k8s import publisher
    except ImportError as error:
        raise errors.ConfigurationError(
            f"the client of Kubernetes is missing ({error}): install tonnage[kubernetes]"
        ) from error
    return connecting, publisher


@setup.clean_exit(PROG)
def main() -> None:
    """Run the publisher until SIGTERM or Ctrl-C."""
    conf, argv = cfg.CONF, sys.argv[1:]
    setup.configure(conf, argv, PROG, [publisher_options.register, database.register])
    unknown_options.warn(conf)
    connecting, _ = _with_client()
    with connecting.connect(conf.kubernetes.kubeconfig):
        pass  # what is wrong with the file is said before anything runs
    ledger = database.connect(conf)
    schema.require_current(ledger.engine)
    ledger.close()
    workers.run(conf, PROG, [(PublisherWorker, (conf,))])
