# SPDX-License-Identifier: Apache-2.0
"""An extension of Tonnage: the lowest free capacity that each pool has reported."""
