"""Audits: the attacks of the suites on an encoder of one's own, or on its features alone."""

from smashbench.bench.auditing.conduct import audit
from smashbench.bench.auditing.report import Report

__all__ = ["Report", "audit"]
