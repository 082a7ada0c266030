# SPDX-License-Identifier: Apache-2.0
"""The driver for LVM volume groups and thin pools."""
