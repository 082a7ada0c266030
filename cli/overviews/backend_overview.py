# SPDX-License-Identifier: Apache-2.0
"""``tonnage backends``: all backends, as ``tonnage-manage backend list`` shows them."""

from tonnage.cli.commands import backend


class Backends(backend.List):
    """Show all backends.

    Their states are those that operators have set; 'tonnage-manage backend' changes them.
    """

    group = "look"
