# SPDX-License-Identifier: Apache-2.0
"""The consistency check, repairs, orphans, the removal of backends."""
