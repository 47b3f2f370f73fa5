# SPDX-License-Identifier: Apache-2.0
"""Every law: parts that add up, refusals that change nothing, feedback that takes energy out."""

import pickle

import numpy as np
import pytest
import yaml
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle
from samples import effort_of, random_state, sample

from robot_dynamics_ros.control.laws.registry import LAWS, make_law
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.errors import ParameterError, UnknownNameError


@pytest.fixture(params=LAWS)
def name(request):
    return request.param


@pytest.fixture(params=['scara', 'rrpr'])
def robot(request):
    return sample(request.param)


def random_reference(tree, rng):
    reference = Reference(tree.n)
    reference.rows[:] = random_state(tree, rng)
    return reference


def test_gravity_laws_add_damping_or_feedback_by_the_inertia_at_home_and_the_wrench(robot, rng):
    """The other laws have files of their own."""
    tree = robot.tree.with_changes(position_lower=np.zeros(4), position_upper=np.ones(4))
    oracle, reference = PinocchioOracle.of(robot), random_reference(tree, rng)
    q, v, _ = random_state(tree, rng)
    home, damping, wrench = rng.uniform(size=(3, tree.n))
    law = make_law('gravity_compensation', tree, damping=damping.tolist())
    law.external.commanded[:] = wrench
    expected = {law: wrench - damping * v}
    for place, given in ((home, {'home': home.tolist()}), (tree.middle, {})):
        law = make_law('pd_gravity', tree, natural_frequency=6.0, damping_ratio=0.7, **given)
        pull = 36.0 * (reference.position - q) + 8.4 * (reference.velocity - v)
        expected[law] = (np.diag(oracle.mass_matrix(place)) + tree.armature) * pull
    for law, more in expected.items():
        # Two libraries in double precision, a hundred operations.
        wanted = oracle.gravity_forces(q) + more
        assert_allclose(effort_of(law, q, v, reference), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize('given', [{}, {'period': 0.002, 'discretization': 'zero_order'}])
def test_the_parts_add_up_and_a_look_at_them_changes_no_later_effort(name, given, rng):
    """Otherwise a subscriber of the components would change what the arm does."""
    tree = sample('rrpr').tree
    declared = make_law(name, tree).parameters
    given = {key: value for key, value in given.items() if key in declared}
    law, other = (make_law(name, tree, **given) for _ in range(2))
    q, v, _ = random_state(tree, rng)
    for each in (law, other):
        each.reset(0.0, q, 0.1 * v)
    for k in range(6):
        state, reference = (q + 2e-4 * k * v, 0.1 * 1.1**k * v), random_reference(tree, rng)
        inputs = pickle.dumps([*state, reference.rows])
        whole, out = (effort_of(x, *state, reference, 0.002 * k) for x in (law, other))
        assert_array_equal(whole, out)
        parts = law.decompose(*state, reference, whole)
        assert pickle.dumps([*state, reference.rows]) == inputs  # unchanged
        # Rounding of the largest part, which the sum may cancel.
        largest = max(np.abs(part).max() for part in parts.values())
        assert_allclose(sum(parts.values()), whole, atol=1e-13 * largest)


def test_an_unknown_parameter_or_law_is_refused_and_the_known_are_listed(name):
    tree = sample('scara').tree
    for call, known in (
        (lambda: make_law(name, tree, gain=3.0), make_law(name, tree).parameters),
        (lambda: make_law('sliding_mode', tree), LAWS),
    ):
        with pytest.raises(UnknownNameError) as caught:
            call()
        assert set(caught.value.known) == set(known)


#: Values that no law takes.
BAD = yaml.safe_load("""
natural_frequency: [-1.0, [1.0, 2.0], .nan, fast, [[1.0]], null]
damping_ratio: [-0.1, .inf, critical]
damping: [-1.0, some, .nan]
friction_compensation: [1, 'yes', null]
friction_velocity: [reference, null, 3]
stiction_velocity: [0.0, -0.001, 57.3, .nan, small, true]
period: [-0.001, .inf, tick, null]
discretization: [backward, 3, null]
delay: [-1.0, .nan, late]
velocity_cutoff_hz: [-1.0, .inf, low]
limit_effort: [1, 'yes', null]
lead_in: [-0.1, 1.5, slow]
home: [[0.0, 0.0], .nan, middle]
program: [scara_circle, 3, null]           # requires a new law
impedance_frame: [tool, 3, null]           # also
joint_stiffness: [-1.0, [1.0, 2.0], .nan, soft]
frame_stiffness: [-1.0, [1.0, 1.0, 1.0, 1.0, 1.0], [.nan, .nan, .nan, .nan, .nan, .nan], soft]
impedance_damping_ratio: [-0.1, 11.0, critical, null]
impedance_mass_factor: [0.0, 6.0, .nan, light]
null_space_frequency: [-1.0, .inf, null]
guiding_damping: [-1.0, .nan, much, null]
guiding_friction_share: [-0.1, 1.1, .nan, all]
guiding_speed_share: [0.0, 1.1, .nan, slow]
guiding_wall_frequency: [-1.0, .inf, hard]
guiding_wall_stiffness: [-1.0, .inf, hard]
guiding_program: [scara_circle, 3, null]   # without a surface
""")


def test_a_bad_value_is_refused_with_its_name_and_nothing_changes(name, rng):
    tree = sample('scara').tree
    law, (q, v, _) = make_law(name, tree), random_state(tree, rng)
    reference = random_reference(tree, rng)
    before, values = effort_of(law, q, v, reference), dict(law.parameters)
    # A valid value in the same call must not be applied next to the invalid one.
    good = {key: 3.0 for key in ('natural_frequency', 'damping') if key in values}
    for parameter in values:
        for value in BAD[parameter]:
            with pytest.raises((ParameterError, UnknownNameError)) as caught:
                law.set_parameters({**good, parameter: value})
            assert parameter in str(caught.value).replace(' ', '_')
            assert law.parameters == values
    assert_array_equal(effort_of(law, q, v, reference), before)


#: Values other than the defaults.
OTHER = yaml.safe_load("""
natural_frequency: [3.0, 4.0, 5.0, 6.0]
damping_ratio: 0.4
damping: [0.5, 0.6, 0.7, 0.8]
friction_compensation: false
friction_velocity: measured
stiction_velocity: 1.5
period: 0.01
discretization: zero_order
delay: 1.0
velocity_cutoff_hz: 40.0
limit_effort: false
home: [0.1, -0.4, 0.05, 0.3]
joint_stiffness: [3.0, 4.0, 5.0, 6.0]
frame_stiffness: [3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
impedance_damping_ratio: 0.4
impedance_mass_factor: 2.0
null_space_frequency: 3.0
guiding_damping: 3.0
guiding_friction_share: 0.5
guiding_speed_share: 0.02
guiding_wall_frequency: 0.007
""")
#: With these a parameter can be seen: a discretization matters over a period.
BASE = yaml.safe_load("""
constraint_stabilization: {period: 0.002, discretization: semi_implicit}
# slow, and soft walls in a half of the range
hand_guiding: {guiding_speed_share: 0.01, guiding_wall_frequency: 0.005}
impedance: {impedance_frame: tool, frame_stiffness: [50.0, 50.0, 0.0, 0.0, 0.0, 0.0],
            period: 0.002, discretization: zero_order}
""")


#: They determine which gains are refused; and those that a law's effort depends on, too.
ONLY_REFUSE = {'period', 'discretization', 'delay', 'velocity_cutoff_hz'}
PREDICTS = {
    'computed_torque': {'period'},
    'constraint_stabilization': {'period', 'discretization'},
    'impedance': {'period', 'discretization'},
}


@pytest.mark.slow
def test_every_parameter_is_kept_and_matters(name, rng):
    tree = sample('rrpr').tree
    q, v, _ = random_state(tree, rng)
    reference = random_reference(tree, rng)
    if name in ('computed_torque', 'constraint_stabilization'):
        # Such that the sign of Coulomb friction and its width have an effect.
        reference.velocity[:] = -0.7 * v
    tree = tree.with_changes(coulomb_friction=np.full(4, 0.5), damping=np.full(4, 0.3))
    if name == 'constraint_stabilization':  # scaling into the limits matters beyond them
        tree = tree.with_changes(effort_limit=np.full(4, 30.0))
    others = OTHER | ({'discretization': 'semi_implicit'} if name == 'impedance' else {})
    built = make_law(name, tree)
    seen_elsewhere = {'lead_in', 'guiding_wall_stiffness'}  # test_lead_in, test_hand_guiding
    for parameter in built.parameters.keys() - built.structural - seen_elsewhere:
        base, change = dict(BASE.get(name, {})), {parameter: others[parameter]}
        if parameter == 'joint_stiffness':
            base['impedance_frame'] = ''
        law, again = make_law(name, tree, **base), make_law(name, tree, **base | change)
        law.external.known = again.external.known = True
        before = effort_of(law, q, v, reference)
        law.set_parameters(change)
        assert_array_equal(law.parameters[parameter], change[parameter])
        if parameter not in ONLY_REFUSE - PREDICTS.get(name, set()):
            assert not np.array_equal(effort_of(law, q, v, reference), before)
        law.reset(0.0, q, v)  # a law may remember its last command
        assert_array_equal(*(effort_of(x, q, v, reference) for x in (again, law)))
