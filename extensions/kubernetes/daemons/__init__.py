# SPDX-License-Identifier: Apache-2.0
"""``main()`` of ``tonnage-publisher``."""
