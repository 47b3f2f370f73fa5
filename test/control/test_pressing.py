# SPDX-License-Identifier: Apache-2.0
"""Programs with a contact: the force on boards in MuJoCo, the reaction (2.19), edges, faults."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tables
from oracles import PinocchioOracle
from pushed_arm import PlantArm, arm

from robot_dynamics_ros.constraints.contact import (
    Contact,
    ContactControl,
    ContactPhase,
    contact_loop,
    force_gain,
)
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.constraints.reactions import constraint_force
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.requests import tared
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.description.shipped import share_directory
from robot_dynamics_ros.dynamics.sampled_loop import Sampling
from robot_dynamics_ros.errors import (
    ConfigurationError,
    ParameterError,
    RobotDynamicsError,
)
from robot_dynamics_ros.simulation.mujoco_description import Board

MS = 1_000_000
PRESS = 'scara_press'
ABOVE = 0.005  # m, initial height above the board
#: Arm of each program, and joint positions near its start.
SCENES = {
    'scara_press': ('scara', np.array([-0.4, 1.55, 0.11, 1.15])),
    'four_dof_board': ('four_dof', np.array([0.1, -1.0, -0.66, 0.75])),
}


def make_board(name: str, stiffness: float, friction: float) -> Board:
    """Return the board of a program, of 1 kg, on a spring with a damping ratio of 2 %."""
    program = load_program(name, arm(SCENES[name][0]), check=False)
    given = {'stiffness': stiffness, 'friction': friction, 'damping': 0.04 * np.sqrt(stiffness)}
    return Board.for_program(program, **given)


def above(program: Program, near: np.ndarray) -> np.ndarray:
    """Return joint positions with f = 0 except in the contact's row, slightly above the board."""
    [(row, _)], q = program.contacts, near
    offset = ABOVE * np.eye(program.m)[row]
    for _ in range(10):
        seen = program.stack.evaluate(q, 0.0 * q, 0.0)
        q = q - np.linalg.lstsq(seen.Gamma, seen.f - offset, rcond=None)[0]
    return q


class Pressing(PlantArm):
    """Runs a program with one state per millisecond and five integration steps each.

    Attributes:
        force: Force of the board on the arm along the normal, one per step, N.
        f: Values of the program, one row per step, m or rad.
        efforts: Commands, one row per step, N m or N.

    Args:
        name: The shipped program.
        board: The board.
        friction: Whether the joints have friction.
        sensed: Whether a sensor measures the force.
        late: Number of periods after which efforts act.
        more: Further parameters of the controller.
    """

    def __init__(self, name, board, *, friction=False, sensed=True, late=0, **more: Any):
        tree, near = arm(SCENES[name][0], friction=friction), SCENES[name][1]
        start = above(load_program(name, tree), near)
        law = {'law': 'constraint_stabilization', 'program': name, 'observer_bandwidth': [200.0]}
        super().__init__(tree, start, {**law, 'delay': late, **more}, substeps=5, board=board)
        self.sensed, self._normal, self._late = False, np.array(board.normal), late
        self.force, self.f, self.efforts = list[float](), list[np.ndarray](), list[np.ndarray]()
        self.activate()
        self.sensed, self.law = sensed, self.session.loop.law
        [(_, self.contact)] = self.law.program.contacts

    def answer(self) -> bool:
        """Pass the measured force, if there is a sensor, and then the state to the session."""
        if self.sensed:
            self.session.measure_wrench('tool', self.plant.board_wrench())
        return super().answer()

    def act(self) -> None:
        """Apply a command for a period, and record the result."""
        self.efforts.append(self.effort.copy())
        self.plant.step(self.efforts[-1 - min(self._late, len(self.efforts) - 1)])
        self.force.append(float(self._normal @ self.plant.board_force))
        self.f.append(self.law.f.copy())


@pytest.mark.slow
@tables.rows(
    'name delay stiffness',
    """
scara_press, 2, 1.0e+6
four_dof_board, 1, 1.0e+5
""",
)
def test_a_known_stiffness_is_pressed_calmly_whatever_it_is(name, delay, stiffness):
    """From soft to stiff; the board has a damping ratio of 2 % only."""
    program, board = stiff(name, stiffness), make_board(name, stiffness, 0.0)
    pressing = Pressing(name, board, late=delay, program=program)
    pressing.settle(1.45)  # before the drawing begins
    with pytest.raises(ConfigurationError, match='presses on a surface'):
        tared(pressing.session, pressing.now_ns)
    wanted, force = pressing.contact.force, np.array(pressing.force)
    after = np.flatnonzero(force)[0] + 100  # the impact itself is that of its speed and stiffness
    assert force[after:].max() < 1.3 * wanted
    assert np.abs(force[-200:] - wanted).max() < 0.1 * wanted
    assert np.ptp(force[-100:]) <= np.ptp(force[-600:-500]) + 0.01 * wanted


def stiff(name: str, stiffness: float) -> str:
    """Return the text of a program with the stiffness of its board."""
    text = (share_directory() / 'config' / 'programs' / f'{name}.yaml').read_text('utf-8')
    return text.replace('stiffness: 10000', f'stiffness: {stiffness:.1f}')


def test_pressing_on_what_is_too_stiff_for_a_light_arm_and_its_delay_is_refused():
    given = {'law': 'constraint_stabilization', 'program': stiff('four_dof_board', 1e6)}
    with pytest.raises(ParameterError, match=r'pressing on a surface of 1e\+06 N/m .*'):
        ControllerSession(arm('four_dof'), {**given, 'delay': 1})


@pytest.mark.parametrize('stiffness', [1e3, 1e6])
@pytest.mark.parametrize(('mass', 'damping'), [(0.5, 300.0), (4.0, 20.0)])
def test_the_correction_of_the_force_has_the_slowest_decay_divided_by_eight(
    mass, damping, stiffness
):
    """Continuous: of the roots of L s^2 + L G s + k, 1/s; a stable polynomial with it."""
    loop = contact_loop(stiffness, mass, damping)
    gain = force_gain(loop, Sampling(0.0))
    decay = -np.roots([mass, mass * damping, stiffness]).real.max()
    assert gain == pytest.approx(decay / 8.0)
    sampled = force_gain(loop, Sampling(1e-5, 'zero_order'))
    assert sampled == pytest.approx(gain, rel=0.02)  # a period of 1e-5 s, 10 per radian


@pytest.mark.slow
@tables.rows(
    'name stiffness along sensed',
    """
scara_press, 1.0e+3, [0, 1], true
four_dof_board, 1.0e+5, [1, 2], true
scara_press, 1.0e+5, [0, 1], false
""",
)
def test_the_force_is_held_while_drawing_on_a_board_of_unknown_stiffness(
    name, stiffness, along, sensed
):
    board = make_board(name, stiffness, 0.3)
    pressing = Pressing(name, board, friction=True, sensed=sensed)
    pressing.settle(3.0)
    wanted, force = pressing.contact.force, np.array(pressing.force)
    f, away = np.array(pressing.f)[2200:, along], force[2200:] - wanted
    assert np.sqrt(np.mean(np.sum(f**2, axis=1))) < 0.5e-3  # m
    if sensed:
        assert np.sqrt(np.mean(away**2)) < 0.5  # requirement; measured: 0.04 to 0.19 N
        assert force.max() < 1.3 * wanted
    else:
        text = pressing.law.status()['contact table: tool above the plane (m)']
        bound = float(text.split()[-2])
        # The quill alone moves the tool up and down: its own Coulomb friction of 6 N, and 0.5 N.
        assert bound == pytest.approx(6.5, abs=0.01)
        assert abs(np.mean(away)) < bound


@pytest.mark.slow
@pytest.mark.parametrize(('name', 'damping'), [('scara_press', 80.0), ('four_dof_board', 180.0)])
def test_the_reaction_2_19_of_the_commanded_efforts_is_the_wanted_force(name, damping):
    (robot, q), t = SCENES[name], 0.7
    tree = arm(robot)
    law, out = make_law('constraint_stabilization', tree, program=name), np.zeros(tree.n)
    seen = law.program.stack.evaluate(q, 0.0 * q, t)
    # At v = 0 the rate is the explicit one of the surface: with this velocity f is constant.
    v, reference = -np.linalg.solve(seen.Gamma, seen.f_dot), Reference(tree.n)
    law.reset(0.0, q, v)
    law.effort(0.0, q, v, reference, out)
    [control], [(row, contact)] = law._contacts.controls.values(), law.program.contacts
    control.phase, control.rate = ContactPhase.PRESSING, 0.0
    control.contact = control.contact._replace(ramp=1e-9)
    law.external.measured = True
    law.external.effort[:] = seen.Gamma[row] * contact.force  # the yielding of the surface
    for time in (t - 1e-3, t):
        law.effort(time, q, v, reference, out)
        parts = law.decompose(q, v, reference, out)  # a look at them changes no later effort
        np.testing.assert_allclose(sum(parts.values()), out, atol=1e-9)
    oracle, seen = PinocchioOracle.of(tree), law.program.stack.evaluate(q, v, t)
    A = oracle.mass_matrix(q) + np.diag(tree.armature)
    b = oracle.coriolis_matrix(q, v) @ v + oracle.gravity_forces(q)
    normal, rate = seen.Gamma[[row]], seen.f_dot[row]
    _, N = constraint_force(A, b, out, normal, seen.beta[[row]])
    assert abs(rate) < 1e-3  # the surface has moved on since 0
    assert control.force == pytest.approx(contact.force, rel=1e-9)
    mass = 1.0 / (normal @ np.linalg.solve(A, normal.T)).item()
    assert N[0] == pytest.approx(contact.force + damping * mass * rate, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize('sensed', [True, False])
def test_beyond_an_edge_it_stops_pressing_and_goes_back_above_the_board(sensed):
    board = replace(make_board(PRESS, 1e4, 0.0), origin=(0.345, 0.085, 0.28), size=0.07)
    pressing = Pressing(PRESS, board, sensed=sensed)
    pressing.settle(3.5)
    [control] = pressing.law._contacts.controls.values()
    assert max(pressing.force[1200:2000]) > 15.0
    assert (control.phase, control.force) == (ContactPhase.RETRACTED, 0.0)
    lowest = np.array(pressing.f)[:, 2]
    # Measured: 3 mm with a sensor, 11 mm without; the quill falls at 15 cm/s at most.
    assert lowest.min() > (-0.008 if sensed else -0.025)
    assert lowest[-1] == pytest.approx(control.contact.clearance, abs=1e-3)
    steps = np.diff(pressing.efforts[1200:], axis=0) / pressing.session.tree.effort_limit
    assert np.abs(steps).max() <= 1 / 20


def test_a_contact_that_returns_at_once_is_not_pressed_with_more_than_the_limit():
    """The last force still fades when the next one has risen."""
    control = ContactControl(Contact(10.0, max_force=11.0, ramp=0.001, on_contact_loss='approach'))
    forces = []
    for k in range(200):
        control.advance(0.001, 0.0, 0.0, 0.0 if 100 <= k < 130 else 8.0, sensed=True)
        forces.append(control.force)
    assert control.touches == 2
    assert max(forces) <= 11.0


@tables.written("""
{kind: plane, plane: {origin: [0, 0, 0.28]}, contact: {force: -1.0}} | force
{kind: plane, plane: {origin: [0, 0, 0.28]}, contact: {force: 5.0, limits: {force: 4.0}}} | is 5
{kind: plane, plane: {origin: [0, 0, 0.28]}, contact: {force: 5.0, colour: red}} | colour
{kind: plane, plane: {origin: [0, 0, 0.28]}, contact: {speed: 0.1}} | force
{kind: plane, plane: {origin: [0, 0, 0.28]}, contact: {force: 5, on_contact_loss: panic}} | retract
{kind: point, axes: xy, target: [0.3, 0.1], contact: {force: 1.0}} | single non-mechanical row
""")
def test_a_wrong_contact_is_refused_with_its_name(given, said):
    program = {'constraints': [{'name': 'table', 'frame': 'tool', **given}]}
    with pytest.raises(RobotDynamicsError, match=said):
        load_program(program, arm('scara'), check=False)
