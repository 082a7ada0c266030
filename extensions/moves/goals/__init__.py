# SPDX-License-Identifier: Apache-2.0
"""Goals of plans, one in each module, their base class and their loader."""
