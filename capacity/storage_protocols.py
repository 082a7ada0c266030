# SPDX-License-Identifier: Apache-2.0
"""The aliases of storage protocols that the Block Storage service knows."""

#: Groups of names with the same meaning. The names of NVMe over fabrics here do not tell the transport, unlike
#: ``NVMe-TCP``.
_NAMES = (
    ("iSCSI", "iscsi"),
    ("FC", "fibre_channel", "fc"),
    ("NFS", "nfs"),
    ("NVMe-oF", "NVMeOF", "nvmeof"),
)

_ALIASES = {name: names for names in _NAMES for name in names}


def aliases(protocol: object) -> object:
    """Return all names of a protocol with several names, and any other value unchanged, such as a reported list."""
    return _ALIASES.get(protocol, protocol) if isinstance(protocol, str) else protocol
