# SPDX-License-Identifier: Apache-2.0
"""The controller node under a constraint program: topics, diagnostics, switching, refusals."""

from __future__ import annotations

import re

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import QoSProfile, ReliabilityPolicy
from resting_arm import JOINTS, RestingArm
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from robot_dynamics_ros.description.shipped import share_directory
from robot_dynamics_ros.messages import stamp_ns

PLACE = [-0.315, 1.398, 0.12, 1.083]  # the start of scara_circle, to a millimetre
NODE = {
    'robot': 'scara',
    'law': 'constraint_stabilization',
    'program': 'scara_circle',
    'activation_ramp_s': 0.0,
    'state_timeout_s': 30.0,
    'diagnostics_period_s': 0.2,
}
ROWS = ['circle: tool x (m)', 'circle: tool y (m)', 'height: tool z (m)']


@pytest.fixture(scope='module')
def living(lasting):
    """Return arm and process of a controller that lives through all tests."""
    processes, peer = lasting
    return RestingArm(peer, PLACE), processes.start('controller', NODE)


def test_who_may_miss_messages_costs_the_controller_fewer(living):
    """Parts of the effort, at 1 kHz: every tick to reliable subscribers, else every 20th."""
    arm, peer = living[0], living[0].peer
    best_effort = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
    parts = peer.collect(JointState, 'controller/effort_components', best_effort)
    peer.spin_until(lambda: (arm.command(), len(parts) > 5)[1], 60.0, 'parts')

    def periods() -> list[int]:
        """Return simulated ms between the last messages."""
        return (np.diff([stamp_ns(x) for x in parts[-4:]]) // 10**6).tolist()

    assert min(periods()) >= 20
    reliable = peer.collect(JointState, 'controller/effort_components')
    peer.spin_until(lambda: (arm.command(), len(reliable) > 5)[1], 60.0, 'parts for both')
    peer.spin_until(lambda: (arm.command(), max(periods()) < 20)[1], 20.0, 'more for all')


def test_it_shows_f_multipliers_conditioning_and_the_effort_by_origin(living):
    arm, peer = living[0], living[0].peer
    constraint, split = (
        peer.collect(JointState, f'controller/{name}')
        for name in ('constraint', 'effort_components')
    )
    condition = peer.collect(Float64MultiArray, 'controller/constraint_condition')
    found = peer.collect(DiagnosticArray, '/diagnostics')

    def complete() -> bool:
        arm.command()
        named = any('sigma_min' in {pair.key for pair in m.status[0].values} for m in found)
        return bool(constraint and condition and split and named)

    peer.spin_until(complete, 60.0, 'all topics of the program')
    assert list(constraint[-1].name)[:3] == ROWS
    assert len(constraint[-1].position) == len(constraint[-1].velocity) == 4
    assert np.isfinite(constraint[-1].effort).all()
    # The tool at rest on the start of the circle, by the closed form of the arm.
    q1, q12 = PLACE[0], PLACE[0] + PLACE[1]
    x = 0.325 * np.cos(q1) + 0.275 * np.cos(q12) - 0.44
    assert constraint[0].position[0] == pytest.approx(x, abs=1e-9)
    sigma_min, number, damped, scale = condition[-1].data
    assert 0.0 < sigma_min < 1.0 < number
    assert (damped, scale) == (0.0, 1.0)
    parts = dict(zip(split[-1].name, split[-1].effort, strict=True))
    for origin in ('inertia', 'coriolis', 'gravity', 'friction', 'task', 'null_space'):
        assert {f'{joint}/{origin}' for joint in JOINTS} <= set(parts)
    whole = sum(x for name, x in parts.items() if name.startswith('joint3/'))
    assert stamp_ns(split[-1]) > 0
    assert whole == pytest.approx(arm.commands[-1].data[2], abs=1.0)  # a tick apart


def test_a_hostile_program_is_refused_with_its_reason(living, tmp_path):
    """Errors of YAML constructors, the file system or an encoding never end the node."""
    arm, node = living
    arm.command()
    latin = tmp_path / 'latin.yaml'
    latin.write_bytes('name: k\xf6rper'.encode('latin-1'))
    hostile = {
        'no_such_program': 'scara_circle',
        'a: !!bool x': 'tag',
        str(latin): 'not UTF-8 text',
        'a: ' + '[' * 900: 'no YAML|nested too deeply',
    }
    for program, reason in hostile.items():
        result = arm.set(program=program)
        assert not result.successful
        assert re.search(reason, result.reason), result.reason
        assert len(result.reason) < 400
        arm.command()
    assert node.returncode is None
    assert 'Traceback' not in node.output


def test_another_program_acts_and_what_it_does_without_effect_is_said(living):
    arm, node = living
    file = share_directory() / 'config' / 'programs' / 'scara_circle.yaml'
    text = file.read_text(encoding='utf-8').replace('radius: 0.10', 'radius: 0.08')
    text += 'null_space: {damping: 1.0}\n'  # without effect on four rows of four: a remark
    result = arm.set(program=text)
    assert result.successful, result.reason
    node.says('the null_space task acts only where the program is singular')
    assert np.isfinite(arm.command()).all()


def test_a_program_that_the_law_does_not_take_is_said(living):
    arm, node = living
    assert arm.set(law='computed_torque').successful
    node.says("parameter 'program' has no effect under law computed_torque")
    assert arm.set(law='constraint_stabilization').successful
