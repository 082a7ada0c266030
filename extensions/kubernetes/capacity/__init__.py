# SPDX-License-Identifier: Apache-2.0
"""The storage of CSI drivers, accessibility and packing of nodes."""
