# SPDX-License-Identifier: Apache-2.0
"""A load as an argument of the dynamics: its effort, its attachment, and its use in the loop.

Oracle: Pinocchio with the load as one more body in its own model.
"""

import numpy as np
import pinocchio
import pytest
import tables
from numpy.testing import assert_allclose, assert_array_equal
from oracles import EliminationOracle
from samples import Sample, mimic_arm, sample

from robot_dynamics_ros.control.laws.registry import LAWS, make_law
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.payload import PAYLOAD_TRANSITION_S, LoadedKernels, PayloadModel
from robot_dynamics_ros.control.settings import LoopSettings
from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.model.payload import Payload, with_payload
from robot_dynamics_ros.spatial.rotation import rotation_from_rpy
from robot_dynamics_ros.symbolic.kernel import compile_kernel

INERTIA = np.array([[0.02, 0.003, 0.001], [0.003, 0.03, -0.002], [0.001, -0.002, 0.025]])
LOAD = Payload(2.5, np.array([0.03, -0.02, 0.08]), INERTIA, 'tool')
POINT = Payload(1.0, np.array([0.0, 0.05, 0.0]), np.zeros((3, 3)), 'tool')
FOLLOWING = Payload(0.7, np.array([0.03, 0.0, 0.05]), 1e-3 * np.eye(3), 'gear')
ELSEWHERE = Payload(3.0, np.array([0.1, 0.0, 0.02]), np.diag([0.01, 0.02, 0.02]), 'link2')


def arm(name: str) -> Sample:
    return mimic_arm() if name == 'mimic_arm' else sample(name)


def carrying(name: str, *payloads: Payload):
    """Return inverse dynamics of Pinocchio's model of a sample with loads at their frames."""
    oracle = EliminationOracle.of(arm(name))
    model = oracle.pinocchio.model
    for payload in payloads:
        frame = model.frames[model.getFrameId(payload.frame)]
        body = pinocchio.Inertia(payload.mass, payload.com, payload.inertia)
        model.appendBodyToJoint(frame.parentJoint, body, frame.placement)
    oracle.pinocchio.data = model.createData()
    return oracle.inverse_dynamics


def loaded(name: str):
    tree = arm(name).tree
    load = PayloadModel(tree)
    return tree, load, LoadedKernels(load, compile_kernel(tree))


@pytest.mark.parametrize(
    ('name', 'payload'),
    [('scara', LOAD), ('four_dof', POINT), ('four_dof', ELSEWHERE), ('mimic_arm', FOLLOWING)],
)
def test_the_dynamics_are_those_of_the_robot_with_the_load(name, payload, rng):
    tree, load, kernels = loaded(name)
    load.change(payload, 0.0, 0.0)
    expected, out, alone = carrying(name, payload), np.zeros(4), np.zeros(4)
    mass = np.zeros((4, 4))
    for _ in range(5):
        q, v, a = rng.uniform(-1.0, 1.0, (3, 4))
        kernels.inverse_dynamics(q, v, a, out)
        assert_allclose(out, expected(q, v, a), atol=1e-11)  # rounding of 40
        kernels.gravity_forces(q, out)
        assert_allclose(out, expected(q, 0 * q, 0 * q), atol=1e-11)
        kernels.mass_matrix(q, mass)
        assert_allclose(mass @ a, expected(q, 0 * q, a) - out, atol=1e-11)
    load.change(None, 0.0, 0.0)
    assert_array_equal(load.numbers, PayloadModel(tree).numbers)
    kernels.inverse_dynamics(q, v, a, out)
    compile_kernel(tree).inverse_dynamics(q, v, a, alone)
    assert_allclose(out, alone, atol=1e-14 * np.abs(alone).max())  # rounding of other sums


def test_on_the_way_the_efforts_are_a_mixture_of_both_by_a_cubic(rng):
    """Inverse dynamics is linear in mass, first moment and inertia about the origin.

    A change during another begins where that is; it goes on after a jump of time.
    """
    tree, load, kernels = loaded('four_dof')
    q, v, a = rng.uniform(-1.0, 1.0, (3, 4))
    old, new, none = (carrying('four_dof', *x)(q, v, a) for x in ([LOAD], [POINT], []))

    def efforts():
        out = np.zeros(4)
        kernels.inverse_dynamics(q, v, a, out)
        return out

    load.change(LOAD, 0.0, 0.0)
    load.change(POINT, 10.0, 2.0)
    for t, share in ((9.0, 0.0), (10.0, 0.0), (10.5, 0.15625), (11.0, 0.5)):
        load.advance(t)
        assert_allclose(efforts(), old + share * (new - old), atol=1e-11)
    load.change(None, 11.0, 1.0)
    assert_allclose(efforts(), (old + new) / 2, atol=1e-11)
    load.advance(11.5)
    load.restart(3.0)
    load.advance(3.3)
    assert load.changing
    load.advance(4.0)
    assert not load.changing
    assert_array_equal(load.numbers, PayloadModel(tree).numbers)
    assert_allclose(efforts(), none, atol=1e-11)


_, LOADED, _ = loaded('scara')
LOADED.change(POINT, 0.0, 0.0)
LIGHT, NOWHERE = Payload(-1.0), Payload(1.0, frame='hand')
UNREAL = Payload(1.0, np.zeros(3), np.diag([1.0, 0.1, 0.1]))
RAGGED, LOST = Payload(1.0, [[0.1], [0.0, 0.2]]), Payload(1.0, [0.0, np.nan, 0.0])

test_what_is_not_physical_is_refused = tables.called("""
LOADED.change(LIGHT, 0.0, 0.0)   | ModelError: mass must be positive
LOADED.check(LIGHT)              | ModelError: mass must be positive
LOADED.change(UNREAL, 0.0, 0.0)  | ModelError: real body
LOADED.check(UNREAL)             | ModelError: real body
LOADED.check(RAGGED)             | ParameterError: com of the payload on 'tool'
LOADED.check(Payload('1'))       | ParameterError: mass of the payload on 'tool' = '1' refused
LOADED.check(LOST)               | NonFiniteError: com of the payload on 'tool'
LOADED.change(NOWHERE, 0.0, 0.0) | UnknownNameError: unknown payload_frame 'hand'
LOADED.check(NOWHERE)            | UnknownNameError: unknown payload_frame 'hand'
""", globals())  # fmt: skip


def test_a_load_may_be_lists_and_a_tensor_that_was_turned():
    R = rotation_from_rpy(0.3, 0.2, 0.7)
    turned = Payload(2.5, [0.03, -0.02, 0.08], (R @ INERTIA @ R.T).tolist(), 'tool')
    tree = with_payload(sample('scara').tree, turned)
    assert tree.mass[-1] == sample('scara').tree.mass[-1] + 2.5


def test_what_is_refused_changes_nothing():
    with pytest.raises(UnknownNameError):
        LOADED.change(NOWHERE, 0.0, 0.0)
    assert LOADED.payload is POINT


# In the loop -----------------------------------------------------------------------------------

PLACE = np.array([0.2, -1.0, -0.4, 0.6])


def run_loop(law: str, changes):
    """Return the efforts of a loop at rest; changes: payload by step."""
    tree, load, kernels = loaded('four_dof')
    settings = LoopSettings(activation_ramp_s=0.0, effort_rate_limit=0.0)
    loop = ControlLoop(tree, kernels, make_law(law, tree, kernels), load, settings)
    efforts = np.zeros((1300, 4))
    for k, out in enumerate(efforts):
        loop.observe((k + 1) * 1_000_000, PLACE, np.zeros(4))
        if k == 0:
            loop.start()
        if k in changes:
            loop.set_payload(changes[k])
        loop.tick()
        out[:] = loop.effort
    return efforts


@pytest.mark.parametrize('law', sorted(LAWS))
def test_a_payload_comes_in_without_a_step_and_is_held_in_the_end(law):
    efforts = run_loop(law, {100: LOAD, 700: None})
    still = np.zeros(4)
    with_load, bare = (carrying('four_dof', *x)(PLACE, still, still) for x in ([LOAD], []))
    for k, expected in ((99, bare), (690, with_load), (-1, bare)):
        assert_allclose(efforts[k], expected, atol=1e-9)
    # A cubic is steepest in its middle.
    fastest = np.abs(with_load - bare) * 1.5 / PAYLOAD_TRANSITION_S * 1e-3
    assert (np.abs(np.diff(efforts, axis=0)) <= fastest * 1.0001 + 1e-9).all()
