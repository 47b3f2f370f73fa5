# SPDX-License-Identifier: Apache-2.0
"""A law of another package, that of docs/extending.md, found by its entry point, in the node.

Oracle: Pinocchio's gravity plus the spring's closed form.
"""

import os
import re

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from numpy.testing import assert_allclose
from processes import ROOT
from rcl_interfaces.srv import DescribeParameters
from resting_arm import ARM, ORACLE, PLACE, RestingArm

REST = [0.1, -0.9, -0.5, 0.6]


@pytest.fixture
def installed(tmp_path) -> dict[str, str]:
    """Install the law of the page into a folder, and return the environment that finds it."""
    page = (ROOT / 'docs' / 'extending.md').read_text('utf-8')
    (code,) = (x for x in re.findall(r'```python\n(.*?)```', page, re.DOTALL) if 'Spring(' in x)
    info = tmp_path / 'virtual_spring-1.0.dist-info'
    info.mkdir()
    (tmp_path / 'virtual_spring.py').write_text(code, 'utf-8')
    (info / 'METADATA').write_text('Metadata-Version: 2.1\nName: virtual_spring\nVersion: 1.0\n')
    (info / 'entry_points.txt').write_text(
        '[robot_dynamics_ros.laws]\nvirtual_spring = virtual_spring:VirtualSpring\n'
        'broken = virtual_spring:Missing\n'
    )
    known = [str(tmp_path), str(ROOT), os.environ.get('PYTHONPATH', '')]
    return {'PYTHONPATH': os.pathsep.join(filter(None, known))}


def test_it_runs_with_its_own_parameters_and_shows_its_own_figures(processes, peer, installed):
    arm, gravity = RestingArm(peer), ORACLE.gravity_forces(PLACE)
    given = {'diagnostics_period_s': 0.2, 'law': 'virtual_spring', 'rest_pose': REST}
    node = processes.start('controller', ARM | given, env=installed)
    pull = np.array(REST) - PLACE
    # Two libraries in double precision.
    assert_allclose(arm.command(), gravity + pull, atol=1e-12)
    assert "law 'broken' (virtual_spring:Missing) is left out" in node.output
    assert 'give one finite number of at least 0 for all' in arm.set(stiffness=[-1.0]).reason
    assert arm.set(stiffness=[1.0, 2.0, 3.0, 4.0]).successful
    for _ in range(20):  # the safe shell turns no change of parameters into a jump
        effort = arm.command()
    assert_allclose(effort, gravity + [1.0, 2.0, 3.0, 4.0] * pull, atol=1e-12)
    arm.until(lambda: arm.figure('stiffest') == '4 N m/rad', "the law's own figure")
    request = DescribeParameters.Request(names=['law', 'stiffness'])
    service = 'controller/describe_parameters'
    law, stiffness = peer.call(DescribeParameters, service, request).descriptors
    assert {'pd_gravity', 'virtual_spring'} <= {*re.findall(r'\w+', law.additional_constraints)}
    said = 'virtual_spring: Stiffness k [N m/rad].'
    assert (stiffness.description, stiffness.read_only) == (said, False)


def test_an_error_in_what_it_tells_is_a_warning_at_first_and_leads_to_the_stop_action(
    processes, peer, installed, tmp_path
):
    file = tmp_path / 'virtual_spring.py'
    code = file.read_text('utf-8').replace("{'stiffest'", "[][0] or {'stiffest'")
    file.write_text(f'{code}\nVirtualSpring.remarks = lambda self: ([][x] for x in [1])\n')
    arm = RestingArm(peer)
    given = {'diagnostics_period_s': 0.2, 'law': 'virtual_spring'}
    node = processes.start('controller', ARM | given, env=installed)
    arm.until(lambda: arm.said('list index out of range', DiagnosticStatus.ERROR), 'the error')
    for _ in range(20):  # nor does a stop jump
        effort = arm.command()
    assert_allclose(effort, ORACLE.gravity_forces(PLACE), atol=1e-12)
    assert "law 'virtual_spring' (virtual_spring) gives no remarks: IndexError" in node.output
    assert node.says('stopped by an error, IndexError')  # with the state after the diagnostics
