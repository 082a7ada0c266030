# SPDX-License-Identifier: Apache-2.0
"""Entry point of the daemon of this extension. It imports a module and calls its ``main()``."""

from tonnage.cli.start import run


def publisher() -> object:
    """Start ``tonnage-publisher``."""
    return run("tonnage.extensions.kubernetes.daemons.publisher", "all,kubernetes")
