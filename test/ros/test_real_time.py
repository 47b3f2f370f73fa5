# SPDX-License-Identifier: Apache-2.0
"""Priority, processors and locked memory are obtained, or refused with the missing right."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.ros.spinning import apply_real_time

NOBODY = 65534
#: Requests them in a process without rights and with limits of zero.
ASKING = """
import os, resource, sys
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.ros.spinning import apply_real_time
for limit in (resource.RLIMIT_RTPRIO, resource.RLIMIT_MEMLOCK):
    resource.setrlimit(limit, (0, 0))
if os.getuid() == 0:
    os.setuid({nobody})
try:
    apply_real_time({arguments})
except ConfigurationError as error:
    print(error)
"""


def said(arguments: str) -> str:
    """Return the refusal for the user nobody."""
    code = ASKING.format(nobody=NOBODY, arguments=arguments)
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    return done.stdout


def test_without_the_right_the_refusal_names_parameter_and_right():
    for arguments, parameter, right in (
        ('50, [-1], False', 'thread_priority', 'rtprio 50'),
        ('0, [-1], True', 'lock_memory', 'memlock unlimited'),
    ):
        text = said(arguments)
        assert parameter in text
        assert right in text


def test_the_defaults_ask_for_nothing():
    assert said('0, [-1], False') == ''


def test_processors_that_do_not_exist_are_refused_with_those_that_do():
    allowed = os.sched_getaffinity(0)
    with pytest.raises(ConfigurationError, match=f'may use {min(allowed)}'):
        apply_real_time(0, [4000], False)
    assert os.sched_getaffinity(0) == allowed


def test_the_thread_runs_where_it_is_told_to():
    allowed = os.sched_getaffinity(0)
    try:
        apply_real_time(0, [min(allowed)], False)
        assert os.sched_getaffinity(0) == {min(allowed)}
    finally:
        os.sched_setaffinity(0, allowed)
