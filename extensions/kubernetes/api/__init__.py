# SPDX-License-Identifier: Apache-2.0
"""Its REST resources."""
