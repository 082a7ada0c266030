# SPDX-License-Identifier: Apache-2.0
"""The language of conditions and formulas about pools: parser and evaluation."""
