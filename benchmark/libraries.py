# SPDX-License-Identifier: Apache-2.0
"""Inverse dynamics of other libraries, each called in the fastest way that its Python offers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.measuring import Contender

#: Largest difference to Pinocchio, relative to its largest effort, of a library that is timed.
_SAME = 1e-6


def contenders(
    xml: str, gravity: np.ndarray, q: np.ndarray, v: np.ndarray, a: np.ndarray
) -> tuple[dict[str, Contender], dict[str, str]]:
    """Return the libraries that are installed and give the right answer, and why others are not.

    Args:
        xml: The robot as URDF text.
        gravity: Shape (3,), m/s^2.
        q: Joint positions, shape (n,).
        v: Joint velocities, shape (n,).
        a: Joint accelerations, shape (n,).
    """
    racing: dict[str, Contender] = {}
    left_out: dict[str, str] = {}
    expected: np.ndarray | None = None
    for name, make in _MAKERS.items():
        try:
            contender = make(xml, gravity, q, v, a)
            answer = np.asarray(eval(contender.statement, contender.names), dtype=float)
        except ImportError:
            left_out[name] = 'not installed'
            continue
        except Exception as error:  # a library that cannot read the robot is no contender
            left_out[name] = f'{type(error).__name__}: {error}'.splitlines()[0]
            continue
        if expected is None:
            expected = answer
        if np.max(np.abs(answer - expected)) > _SAME * np.max(np.abs(expected)):
            left_out[name] = f'gives {answer}, not {expected}'
        else:
            racing[name] = contender
    return racing, left_out


def _pinocchio(xml: str, gravity: Any, q: Any, v: Any, a: Any) -> Contender:
    import pinocchio

    model = pinocchio.buildModelFromXML(xml)
    model.gravity.linear = np.array(gravity)
    names = {'rnea': pinocchio.rnea, 'model': model, 'data': model.createData()}
    return Contender('rnea(model, data, q, v, a)', names | {'q': q, 'v': v, 'a': a})


def _mujoco(xml: str, gravity: Any, q: Any, v: Any, a: Any) -> Contender:
    import mujoco

    model = mujoco.MjModel.from_xml_string(xml)
    model.opt.gravity[:] = gravity
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    model.dof_damping[:] = 0.0
    model.dof_armature[:] = 0.0
    data = mujoco.MjData(model)

    def inverse(
        call: Callable[[Any, Any], None] = mujoco.mj_inverse,
        position: Any = data.qpos,
        velocity: Any = data.qvel,
        acceleration: Any = data.qacc,
        effort: Any = data.qfrc_inverse,
    ) -> Any:
        position[:] = q
        velocity[:] = v
        acceleration[:] = a
        call(model, data)
        return effort

    return Contender('inverse()', {'inverse': inverse})


def _drake(xml: str, gravity: Any, q: Any, v: Any, a: Any) -> Contender:
    import logging

    from pydrake.multibody.parsing import Parser
    from pydrake.multibody.plant import MultibodyPlant
    from pydrake.multibody.tree import MultibodyForces

    logging.getLogger('drake').setLevel(logging.ERROR)
    plant = MultibodyPlant(0.0)
    Parser(plant).AddModelsFromString(xml, 'urdf')
    root = _root(xml)
    if root != 'world':  # that link is the library's own world
        plant.WeldFrames(plant.world_frame(), plant.GetBodyByName(root).body_frame())
    plant.mutable_gravity_field().set_gravity_vector(gravity)
    plant.Finalize()
    context, forces = plant.CreateDefaultContext(), MultibodyForces(plant)

    def inverse() -> Any:
        plant.SetPositions(context, q)
        plant.SetVelocities(context, v)
        forces.SetZero()
        plant.CalcForceElementsContribution(context, forces)
        return plant.CalcInverseDynamics(context, a, forces)

    return Contender('inverse()', {'inverse': inverse})


def _dynibo(xml: str, gravity: Any, q: Any, v: Any, a: Any) -> Contender:
    import dynibo

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / 'robot.urdf'
        file.write_text(xml, encoding='utf-8')
        robot = dynibo.Robot.from_urdf(str(file))
    names = {'inverse': robot.inverse_dynamics, 'q': q, 'v': v, 'a': a, 'tau': np.zeros(len(q))}
    return Contender('inverse(q, v, a, out=tau)', names)


def _robotics_toolbox(xml: str, gravity: Any, q: Any, v: Any, a: Any) -> Contender:
    import warnings

    warnings.simplefilter('ignore', DeprecationWarning)
    import roboticstoolbox

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / 'robot.urdf'
        file.write_text(xml, encoding='utf-8')
        robot = roboticstoolbox.Robot.URDF(str(file))
    names = {'rne': robot.rne, 'q': q, 'v': v, 'a': a, 'g': np.array(gravity)}
    return Contender('rne(q, v, a, gravity=g)', names)


def _root(xml: str) -> str:
    from robot_dynamics_ros.model import load_robot

    return load_robot(xml, effort_limit=1.0).base_link


_MAKERS = {
    'pinocchio': _pinocchio,
    'mujoco': _mujoco,
    'drake': _drake,
    'dynibo': _dynibo,
    'roboticstoolbox': _robotics_toolbox,
}
