# SPDX-License-Identifier: Apache-2.0
"""Entry points of the daemons of this extension. Each imports a module and calls its ``main()``."""

from tonnage.cli.start import run


def cinder_scheduler() -> object:
    """Start ``tonnage-cinder-scheduler``."""
    return run("tonnage.extensions.cinder.daemons.cinder_scheduler")


def cinder_shadow() -> object:
    """Start ``tonnage-cinder-shadow``."""
    return run("tonnage.extensions.cinder.daemons.cinder_shadow", "all")
