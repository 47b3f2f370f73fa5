# SPDX-License-Identifier: Apache-2.0
"""All exceptions of the package.

They share one base class, so a node or a command needs a single ``except``. Each subclass stores
its data, builds its message from it, states the remedy, and also derives from the built-in
exception that a caller would expect (``ValueError``, ``KeyError``, ``TimeoutError``, ...).
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any

_MAX_LENGTH = 1000  # characters of one part of a message
_MAX_REMEDY = 6000  # a remedy may hold a file to write


class _Repr(reprlib.Repr):
    def repr_instance(self, x: Any, level: int) -> str:
        if hasattr(x, 'tolist'):  # NumPy's, as plain values
            return self.repr1(x.tolist(), level)
        return super().repr_instance(x, level)


_REPR = _Repr()
_REPR.maxlevel = 3
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 80


def shown(value: object) -> str:
    """Return a value as one line of text for a message, truncated if it is long."""
    try:
        return ' '.join(_REPR.repr(value).split())
    except ValueError:  # an integer of thousands of digits
        return f'a {type(value).__name__} of enormous size'


def brief(text: str, most: int = _MAX_LENGTH) -> str:
    """Return a text on one line, with its middle omitted if it is very long."""
    line = ' '.join(text.splitlines())
    return line if len(line) <= most else f'{line[: most - 250]} ... {line[-200:]}'


def nearest(name: object, known: Iterable[str]) -> str:
    """Return a question for the known name that is most like another, or an empty text."""
    from difflib import get_close_matches  # deferred: no start of a node needs it

    close = get_close_matches(str(name), list(known), 1, 0.75)
    return f'did you mean {close[0]!r}?' if close else ''


class RobotDynamicsError(Exception):
    """Base class of all exceptions that this package raises deliberately."""

    def __str__(self) -> str:
        # KeyError would print the repr of its argument.
        return str(self.args[0]) if self.args else type(self).__name__


class UnknownNameError(RobotDynamicsError, KeyError):
    """A name is unknown.

    Args:
        kind: Kind of the name, singular ('formulation', 'frame').
        name: The unknown name.
        known: The existing names.
    """

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        listed = ', '.join(self.known) or 'none'
        if len(listed) <= _MAX_LENGTH or not (text := nearest(name, self.known)):
            text = f'known: {brief(listed)}'
        super().__init__(f'unknown {kind} {shown(name)}; {text}')


def known_name(kind: str, name: str, known: Collection[str]) -> str:
    """Return a name.

    Raises:
        UnknownNameError: It is not known; the message lists the known names.
    """
    if not isinstance(name, Hashable) or name not in known:
        raise UnknownNameError(kind, name, known)
    return name


class DescriptionError(RobotDynamicsError, ValueError):
    """A robot description (URDF, xacro) cannot be used.

    Args:
        culprit: The faulty element, such as "joint 'j2'".
        problem: What is wrong with it.
        remedy: How to correct it.
    """

    def __init__(self, culprit: str, problem: str, remedy: str) -> None:
        self.culprit, self.problem, self.remedy = culprit, problem, remedy
        super().__init__(f'{brief(culprit)}: {brief(problem)}; {brief(remedy, _MAX_REMEDY)}')


FaultHandler = Callable[[DescriptionError], None]


def raise_fault(fault: DescriptionError) -> None:
    """Raise the first fault; a handler that returns lets a reader collect all faults."""
    raise fault


class ModelError(DescriptionError):
    """A description is well formed but not a valid mechanical model (mass, inertia, limits)."""


class MechanismError(DescriptionError):
    """A closed-loop mechanism is declared incorrectly or cannot be assembled."""


class ProgramError(DescriptionError):
    """A constraint program cannot be used: unknown key, dimension, gains, reach or rank."""


class TrajectoryError(DescriptionError):
    """A trajectory or its message violates a rule, named in the problem."""


class RefusedGoalError(RobotDynamicsError, ValueError):
    """A FollowJointTrajectory goal violates a rule, or cannot be executed now.

    Args:
        code: Result code of the action.
        reason: The violated rule, and the remedy.
    """

    def __init__(self, code: int, reason: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(reason)


class ConfigurationError(DescriptionError):
    """A configuration file or command-line argument has an invalid value."""


class RecordingError(DescriptionError):
    """A bag cannot be read, or lacks required data."""


class SceneError(RobotDynamicsError, RuntimeError):
    """A run of several nodes failed.

    Args:
        culprit: The node or resource that failed.
        problem: What happened.
        detail: Its last output, or the remedy.
    """

    def __init__(self, culprit: str, problem: str, detail: str) -> None:
        self.culprit, self.problem, self.detail = culprit, problem, detail
        super().__init__(f'{culprit} {problem}; {detail}')


class ShapeError(RobotDynamicsError, ValueError):
    """An array has the wrong shape.

    Args:
        argument: Name of the argument.
        shape: The actual shape.
        expected: The expected shape, in words or as a tuple.
    """

    def __init__(self, argument: str, shape: tuple[int, ...], expected: object) -> None:
        self.argument, self.shape, self.expected = argument, shape, expected
        super().__init__(f'{argument} has shape {shape}; expected {expected}')


class NonFiniteError(RobotDynamicsError, ValueError):
    """A quantity that must be finite is NaN or infinite."""

    def __init__(self, quantity: str, value: object) -> None:
        self.quantity, self.value = quantity, value
        super().__init__(f'{quantity} is not finite: {value}')


class ParameterError(RobotDynamicsError, ValueError):
    """A parameter value is rejected.

    Args:
        name: Name of the parameter.
        value: The rejected value.
        reason: Why, and which values are allowed.
    """

    def __init__(self, name: str, value: object, reason: str) -> None:
        self.name, self.value, self.reason = name, value, reason
        super().__init__(f'parameter {name} = {shown(value)} refused: {reason}')


class SingularityError(RobotDynamicsError, ArithmeticError):
    """A matrix that must be inverted is (nearly) singular.

    Args:
        quantity: The matrix, such as 'Phi_phi of loop main'.
        measure: Its smallest singular value or determinant.
        threshold: The smallest value accepted.
        hint: Where it occurs, or the remedy.
    """

    def __init__(self, quantity: str, measure: float, threshold: float, hint: str = '') -> None:
        self.quantity, self.measure, self.threshold = quantity, measure, threshold
        self.hint = hint
        tail = f'; {hint}' if hint else ''
        super().__init__(f'{quantity} is singular: {measure:.3g} is below {threshold:.3g}{tail}')


class UnreachableError(RobotDynamicsError, ValueError):
    """A target pose or path is outside the reach or the joint limits of the arm."""

    def __init__(self, target: str, reason: str) -> None:
        self.target, self.reason = target, reason
        super().__init__(f'{target} cannot be reached: {reason}')


class MissingDependencyError(RobotDynamicsError, ImportError):
    """A required optional package is not installed, or cannot be loaded.

    Args:
        module: The module that could not be imported.
        purpose: The feature that requires it.
        remedy: How to install it, or an alternative.
    """

    def __init__(self, module: str, purpose: str, remedy: str) -> None:
        self.module, self.purpose, self.remedy = module, purpose, remedy
        super().__init__(f'{purpose} needs {module}, which is not installed; {remedy}')

    def __str__(self) -> str:
        """Name what an installed package lacks, such as a library of the system."""
        cause = self.__cause__
        if isinstance(cause, ModuleNotFoundError) or not isinstance(cause, ImportError):
            return super().__str__()
        return (
            f'{self.purpose} needs {self.module}, which is installed but cannot be loaded: '
            f'{cause}; install what it lacks'
        )


class PeerTimeoutError(RobotDynamicsError, TimeoutError):
    """Another process did not respond in time.

    Args:
        peer: The missing peer (node, topic, service).
        awaited: The expected response.
        seconds: Timeout, s.
    """

    def __init__(self, peer: str, awaited: str, seconds: float) -> None:
        self.peer, self.awaited, self.seconds = peer, awaited, seconds
        super().__init__(f'{peer}: no {awaited} within {seconds:g} s')


class DivergenceError(RobotDynamicsError, ArithmeticError):
    """A simulation produced a non-finite state."""

    def __init__(self, what: str, time: float) -> None:
        self.what, self.time = what, time
        super().__init__(f'{what} diverged at t = {time:.6g} s')
