# SPDX-License-Identifier: Apache-2.0
"""Small Tonnage deployments for functional tests.

:class:`Deployment` runs the real processes. :mod:`tests.functional.deployment.in_process` runs several schedulers as
threads of the test process, for tests that patch the ledger's code or count its transactions.
"""

from tests.functional.deployment.configuration import Addresses, Credentials, read_configuration, render
from tests.functional.deployment.deployment import Deployment
from tests.functional.deployment.processes import COMMANDS, CommandResult, Process, run_process, run_program
from tests.functional.deployment.rest_client import RestClient
from tests.functional.deployment.standalone import standalone, thin_and_thick
from tests.functional.deployment.threads import run_concurrently

GIB = 2**30

__all__ = [
    "COMMANDS",
    "GIB",
    "Addresses",
    "CommandResult",
    "Credentials",
    "Deployment",
    "Process",
    "RestClient",
    "read_configuration",
    "render",
    "run_concurrently",
    "run_process",
    "run_program",
    "standalone",
    "thin_and_thick",
]
