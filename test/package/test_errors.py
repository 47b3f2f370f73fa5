# SPDX-License-Identifier: Apache-2.0
"""Every error names problem and remedy, and derives from a built-in exception."""

import builtins
import inspect

import pytest
import yaml

from robot_dynamics_ros import errors
from robot_dynamics_ros.errors import RobotDynamicsError

#: Class: built-in kind, arguments, message. Many name a culprit, the problem and the remedy.
TABLE = yaml.safe_load("""
UnknownNameError: [KeyError, [law, pid, [pd, computed_torque]], "unknown law 'pid'; known: computed_torque, pd"]
ShapeError: [ValueError, [q, [3], [4]], 'q has shape [3]; expected [4]']
NonFiniteError: [ValueError, [effort, nan], 'effort is not finite: nan']
ParameterError: [ValueError, [rate, -1, must be positive], 'parameter rate = -1 refused: must be positive']
SingularityError: [ArithmeticError, [M, 1.0e-15, 1.0e-12, move away], 'M is singular: 1e-15 is below 1e-12; move away']
UnreachableError: [ValueError, [pose, the arm is too short], 'pose cannot be reached: the arm is too short']
MissingDependencyError: [ImportError, [numba, the kernel, pip it], 'the kernel needs numba, which is not installed; pip it']
PeerTimeoutError: [TimeoutError, [controller, command, 0.5], 'controller: no command within 0.5 s']
SceneError: [RuntimeError, [node a, ended too early, out of memory], node a ended too early; out of memory]
RefusedGoalError: [ValueError, [-1, no points], no points]
DivergenceError: [ArithmeticError, [simulation, 1.25], simulation diverged at t = 1.25 s]
DescriptionError: &usual [ValueError, [joint a, is bent, straighten it], 'joint a: is bent; straighten it']
ModelError: *usual
MechanismError: *usual
ProgramError: *usual
TrajectoryError: *usual
ConfigurationError: *usual
RecordingError: *usual
""")  # noqa: E501


def test_the_table_knows_every_error():
    found = inspect.getmembers(errors, inspect.isclass)
    known = {name for name, kind in found if issubclass(kind, RobotDynamicsError)}
    assert known == {*TABLE, 'RobotDynamicsError'}


@pytest.mark.parametrize('name', TABLE)
def test_the_message_says_what_is_wrong_and_the_error_carries_its_data(name):
    builtin, arguments, message = TABLE[name]
    kind = getattr(errors, name)
    error = kind(*arguments)
    assert str(error) == message
    assert isinstance(error, RobotDynamicsError)
    assert isinstance(error, getattr(builtins, builtin))
    for key, value in zip(inspect.signature(kind).parameters, arguments, strict=False):
        assert getattr(error, key) == (('computed_torque', 'pd') if key == 'known' else value)


def test_a_package_that_is_installed_but_cannot_be_loaded_says_what_it_lacks():
    """As Pinocchio where the system has no OpenMP."""
    error = errors.MissingDependencyError('pinocchio', 'coal', 'pip it')
    error.__cause__ = ModuleNotFoundError("No module named 'pinocchio'")
    assert str(error) == 'coal needs pinocchio, which is not installed; pip it'
    error.__cause__ = ImportError('libgomp.so.1: cannot open shared object file')
    assert str(error) == (
        'coal needs pinocchio, which is installed but cannot be loaded: '
        'libgomp.so.1: cannot open shared object file; install what it lacks'
    )


def test_what_is_known_may_be_nothing_and_an_error_be_bare():
    assert str(errors.UnknownNameError('frame', 'tool', [])).endswith('known: none')
    assert str(RobotDynamicsError()) == 'RobotDynamicsError'


def test_a_fault_handler_that_raises_stops_at_the_first_fault():
    fault = errors.ModelError("link 'arm'", 'has no mass', 'weigh it')
    with pytest.raises(errors.ModelError) as caught:
        errors.raise_fault(fault)
    assert caught.value is fault
