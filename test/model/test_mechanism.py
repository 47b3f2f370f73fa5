# SPDX-License-Identifier: Apache-2.0
"""Loops close as declared, rates follow from positions, wrong declarations are rejected."""

import math
import re
from itertools import product
from types import SimpleNamespace

import linkages
import mpmath as mp
import numpy as np
import pytest
import sympy as sp
import tables
import yaml
from linkages import LINKAGES
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle, complex_step, complex_step_along

from robot_dynamics_ros.description.shipped import MECHANISMS, shipped_mechanism
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import (
    MechanismError,
    ModelError,
    SingularityError,
)
from robot_dynamics_ros.model import load_mechanism, loops
from robot_dynamics_ros.model.assembly import Assembly
from robot_dynamics_ros.model.kinematics import frame_pose
from robot_dynamics_ros.model.load import check_model

FOUR_BAR, SLIDER_FORM = 'four_bar', linkages.slider_crank_form(0.2, 0.6)


@pytest.fixture(scope='module')
def mechanisms():
    return {name: load_mechanism(*make()) for name, make in LINKAGES.items()}


def four_bar(loops: str, **mappings: str):
    """Load the four-bar with another mechanism file."""
    return load_mechanism(shipped_mechanism(FOUR_BAR)[0], loops, mappings=mappings)


def near(mechanism, rng):
    """Return coordinates around the assembly."""
    u = mechanism.assembled[list(mechanism.equations.coordinates)]
    return u + rng.uniform(-0.4, 0.4, mechanism.n)


def test_what_is_asked_at_one_posture_evaluates_its_loops_once(mechanisms, monkeypatch, rng):
    mechanism, evaluated, zero = mechanisms[FOUR_BAR], [], np.zeros(2)
    evaluate = loops.loop_motion
    monkeypatch.setattr(loops, 'loop_motion', lambda *a: evaluated.append(a) or evaluate(*a))
    q = near(mechanism, rng)
    first = mechanism.tree_state(q, zero, zero)
    count = len(evaluated)
    again = mechanism.tree_state(q, -zero, zero)
    assert 0 < count == len(evaluated)
    assert_array_equal(again.q, first.q)
    mechanism.tree_state(q, zero + 1.0, zero)
    assert len(evaluated) == count + 1  # other velocities, other accelerations of the loops


# ---- positions ----------------------------------------------------------------------------------


@pytest.mark.parametrize('name', LINKAGES)
def test_frames_of_a_loop_meet_in_the_declared_components_and_mimic_joints_follow(
    mechanisms, name, rng
):
    """By Pinocchio; of two components of a rotation, the axis of the third one is kept."""
    mechanism = mechanisms[name]
    oracle, q = PinocchioOracle.of(mechanism.tree), mechanism.positions(near(mechanism, rng))
    for loop in mechanism.equations.loops:
        (R_1, p_1), (R_2, p_2) = (oracle.frame_pose(x, q) for x in (loop.first, loop.second))
        gap, turn = dict(zip('xyz', R_1.T @ (p_2 - p_1), strict=True)), R_1.T @ R_2
        # Newton's method ends at rounding of the positions, which are below 1 m.
        assert_allclose([gap[axis] for axis in loop.position], 0.0, atol=1e-14)
        if len(loop.rotation) > 1:
            free = {*'xyz'} - {*loop.rotation} or {*'xyz'}
            assert_allclose([turn[k, k] for k in map('xyz'.index, free)], 1.0, atol=1e-14)
        elif loop.rotation:  # the component of the axis of the rotation
            around = (turn - turn.T)[[2, 0, 1], [1, 2, 0]]
            assert_allclose(around[loop.turns], 0.0, atol=1e-14)
    position = dict(zip(mechanism.tree.joint_names, q, strict=True))
    for follower, followed, multiplier, offset in linkages.followers(name):
        expected = multiplier * position[followed] + offset
        assert position[follower] == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize('name', [FOUR_BAR, 'ball_linkage', 'welded_chain'])
def test_loops_close_at_the_corners_of_the_planning_range(mechanisms, name):
    mechanism = mechanisms[name]
    for corner in product(*zip(*mechanism.planning_range, strict=True)):
        assert mechanism.reaches(corner)


def test_of_many_coordinates_only_some_corners_are_tried():
    """Twelve have 4096, and each takes milliseconds."""
    ways, places = [], {'coordinates': [*range(12)], 'moves_loops': np.ones(12, dtype=bool)}
    stand_in = SimpleNamespace(
        formula=None,
        assembled=np.zeros(12),
        equations=SimpleNamespace(**places),
        _closing=lambda u: ways.append(u) or 1.0,
    )
    Assembly.narrowed(stand_in, -np.ones(12), np.ones(12))
    corners = np.array(ways[24:])
    assert len({*map(tuple, corners)}) == 64
    assert (np.abs(corners) == 1.0).all()
    assert (np.abs(corners.sum(axis=0)) < 32).all(), 'both ends of each'


def test_guess_declares_the_branch():
    """The other root is the rod and the rear end mirrored at the line from J2' to J2."""
    plain, other = (four_bar(declared(assembly={'guess': x})) for x in (MOUNTED, MIRRORED))
    theta2, J2, J2p = plain.assembled[1], np.array([0.55, 0.0]), np.array([0.0, -0.21])
    rear = np.array([math.sin(theta2), -math.cos(theta2)])
    line = (J2 - J2p) / np.linalg.norm(J2 - J2p)
    mirrored = 2.0 * line * (line @ rear) - rear
    assert other.assembled[1] == pytest.approx(math.atan2(mirrored[0], -mirrored[1]), abs=1e-12)
    branches = [x.equations.branch(x.assembled) for x in (plain, other)]
    assert branches[0] == -branches[1]


@pytest.mark.parametrize('name', MECHANISMS)
def test_shipped_limits_keep_away_from_singular_configurations(mechanisms, name):
    mechanism = mechanisms[name]
    tree, at = mechanism.tree, list(mechanism.equations.coordinates)
    linkage = [at.index(tree.joint_index(j)) for j in ('lower_arm_joint', 'crank_joint')]
    u = np.zeros(mechanism.n)
    ends = np.array([tree.position_lower, tree.position_upper])[:, at][:, linkage]
    for u[linkage] in product(*np.linspace(*ends, 5).T):
        q = mechanism.positions(u)
        assert mechanism.equations.conditioning(q) > 0.05
        assert np.all((tree.position_lower <= q) & (q <= tree.position_upper))


@pytest.mark.parametrize(
    ('name', 'more', 'formula'),
    [('gripper', linkages.GRIPPER_FORM, None), ('slider_crank', '', SLIDER_FORM)],
    ids=['gripper', 'slider_crank'],
)
def test_a_closed_form_gives_what_newton_finds(mechanisms, name, more, formula, rng):
    urdf, loops = linkages.linkage(name)
    closed = load_mechanism(urdf, loops + more, closed_form=formula)
    motion = near(closed, rng), *rng.normal(size=(2, closed.n))
    solved = mechanisms[name].tree_state(*motion)
    for found, expected in zip(closed.tree_state(*motion), solved, strict=True):
        assert_allclose(found, expected, atol=1e-13)


def test_a_closed_form_holds_within_the_limits_and_says_where_it_has_no_value():
    urdf, loops = linkages.short_rod()
    form = linkages.slider_crank_form(0.2, 0.1)
    urdf, loops = urdf.replace('0.0 0.0 1.2', '0.0 0.0 0.0'), loops.partition('assembly')[0]
    with pytest.raises(MechanismError, match=r'closed_form: has no value at u = .*: (math|exp)'):
        load_mechanism(urdf, loops, closed_form=form)
    crank = urdf.index('<joint name="crank_joint"')
    narrow = urdf[crank:].replace('lower="-3.0" upper="3.0"', 'lower="-0.5" upper="0.5"', 1)
    closed = load_mechanism(urdf[:crank] + narrow, loops, closed_form=form)
    assert closed.positions(np.zeros(1))[-1] == pytest.approx(0.3)
    assert (closed.reaches(np.array([0.5])), closed.reaches(np.array([0.6]))) == (True, False)
    with pytest.raises(MechanismError, match=r'no value at u = \[0.6\]: (math|exp)'):
        closed.positions(np.array([0.6]))


@pytest.mark.slow
def test_a_motion_keeps_its_branch_where_a_jump_from_the_assembly_finds_two():
    """The straight way is torn, and two of the four roots beyond have the same determinant."""
    mechanism = load_mechanism(*linkages.linkage('double_five_bar'))
    start, corner, end = np.array([[4.65, 1.51], [4.65, -1.51], [1.63, -1.51]])
    with pytest.raises(MechanismError, match='on the straight way .*near='):
        mechanism.positions(end)
    model, still = make_formulation('newton_euler', mechanism), np.zeros(2)

    def elbows(u):
        """Return the signs of the angle between the rods of each pair."""
        q = dict(zip(mechanism.tree.joint_names, model.tree_state(u, still, still).q, strict=True))
        rods = q['b_joint'] - q['a_joint']
        return [math.sin(rods + q[f'b{k}_joint'] - q[f'a{k}_joint']) > 0.0 for k in (1, 2)]

    begin = elbows(start)
    for u in (*np.linspace(start, corner, 6), *np.linspace(corner, end, 6)):
        assert np.isfinite(model.inverse_dynamics(u, still, still)).all()
        assert elbows(u) == begin
    reached = model.tree_state(end, still, still).q
    assert_allclose(mechanism.positions(np.array([corner, end]))[1], reached)
    assert_allclose(mechanism.positions(np.array([[end]]), reached)[0, 0], reached)
    # Where the last solution leads nowhere, the assembly does.
    assert_allclose(model.tree_state(start, still, still).q, mechanism.assembled)


# ---- rates --------------------------------------------------------------------------------------


@pytest.mark.parametrize('name', LINKAGES)
def test_A_is_the_derivative_of_the_positions_and_gamma_its_rate_times_the_rates(
    mechanisms, name, rng
):
    r""":math:`A = \partial\theta/\partial u`, :math:`\gamma = \dot A\dot u`, by complex steps."""
    mechanism = mechanisms[name]
    u, (ud, udd) = near(mechanism, rng), rng.normal(size=(2, mechanism.n))
    for array in (u, ud, udd):
        array.setflags(write=False)
    state = mechanism.tree_state(u, ud, udd)
    A = complex_step(mechanism.positions, u)
    assert_allclose(state.A, A, atol=1e-14, rtol=1e-13)
    still = np.zeros(mechanism.n)
    gamma = complex_step_along(lambda x: mechanism.tree_state(x, ud, still).A @ ud, u, ud)
    assert_allclose(state.gamma, gamma, atol=1e-13, rtol=1e-12)
    assert_allclose(state.v, state.A @ ud, atol=1e-15)
    assert_allclose(state.a, state.A @ udd + state.gamma, rtol=1e-14, atol=1e-15)
    a, state.a[...], state.q[...] = state.a.copy(), 7.0, 7.0  # results are new
    assert_array_equal(mechanism.tree_state(u, ud, udd).a, a)


# ---- other numbers ------------------------------------------------------------------------------


def test_loops_close_to_forty_digits_over_mpmath(mechanisms):
    mechanism = mechanisms[FOUR_BAR]
    with mp.workdps(50):
        q = mechanism.positions(np.array([mp.mpf('0.3'), mp.mpf('-0.2')], dtype=object))
        arm, rod = (frame_pose(mechanism.tree, q, x).p_WF for x in ('arm_pin', 'rod_pin'))
        assert max(abs(arm - rod)) < mp.mpf(10) ** -40


# ---- selection and reports ----------------------------------------------------------------------


def test_dependent_equations_are_found_and_left_out(mechanisms):
    assert len(mechanisms['slider_crank'].equations.rows) == 2
    assert sum(len(loop.rows) for loop in mechanisms['slider_crank'].equations.loops) == 5
    assert len(mechanisms['welded_chain'].equations.rows) == 3


def test_joints_without_a_drive_need_no_effort_limit(mechanisms):
    mechanism = mechanisms['parallelogram']
    assert mechanism.actuator_names == ('lower_arm_joint', 'crank_joint')
    assert mechanism.effort_limit.tolist() == [250.0, 250.0]
    assert mechanism.tree.effort_limit.tolist() == [250.0, 0.0, 250.0, 0.0]
    rates = {'a': {'rate': {'lower_arm_joint': 1}}, 'b': {'rate': {'crank_joint': -2}}}
    geared = four_bar(declared(actuators=rates))
    assert geared.effort_limit.tolist() == [250.0, 125.0]  # twice the rate, half the torque
    told = ['actuators: only the formulations' in ''.join(x.remarks) for x in (mechanism, geared)]
    assert told == [False, True]
    rates['a']['effort_limit'] = rates['b']['effort_limit'] = 50.0
    file, driver = declared(actuators=rates), {'lower_arm_joint': 60.0, 'crank_joint': 80.0}
    both = load_mechanism(shipped_mechanism(FOUR_BAR)[0], file, effort_limit=driver)
    assert both.effort_limit.tolist() == [50.0, 40.0]  # the lower one of file and driver
    for given in (4.0, {'crank_joint': 4.0}):
        assert load_mechanism(*WEAK, effort_limit=given).effort_limit.tolist() == [4.0]


def test_a_coupler_needs_no_mass_but_each_drive_moves_some():
    urdf, file = shipped_mechanism(FOUR_BAR)
    xml, inertial = FOUR.xml, re.compile(r'<inertial>.*?</inertial>', re.DOTALL)
    rod = xml[xml.index('<link name="rod">') :].partition('</link>')[0]
    bare = xml.replace(rod, inertial.sub('', rod))
    light, at = load_mechanism(bare, file), FOUR.link_names.index('rod')
    assert (light.mass[at], light.inertia[at].any(), FOUR.mass[at] > 0.0) == (0.0, False, True)
    [said] = [x for x in check_model(bare, loops=file).warnings if x.cause == 'massless']
    assert said.culprit == "link 'rod'"
    with pytest.raises(ModelError, match="joint 'crank_joint': mass matrix is not positive"):
        load_mechanism(inertial.sub('', xml), file)


# ---- no solution --------------------------------------------------------------------------------


def test_flat_parallelogram_is_singular_and_the_threshold_can_be_declared(mechanisms):
    urdf, loops = shipped_mechanism('parallelogram')
    strict = load_mechanism(urdf, f'{loops.read_text()}\nsingular_below: 0.5\n')
    flat = math.pi / 2 - 0.2
    for mechanism, angle, said in (
        *((mechanisms['parallelogram'], flat - offset, 'singular') for offset in (0, 1e-6, 1e-4)),
        (strict, 1.0, 'singular.* below 0.5'),
    ):
        with pytest.raises(SingularityError, match=f"Phi_phi of loop 'pin' is {said}"):
            mechanism.tree_state(np.array([angle, -0.2]), np.zeros(2), np.zeros(2))
        assert not mechanism.reaches(np.array([angle, -0.2]))
    regular = mechanisms['parallelogram']
    found = regular.equations.conditioning(regular.positions(np.array([0.7, -0.2])))
    assert found == pytest.approx(math.sqrt(2.0) * math.sin((flat - 0.7) / 2.0), rel=1e-12)


def test_stretched_loop_is_singular_and_beyond_it_cannot_be_closed():
    mechanism = four_bar(str(shipped_mechanism(FOUR_BAR)[1]), l2p='0.42')
    # J2 and J2' are l2' + l3' = 0.69 m apart where theta_1 - theta_1' = delta.
    delta = math.asin((0.69**2 - 0.55**2 - 0.21**2) / (2 * 0.55 * 0.21))
    with pytest.raises(SingularityError, match='Phi_phi'):
        mechanism.tree_state(np.array([delta - 1e-9, 0.0]), np.zeros(2), np.zeros(2))
    said = "loop 'pin': cannot be closed .* to lower_arm_joint = .*: a gap of 0.013.* m is left"
    with pytest.raises(MechanismError, match=said):
        mechanism.positions(np.array([delta + 0.1, 0.0]))


def test_a_closed_form_takes_symbols(mechanisms):
    u = np.array(sp.symbols('theta_1 theta_1p'), dtype=object)
    q = mechanisms['parallelogram'].positions(u)
    assert q.tolist() == [u[0], u[1] - u[0], u[1], u[0] - u[1]]


# ---- wrong declarations -------------------------------------------------------------------------

PIN = {'frames': ['arm_pin', 'rod_pin'], 'position': 'xy'}


def declared(pin=(), **entries):
    """Return the four-bar's mechanism file with other entries, also of its loop."""
    plain = {'loops': {'pin': PIN | dict(pin)}, 'coordinates': ['lower_arm_joint', 'crank_joint']}
    return yaml.safe_dump(plain | entries, sort_keys=False)


@tables.written("""
{loop: {}} | (line 10): unknown key 'loop'; known: ... coordinates
{coordinates: [crank_joint, crank_joint]} | coordinates (line 7): 'crank_joint' is named twice
{coordinates: [elbow]} | coordinates: 'elbow' is not a joint; known: lower_arm_joint, upper_arm
{pin: {axes: xy}} | loop 'pin' ... unknown key 'axes'; known: frames, position, rotation
{pin: {frames: [arm_pin, rod_tip]}} | loop 'pin': 'rod_tip' is not a frame; ... rod_pin
{pin: {frames: [arm_pin, rod_pin, tool]}} | loop 'pin': has 3 frames; give the two to join
{pin: {frames: [arm_pin, tool]}} | loop 'pin': no joint lies between 'arm_pin' and 'tool'
{pin: {position: none}} | loop 'pin': has no equation
{pin: {position: xx}} | loop 'pin', position (line 6): 'xx' is not a set of axes
{pin: {position: x}} | coordinates: not enough: ... 1 of the 2 ... (upper_arm_joint, rod_joint)
{pin: {position: xz}} | not enough: the loops give 1 independent of the 2 equations
{coordinates: [crank_joint]} | coordinates: not enough: the loops give 2 of the 3 equations
{coordinates: [lower_arm_joint, rod_joint]} | joint 'rod_joint': effort limit is 0
{pin: {frames: [frame0, rod_pin]}, coordinates: [lower_arm_joint]} | joint 'upper_arm_joint': is neither a coordinate nor part of a loop
{actuators: {a: {rate: {crank_joint: 1}}}} | actuators: 1 for 2 coordinates
{actuators: {a: {rate: {elbow: 1}}, b: {rate: {crank_joint: 1}}}} | 'a': 'elbow' is not a joint
{actuators: {a: {rate: {crank_joint: 0}}, b: {rate: {crank_joint: 1}}}} | 'a': drives no joint
{actuators: {a: {rate: {crank_joint: 1}}, b: {rate: {crank_joint: 2}}}} | leave a motion undriven
{actuators: {a: {rate: {crank_joint: 1}, effort_limit: -3}}} | actuator 'a', effort_limit ... is -3
{assembly: {guess: {upper_arm_joint: 45}}} | upper_arm_joint: is 45 rad, ... 45 degrees are 0.7854
{assembly: {guess: {crank_joint: 0}}} | assembly guess: 'crank_joint' is not a dependent joint
{assembly: {guess: {rod_joint: 1.2, upper_arm_joint: 1}}} | is far from the root found ... declare guess: {upper_arm_joint:
{closed_form: {rod_joint: {rate: {crank_joint: -1}}}} | joint 'upper_arm_joint' is missing
{closed_form: {rod_joint: {rate: {upper_arm_joint: -1}}}} | 'upper_arm_joint' is not a coordinate
{closed_form: {upper_arm_joint: {rate: {crank_joint: 1, lower_arm_joint: -1}}, rod_joint: {rate: {lower_arm_joint: 1, crank_joint: -1}}}} | closed_form: leaves a gap of 0.0
{coordinates: [lower_arm_joint, crank_joint, rod_joint], actuators: {a: {rate: {lower_arm_joint: 1}}, b: {rate: {crank_joint: 1}}, c: {rate: {rod_joint: 1}, effort_limit: 1}}} | coordinates: 3 are too many: the loops leave 2 degrees of freedom
{actuators: {a: {rate: {lower_arm_joint: 1}}, b: {rate: {lower_arm_joint: 1, upper_arm_joint: 1}}}} | actuator 'b': has no effort limit
{singular_below: 0} | singular_below (line 10): is 0; must be
""")  # noqa: E501
def test_wrong_declaration_is_refused_with_its_culprit(given, said):
    with pytest.raises((MechanismError, ModelError), match=said):
        four_bar(declared(**given))


QUARTER = math.pi / 2
AT = {'lower_arm_joint': QUARTER}
FOUR, TWO = load_mechanism(*shipped_mechanism(FOUR_BAR)), np.zeros(2)
WEAK = [x.replace('effort="100.0"', 'effort="0.0"') for x in linkages.linkage('scotch_yoke')]
SLIDER, FIVE, FORK = map(linkages.linkage, ('slider_crank', 'geared_five_bar', 'cardan'))
#: The fork half a turn away; a follower as a coordinate; guesses of an assembly.
TURNED = FORK[0], FORK[1].replace('cross_joint: 0.5', f'cross_joint: {0.5 - math.pi}')
GEARED = FIVE[0], FIVE[1].replace('coordinates: [crank', 'coordinates: [geared')
#: Of the four-bar as it is mounted, and mirrored.
MOUNTED = {'upper_arm_joint': 0.0, 'rod_joint': 0.0}
MIRRORED = {'upper_arm_joint': -2.21, 'rod_joint': 0.84}
GUESS = {'upper_arm_joint': -QUARTER, 'rod_joint': QUARTER}
TORN, FLAT = declared(assembly={'at': AT}), declared(assembly={'at': AT, 'guess': GUESS})
SYMBOLS = np.array(sp.symbols('theta_1 theta_1p'), dtype=object)

test_it_is_refused_by_name = tables.called("""
FOUR.positions(np.zeros(3)) | ShapeError: u has shape (3,)
FOUR.tree_state(TWO, TWO, np.zeros(4)) | ShapeError: udd has shape (4,)
FOUR.positions(np.array([0.0, np.nan])) | NonFiniteError: u is not finite
FOUR.positions(SYMBOLS) | MechanismError: cannot be solved for symbols; declare a closed_form
load_mechanism(*TURNED) | MechanismError: loop 'fork': closes ... half a turn apart
load_mechanism(*GEARED) | MechanismError: 'geared_joint' is not a joint that follows
load_mechanism(*WEAK) | ModelError: joint 'crank_joint': effort limit is 0
shipped_mechanism('delta') | UnknownNameError: 'delta'; known: four_bar, parallelogram
four_bar(TORN, l2p='0.40', l3p='0.15') | MechanismError: 'pin': cannot be assembled ... guess: a gap of
four_bar(FLAT, l2p='0.55', l3p='0.21') | SingularityError: declare the assembly elsewhere
four_bar(yaml.safe_dump({'loops': {'pin': PIN}})) | MechanismError: 'coordinates' is missing
load_mechanism(*SLIDER, closed_form=linkages.slider_crank_form(0.2, 0.61)) | MechanismError: closed_form ... leaves a gap of
load_mechanism(*SLIDER, closed_form=lambda u: {'rod_joint': u[0]}) | MechanismError: closed_form ... joint 'piston_joint' is missing
load_mechanism(*SLIDER, closed_form=lambda u: {'crank_joint': u[0]}) | MechanismError: closed_form ... 'crank_joint' is not a dependent joint
""", globals())  # fmt: skip  # noqa: E501
