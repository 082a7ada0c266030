# SPDX-License-Identifier: Apache-2.0
"""Growth of pools, and the time until they are full."""
