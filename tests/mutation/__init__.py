# SPDX-License-Identifier: Apache-2.0
"""Mutants: lines on which privacy depends, each with a way to spoil it, in a module a subject.

`.ci/deep mutation` tries all; `PYTHONPATH=tests python -m mutation WORD…` some.
"""
