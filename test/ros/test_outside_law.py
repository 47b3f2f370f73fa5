# SPDX-License-Identifier: Apache-2.0
"""A law of another package, found by its entry point, in the real node.

Oracle: Pinocchio's gravity plus the spring's closed form.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import DescribeParameters
from resting_arm import ARM, ORACLE, PLACE, RestingArm

REST = [0.1, -0.9, -0.5, 0.6]


@pytest.fixture
def installed(tmp_path) -> dict[str, str]:
    """Install the law into a folder, and return the environment in which that is on the path."""
    site = tmp_path / 'site'
    info = site / 'virtual_spring-1.0.dist-info'
    info.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name('virtual_spring.py'), site)
    (info / 'METADATA').write_text('Metadata-Version: 2.1\nName: virtual_spring\nVersion: 1.0\n')
    (info / 'entry_points.txt').write_text(
        '[robot_dynamics_ros.laws]\nvirtual_spring = virtual_spring:VirtualSpring\n'
        'broken = virtual_spring:Missing\n'
    )
    project = Path(__file__).resolve().parents[2]
    known = [str(site), str(project), os.environ.get('PYTHONPATH', '')]
    return {'PYTHONPATH': os.pathsep.join(filter(None, known))}


gravity = ORACLE.gravity_forces


def test_it_runs_with_its_own_parameters_and_shows_its_own_figures(processes, peer, installed):
    arm = RestingArm(peer)
    diagnostics = peer.collect(DiagnosticArray, '/diagnostics')
    given = {'diagnostics_period_s': 0.2, 'law': 'virtual_spring', 'rest_pose': REST}
    node = processes.start('controller', ARM | given, env=installed)
    expected = gravity(PLACE) + 1.0 * (np.array(REST) - PLACE)
    # Two libraries in double precision.
    np.testing.assert_allclose(arm.command(), expected, atol=1e-12)
    assert "law 'broken' (virtual_spring:Missing) is left out" in node.output

    refused = arm.set(stiffness=[-1.0])
    assert not refused.successful
    assert 'give 1 or 4 finite numbers of at least 0' in refused.reason
    assert arm.set(stiffness=[1.0, 2.0, 3.0, 4.0]).successful
    expected = gravity(PLACE) + np.array([1.0, 2.0, 3.0, 4.0]) * (np.array(REST) - PLACE)
    for _ in range(20):  # the safe shell turns no change of parameters into a jump
        effort = arm.command()
    np.testing.assert_allclose(effort, expected, atol=1e-12)

    def is_reported() -> bool:
        values = [(pair.key, pair.value) for m in diagnostics for pair in m.status[0].values]
        return ('stiffest', '4 N m/rad') in values

    arm.until(is_reported, "the law's own figure in the diagnostics")
    request = DescribeParameters.Request(names=['law', 'stiffness', 'formulation'])
    law, stiffness, formulation = peer.call(
        DescribeParameters, 'controller/describe_parameters', request
    ).descriptors
    assert 'pd_gravity' in law.additional_constraints
    assert 'virtual_spring' in law.additional_constraints
    said = 'virtual_spring: Stiffness k [N m/rad].'
    assert (stiffness.description, stiffness.read_only) == (said, False)
    assert 'newton_euler' in formulation.additional_constraints
