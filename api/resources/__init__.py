# SPDX-License-Identifier: Apache-2.0
"""The REST resources, one module for each."""
