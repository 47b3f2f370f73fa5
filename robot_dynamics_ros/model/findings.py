# SPDX-License-Identifier: Apache-2.0
"""What a check of a model has to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from robot_dynamics_ros.errors import DescriptionError

Severity = Literal['error', 'warning']


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong (error: the robot cannot be loaded) or suspicious (warning).

    Attributes:
        severity: 'error' or 'warning'.
        culprit: The element, such as "link 'link2'".
        problem: What is wrong with it.
        remedy: What would be right.
        fault: The exception of an error, to raise where errors are refused.
        fatal: Whether the robot is refused for it even where other errors are only remarked.
    """

    severity: Severity
    culprit: str
    problem: str
    remedy: str
    fault: DescriptionError | None = None
    fatal: bool = False

    def __str__(self) -> str:
        return f'{self.culprit}: {self.problem}; {self.remedy}'


def error(fault: DescriptionError, *, fatal: bool = False) -> Finding:
    """Return an error of the package as a finding."""
    return Finding('error', fault.culprit, fault.problem, fault.remedy, fault, fatal)


def warning(culprit: str, problem: str, remedy: str) -> Finding:
    """Return a finding that does not keep the robot from being loaded."""
    return Finding('warning', culprit, problem, remedy)
