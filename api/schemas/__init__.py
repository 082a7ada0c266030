# SPDX-License-Identifier: Apache-2.0
"""The fields of request and response bodies."""
