# SPDX-License-Identifier: Apache-2.0
"""A robot's functions as a folder of C99: source, header, self-test, Makefile and CMake target.

Like the kernels, the code is straight-line: no allocation, no globals, no library except ``libm``.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from robot_dynamics_ros import __version__
from robot_dynamics_ros.dynamics import FORMULATIONS
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import name_list
from robot_dynamics_ros.symbolic.c_function import (
    CHOOSE,
    CMAKE,
    MAKEFILE,
    CFunction,
    declaration,
    definition,
    identifiers,
    in_comment,
    require_identifier,
    self_test,
)
from robot_dynamics_ros.symbolic.outputs import (
    KernelSpec,
    Output,
    known_output,
    trace_output,
)

#: Default outputs of a robot and of each frame.
DEFAULT_OUTPUTS = ('inverse_dynamics', 'gravity_forces', 'bias_forces', 'mass_matrix')
FRAME_OUTPUTS = ('frame_pose', 'frame_jacobian')

#: Type of a joint and units of its position and effort, by whether it is prismatic.
_KINDS = ('revolute, rad, N m', 'prismatic, m, N')

#: Meaning and unit of every argument of an output.
_ARGUMENTS = {
    'q': 'joint positions, rad or m',
    'v': 'joint velocities, rad/s or m/s',
    'a': 'joint accelerations, rad/s^2 or m/s^2',
    'tau': 'joint efforts, N m or N',
    'g': 'gravity forces, N m or N',
    'b': 'bias forces, N m or N',
    'M': 'mass matrix, kg m^2, kg m or kg',
    'E': 'kinetic and potential energy, J',
    'R': 'rotation from frame to base axes',
    'p': 'origin of the frame in the base, m',
    'J': 'Jacobian, rows m or rad per unit of q: three linear, then three angular',
    'bias': 'dJ/dt v, m/s^2 and rad/s^2',
    'dq': 'd tau / d q, N m or N per rad or m',
    'dv': 'd tau / d v, N m or N per rad/s or m/s',
    'Y': 'regressor, effort per kg, kg m (x, y, z) and kg m^2 (xx, xy, xz, yy, yz, zz)',
}


def c_source(
    robot: Robot,
    outputs: Sequence[str] = DEFAULT_OUTPUTS,
    *,
    frames: Sequence[str] = (),
    formulation: str = 'newton_euler',
    name: str | None = None,
    functions: Sequence[CFunction] = (),
) -> dict[str, str]:
    """Return the contents of a C source folder by file name; save them with :func:`write`.

    Args:
        robot: The robot.
        outputs: Functions to generate, keys of ``OUTPUTS``. Those that depend on a frame are
            generated for each of ``frames``, under the frame's name.
        frames: Names of links. If ``outputs`` has no frame function: pose and Jacobian of each.
        formulation: Name of a formulation that runs on symbols.
        name: Prefix of all names in C; by default the robot's name.
        functions: Additional functions, such as a control law.

    Returns:
        ``<name>.h``, ``<name>.c``, ``<name>_test.c``, ``Makefile``, ``CMakeLists.txt``.

    Raises:
        UnknownNameError: A formulation, output or frame does not exist; the message lists the
            known ones.
        ParameterError: A name is duplicated or not a C identifier, ``frames`` is empty for a frame
            function, or the formulation computes on numbers only.
        MechanismError: Its loops have no closed form.

    Cost: as for compiling the same kernels, plus 100 interpreted states of each function.
    """
    own = identifiers([robot.name])[robot.name]
    prefix = require_identifier('name', own if name is None else name)
    spec = KernelSpec(robot, formulation, '')
    if spec.formulation.numbers_only:
        raise ParameterError('formulation', formulation, 'it computes on numbers only')
    if spec.tree.mass.dtype == object:
        raise ParameterError('robot', robot.name, 'C source needs numeric constants, not symbols')
    robot.require_closed_form('C source could not check')
    c_functions = [*robot_functions(robot, outputs, frames, formulation), *functions]
    names = [function.name for function in c_functions]
    for function in names:
        require_identifier('function', function)
        if names.count(function) > 1:
            raise ParameterError('outputs', function, 'is duplicated; names must differ')
    arguments = (_comment(spec), prefix, spec.n, c_functions)
    build = {'name': prefix, 'NAME': prefix.upper()}
    return {
        f'{prefix}.h': _header(*arguments),
        f'{prefix}.c': _source(*arguments),
        f'{prefix}_test.c': self_test(prefix, c_functions),
        'Makefile': MAKEFILE.format_map(build),
        'CMakeLists.txt': CMAKE.format_map(build),
    }


def write(files: dict[str, str], folder: Path) -> None:
    """Write files to a folder, which is created if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (folder / file).write_text(text, encoding='utf-8')


def robot_functions(
    robot: Robot,
    outputs: Sequence[str] = DEFAULT_OUTPUTS,
    frames: Sequence[str] = (),
    formulation: str = 'newton_euler',
) -> list[CFunction]:
    """Return the functions of a robot, see :func:`c_source`."""
    outputs, frames = name_list('outputs', outputs), name_list('frames', frames)
    if frames and not any(known_output(output).of_frame for output in outputs):
        outputs = [*outputs, *FRAME_OUTPUTS]
    functions, words = [], identifiers(frames)
    for output in outputs:
        kind = known_output(output)
        if kind.of_frame and not frames:
            raise ParameterError('outputs', output, 'needs a frame; name one or more in frames')
        for frame in frames if kind.of_frame else ('',):
            spec = KernelSpec(robot, formulation, frame)
            functions.append(_function(output, kind, spec, words.get(frame, '')))
    return functions


def _function(output: str, kind: Output, spec: KernelSpec, word: str) -> CFunction:
    name, meaning = output, kind.meaning
    if kind.of_frame:
        spec.tree.frame(spec.frame_name)
        name = output.replace('frame', word)
        meaning += f'; of link {spec.frame_name}'
    code = trace_output(output, spec)
    return CFunction(
        code._replace(arguments=code.arguments._replace(name=name)),
        meaning,
        _ARGUMENTS,
        partial(kind.compute, spec),
        partial(_draw, spec, kind.inputs),
    )


def _draw(spec: KernelSpec, inputs: Sequence[str], rng: np.random.Generator) -> list[Array]:
    """Return random inputs: positions where loops close, others normally distributed."""
    q = spec.robot.random_positions
    return [q(rng, 1)[0] if name == 'q' else rng.normal(size=spec.n) for name in inputs]


def _header(comment: str, prefix: str, n: int, functions: Sequence[CFunction]) -> str:
    guard = f'{prefix}_H'.upper()
    declared = '\n'.join(declaration(prefix, function, n) for function in functions)
    return f"""{comment}#ifndef {guard}
#define {guard}

#ifdef __cplusplus
extern "C" {{
#endif

#define {prefix.upper()}_N {n} /* joints */

{declared}
#ifdef __cplusplus
}}
#endif

#endif
"""


def _source(comment: str, prefix: str, n: int, functions: Sequence[CFunction]) -> str:
    chooses = any(function.code.operations()['select'] for function in functions)
    defined = '\n'.join(definition(prefix, function, n) for function in functions)
    return f"""{comment}#include "{prefix}.h"

#include <math.h>
{CHOOSE if chooses else ''}
{defined}"""


def _comment(spec: KernelSpec) -> str:
    """Return the header comment: robot, version, joints, digests, source of the equations."""
    tree, module = spec.robot, inspect.getmodule(FORMULATIONS[spec.formulation_name])
    doc = inspect.cleandoc((module and module.__doc__) or '')
    source = re.sub(r':math:`([^`]*)`', r'\1', doc[doc.find('Source:') :]).splitlines()
    gravity = ' '.join(f'{g:g}' for g in tree.gravity)
    lines = [
        f'Robot {tree.name}: straight-line C99, generated by robot_dynamics_ros {__version__}.',
        '',
        'Order of the elements of all arrays:',
        *(
            f'  {k}  {name}: {_KINDS[slides]}'
            for k, (name, slides) in enumerate(
                zip(tree.joint_names, tree.joint_is_prismatic, strict=True)
            )
        ),
        f'Gravity {gravity} m/s^2 in the base. Friction and drive inertia: in control laws only.',
        f'Description, sha256: {hashlib.sha256(tree.xml.encode()).hexdigest()}',
        f'Constants, sha256:   {spec.digest().hex()}',
        '',
        f'Formulation {spec.formulation_name}.',
        *source,
        '',
        'Reentrant; no allocation. Results may share memory with inputs. A NaN propagates to all',
        'results that depend on it. Sine and cosine are those of libm, for any angle.',
    ]
    text = '\n'.join(f' * {line}'.rstrip() for line in lines)
    return f'/*\n{in_comment(text)}\n */\n'
