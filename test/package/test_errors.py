# SPDX-License-Identifier: Apache-2.0
"""Every error names problem and remedy, and derives from a built-in exception."""

from __future__ import annotations

import inspect

import pytest

from robot_dynamics_ros import errors
from robot_dynamics_ros.errors import RobotDynamicsError

# class: (arguments, built-in kind, message)
TABLE = {
    'UnknownNameError': (
        ('law', 'pid', ['pd', 'computed_torque']),
        KeyError,
        "unknown law 'pid'; known: computed_torque, pd",
    ),
    'ShapeError': (('q', (3,), (4,)), ValueError, 'q has shape (3,); expected (4,)'),
    'NonFiniteError': (('effort', 'nan'), ValueError, 'effort is not finite: nan'),
    'ParameterError': (
        ('rate', -1, 'must be positive'),
        ValueError,
        'parameter rate = -1 refused: must be positive',
    ),
    'SingularityError': (
        ('M', 1e-15, 1e-12, 'move away'),
        ArithmeticError,
        'M is singular: 1e-15 is below 1e-12; move away',
    ),
    'UnreachableError': (
        ('pose', 'the arm is too short'),
        ValueError,
        'pose cannot be reached: the arm is too short',
    ),
    'MissingDependencyError': (
        ('numba', 'the fast kernel', 'pip install numba'),
        ImportError,
        'the fast kernel needs numba, which is not installed; pip install numba',
    ),
    'PeerTimeoutError': (
        ('controller', 'command', 0.5),
        TimeoutError,
        'controller: no command within 0.5 s',
    ),
    'SceneError': (
        ('node simulator', 'ended too early', 'out of memory'),
        RuntimeError,
        'node simulator ended too early; out of memory',
    ),
    'RefusedGoalError': ((-1, 'no points'), ValueError, 'no points'),
    'DivergenceError': (
        ('simulation', 1.25),
        ArithmeticError,
        'simulation diverged at t = 1.25 s',
    ),
}
# These name a culprit, the problem and the remedy.
for _name in (
    'DescriptionError',
    'ModelError',
    'MechanismError',
    'ProgramError',
    'TrajectoryError',
    'ConfigurationError',
    'RecordingError',
):
    TABLE[_name] = (
        ("joint 'j1'", 'is bent', 'straighten it'),
        ValueError,
        "joint 'j1': is bent; straighten it",
    )


def declared_errors() -> set[str]:
    found = inspect.getmembers(errors, inspect.isclass)
    return {name for name, kind in found if issubclass(kind, RobotDynamicsError)}


def test_the_table_knows_every_error():
    assert declared_errors() - {'RobotDynamicsError'} == set(TABLE)


@pytest.mark.parametrize('name', TABLE)
def test_the_message_says_what_is_wrong_and_the_error_carries_its_data(name):
    arguments, builtin, message = TABLE[name]
    kind = getattr(errors, name)
    error = kind(*arguments)
    assert str(error) == message
    assert isinstance(error, RobotDynamicsError)
    assert isinstance(error, builtin)
    for key, value in zip(inspect.signature(kind).parameters, arguments, strict=False):
        found = getattr(error, key)
        assert found == (tuple(sorted(value)) if key == 'known' else value)


def test_a_lookup_among_nothing_says_so():
    assert str(errors.UnknownNameError('frame', 'tool', [])).endswith('known: none')


def test_a_bare_error_shows_its_class():
    assert str(RobotDynamicsError()) == 'RobotDynamicsError'


def test_a_fault_handler_that_raises_stops_at_the_first_fault():
    fault = errors.ModelError("link 'arm'", 'has no mass', 'weigh it')
    with pytest.raises(errors.ModelError) as caught:
        errors.raise_fault(fault)
    assert caught.value is fault
