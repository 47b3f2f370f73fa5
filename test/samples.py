# SPDX-License-Identifier: Apache-2.0
"""Shared robots of the tests, as URDF text that other libraries can read."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata
from typing import Any
from xml.etree import ElementTree

import numpy as np
import yaml
from urdf_text import described, joint, link, robot

from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.description.shipped import share_directory, shipped_robot
from robot_dynamics_ros.model import Robot, load_robot
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

G = 9.81
DOWN_Z = (0.0, 0.0, -G)
DOWN_Y = (0.0, -G, 0.0)
QUARTER = math.pi / 2
MOVING = ('revolute', 'continuous', 'prismatic')


@dataclass(frozen=True)
class Sample:
    """A robot as text, and the gravity for its tests (m/s^2)."""

    name: str
    xml: str
    gravity: tuple[float, float, float] = DOWN_Z

    @cached_property
    def tree(self) -> Robot:
        """The robot as loaded by this package; joints without an effort limit get 1."""
        return load_robot(self.xml, self.gravity, effort_limit=1.0)


def random_state(tree: Robot, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return q within the joint limits (a turn if endless), v and a of a brisk motion."""
    lower = np.where(np.isneginf(tree.position_lower), -math.pi, tree.position_lower)
    upper = np.where(np.isposinf(tree.position_upper), math.pi, tree.position_upper)
    return rng.uniform(lower, upper), rng.normal(size=tree.n), rng.normal(size=tree.n)


def effort_of(law: Any, q: Any, v: Any, reference: Any = None, t: float = 0.0) -> np.ndarray:
    """Return the efforts of a law at a state, all that are not written NaN."""
    out = np.full(len(q), np.nan)
    law.effort(t, q, v, reference or Reference(len(q)), out)
    return out


# ---- textbook arms: numbers named as in the formulas they are compared with --------------------

# RP arm: l1 from axis 1 to its centre of mass. Link 2 in its modified Denavit-Hartenberg frame,
# z along the slide, so its moment about the axis parallel to z0 is the yy element.
RP, PRR, TWO_R = yaml.safe_load_all("""
{m1: 4.2, l1: 0.23, Izz1: 0.061, m2: 1.9, Iyy2: 0.0162, Izz2: 0.0039}
---
# Slide along y0, q2 from x0; a2 from axis 2 to axis 3, l from axis to centre of mass.
{m1: 8.0, m2: 3.1, l2: 0.21, Izz2: 0.047, a2: 0.45, m3: 1.7, l3: 0.16, Izz3: 0.019}
---
# Centres of mass off the link lines.
{L1: 0.5, m1: 3.4, x1: 0.24, y1: 0.03, Izz1: 0.083, m2: 2.1, x2: 0.19, y2: -0.02, Izz2: 0.031}
""")


@cache
def rp() -> Sample:
    """Return the RP arm: joint 2 slides along (cos theta1, sin theta1, 0); q2 is d2."""
    text = described('rp', f"""
base: []
link1: [{RP['m1']}, [0, {-RP['l1']}, 0], [0.021, 0.055, {RP['Izz1']}, 0.003, -0.002, 0.004]]
link2: [{RP['m2']}, [0, 0, 0], [0.0149, {RP['Iyy2']}, {RP['Izz2']}, 0.0007, -0.0005, 0.0004]]
joint1: {{of: [base, link1], rpy: [0, 0, {QUARTER}]}}
joint2: {{of: [link1, link2, prismatic], rpy: [{QUARTER}, 0, 0], limits: [0.1, 0.9]}}
""")  # fmt: skip
    return Sample('rp', text, DOWN_Y)


@cache
def prr() -> Sample:
    """Return the PRR arm in modified Denavit-Hartenberg frames; z1 = y0, z2 = z3 = z0."""
    text = described('prr', f"""
base: []
link1: [{PRR['m1']}, [0.02, 0.01, -0.03], [0.09, 0.11, 0.07, 0.01, -0.008, 0.006]]
link2: [{PRR['m2']}, [{PRR['l2']}, 0, 0], [0.012, 0.041, {PRR['Izz2']}, 0.002, -0.001, 0.0015]]
link3: [{PRR['m3']}, [{PRR['l3']}, 0, 0], [0.005, 0.0165, {PRR['Izz3']}, -0.001, 0.0006, 0.0008]]
joint1: {{of: [base, link1, prismatic], rpy: [{-QUARTER}, 0, 0], limits: [-0.5, 0.8]}}
joint2: {{of: [link1, link2], rpy: [{QUARTER}, 0, 0]}}
joint3: {{of: [link2, link3], xyz: [{PRR['a2']}, 0, 0]}}
""")  # fmt: skip
    return Sample('prr', text, DOWN_Y)


@cache
def planar_2r() -> Sample:
    """Return the planar 2R arm, gravity along -y0."""
    m1, x1, y1, Izz1, m2, x2, y2, Izz2 = (TWO_R[key] for key in list(TWO_R)[1:])
    text = described('planar_2r', f"""
base: []
link1: [{m1}, [{x1}, {y1}, 0], [0.014, 0.076, {Izz1}, 0.004, -0.003, 0.002]]
link2: [{m2}, [{x2}, {y2}, 0], [0.006, 0.028, {Izz2}, -0.001, 0.002, 0.0009]]
joint1: {{of: [base, link1]}}
joint2: {{of: [link1, link2], xyz: [{TWO_R['L1']}, 0, 0]}}
""")  # fmt: skip
    return Sample('planar_2r', text, DOWN_Y)


@cache
def rrpr() -> Sample:
    """Return a spatial RRPR arm with twisted axes: no term of the dynamics vanishes on it."""
    text = described(
        'rrpr',
        """
base: []
l1: [3.7, [0.06, -0.04, 0.09], [0.061, 0.052, 0.043, 0.006, -0.009, 0.007]]
l2: [2.9, [0.14, 0.05, -0.03], [0.019, 0.058, 0.064, -0.005, 0.008, 0.004]]
l3: [1.8, [0.02, -0.03, 0.11], [0.027, 0.025, 0.011, 0.003, -0.004, 0.002]]
l4: [0.9, [0.05, 0.02, 0.04], [0.006, 0.0055, 0.004, -0.0007, 0.0009, 0.0005]]
tool: []
j1: {of: [base, l1], xyz: [0.03, -0.02, 0.31], rpy: [0.2, -0.3, 0.4]}
j2: {of: [l1, l2], xyz: [0.11, 0.07, 0.16], rpy: [-1.1, 0.5, 0.3]}
j3: {of: [l2, l3, prismatic], xyz: [0.31, -0.05, 0.04], rpy: [0.7, 0.9, -0.6]}
j4: {of: [l3, l4], xyz: [0.05, 0.02, 0.12], rpy: [-0.4, 1.2, 0.8]}
flange: {of: [l4, tool, fixed], xyz: [0.02, 0.03, 0.08], rpy: [0.1, 0.2, 0.3]}
""",
    )
    return Sample('rrpr', text)


@cache
def branched() -> Sample:
    """Return a torso with two arms; fixed links with mass at the base, between and at the end."""

    text = described(
        'branched',
        """
floor: []
pedestal: [30, [0, 0, 0.3], [1.8, 2.2, 1.4, 0.16, -0.1, 0.12]]
torso: [9, [0.01, 0.02, 0.25], [0.27, 0.33, 0.21, 0.024, -0.015, 0.018]]
battery: [2.5, [0.04, 0, 0.02], [0.009, 0.011, 0.007, 0.0008, -0.0005, 0.0006], [0.3, -0.2, 0.5]]
left_upper: [2.2, [0.02, 0.11, 0.03], [0.018, 0.022, 0.014, 0.0016, -0.001, 0.0012]]
left_bracket: []
left_lower: [1.4, [0.09, 0.01, -0.02], [0.0108, 0.0132, 0.0084, 0.00096, -0.0006, 0.00072], [0.3,
  -0.2, 0.5]]
left_camera: [0.3, [0.01, 0.02, 0.03], [0.00036, 0.00044, 0.00028, 3.2e-5, -2.0e-05, 2.4e-5]]
right_upper: [2.2, [0.02, -0.12, 0.01], [0.0189, 0.0231, 0.0147, 0.00168, -0.00105, 0.00126]]
right_lower: [1.3, [0.1, -0.02, 0.03], [0.0099, 0.0121, 0.0077, 0.00088, -0.00055, 0.00066]]
right_hand: []
head: [1.1, [0.03, 0, 0.07], [0.0036, 0.0044, 0.0028, 0.00032, -0.0002, 0.00024]]
anchor: {of: [floor, pedestal, fixed], xyz: [0.4, -0.3, 0.1], rpy: [0.1, 0.05, 0.7]}
waist: {of: [pedestal, torso], xyz: [0.02, 0, 0.6]}
strap: {of: [torso, battery, fixed], xyz: [-0.1, 0.05, 0.2], rpy: [0.2, -0.4, 0.6]}
left_shoulder: {of: [torso, left_upper], xyz: [0, 0.2, 0.4], axis: [0, 0.6, 0.8]}
weld: {of: [left_upper, left_bracket, fixed], xyz: [0.02, 0.25, 0], rpy: [0.4, 0.1, -0.3]}
left_slide: {of: [left_bracket, left_lower, prismatic], axis: [0.48, 0.6, 0.64]}
screw: {of: [left_lower, left_camera, fixed], xyz: [0.2, 0.01, 0], rpy: [0.5, 0.5, 0.1]}
right_shoulder: {of: [torso, right_upper], xyz: [0, -0.2, 0.4], axis: [0, -0.6, 0.8]}
right_elbow: {of: [right_upper, right_lower, continuous], xyz: [0.05, -0.25, 0.01],
  rpy: [-0.2, 0.3, 0.1], axis: [1, 0, 0]}
wrist: {of: [right_lower, right_hand, fixed], xyz: [0.22, 0, 0.01], rpy: [0.3, 0, 0.2]}
neck: {of: [torso, head, continuous], xyz: [0.01, 0, 0.5], rpy: [0.1, 0.1, 0],
  axis: [0, 0.8, 0.6]}
""",
    )
    return Sample('branched', text)


@cache
def mimic_arm() -> Sample:
    """Return a four-joint arm whose bodies and joints must not be mixed up.

    Two mimic joints precede independent ones, one follows a later joint, and the joint types,
    (R P R P R R) of the bodies and (R R P R) of the independent joints, differ at every place
    after the first.
    """
    drive = '<dynamics damping="0.5" friction="0.3" armature="0.02"/>'
    text = described(
        'mimic_arm',
        """
base: []
column: [6, [0, 0, 0.2], [0.054, 0.066, 0.06, 0.003, -0.0024, 0.0036]]
sledge: [2, [0.05, 0, 0], [0.018, 0.022, 0.02, 0.001, -0.0008, 0.0012]]
arm: [3, [0.15, 0.01, 0], [0.027, 0.033, 0.03, 0.0015, -0.0012, 0.0018]]
quill: [1, [0, 0.01, -0.05], [0.009, 0.011, 0.01, 0.0005, -0.0004, 0.0006]]
gear: [0.4, [0, 0.01, 0], [0.0036, 0.0044, 0.004, 0.0002, -0.00016, 0.00024]]
hand: [0.5, [0.02, 0, -0.03], [0.0045, 0.0055, 0.005, 0.00025, -0.0002, 0.0003]]
tool: []
turn: {of: [base, column], limits: [-2.8, 2.8]}
reach: {of: [column, sledge, prismatic], xyz: [0.25, 0, 0.4], axis: [1, 0, 0],
  limits: [-1.0, 1.0], follows: [elbow, 0.05, 0.1]}
elbow: {of: [sledge, arm], xyz: [0.1, 0, 0], limits: [-2.6, 2.6]}
lift: {of: [arm, quill, prismatic], xyz: [0.3, 0, 0], limits: [0.0, 0.3], velocity: 2.0,
  effort: 200.0}
belt: {of: [arm, gear], xyz: [0.1, 0, 0.05], follows: [turn, -0.5, 0.0]}
roll: {of: [quill, hand]}
tip: {of: [hand, tool, fixed], xyz: [0.03, 0, -0.1]}
""",
        dynamics=drive,
    )
    return Sample('mimic_arm', text)


# ---- random trees -------------------------------------------------------------------------------


def random_tree(rng: np.random.Generator, n: int, branching: float = 0.0) -> Sample:
    """Return a tree of n joints with random axes, origins, inertias and about 30 % sliders.

    Args:
        rng: The generator.
        n: Number of moving joints.
        branching: Probability that the parent is any earlier body instead of the last one.
    """
    elements = [link('base')]
    for i in range(n):
        mass = rng.uniform(0.5, 5.0)
        parent = int(rng.integers(0, i)) if i and rng.random() < branching else i - 1
        axis = rng.normal(size=3)
        kind = 'prismatic' if rng.random() < 0.3 else 'revolute'
        com, rpy = rng.uniform(-0.2, 0.2, 3), rng.uniform(-3, 3, 3)
        A = rng.normal(scale=0.1, size=(3, 3))
        J = mass * (A @ A.T + 1e-3 * np.eye(3))  # a positive second moment of mass
        above = 'base' if parent < 0 else f'link{parent}'
        place = rng.uniform(-0.4, 0.4, 3), rng.uniform(-3, 3, 3), axis / np.linalg.norm(axis)
        elements += [
            link(f'link{i}', mass, com, np.trace(J) * np.eye(3) - J, rpy),
            joint(f'joint{i}', above, f'link{i}', kind, *place),
        ]
    name = f'random_{"tree" if branching else "chain"}_{n}'
    return Sample(name, robot(name, *elements))


# ---- published arms -----------------------------------------------------------------------------


def _as_serial_arm(path) -> str | None:
    """Return the text of a fixed-base serial arm, or None if the file is not one.

    Shapes are left out, and mimic joints, which this package refuses, are fixed. Both readers,
    this package and the oracle, get the same text.
    """
    root = ElementTree.fromstring(path.read_bytes())
    for element in root.findall('link'):
        for tag in ('visual', 'collision'):
            for shape in element.findall(tag):
                element.remove(shape)
    joints = root.findall('joint')
    for element in joints:
        if element.find('mimic') is not None:
            element.remove(element.find('mimic'))
            element.set('type', 'fixed')
    moving = [element for element in joints if element.get('type') in MOVING]
    above = {element.find('child').get('link'): element for element in joints}
    chain = [_moving_ancestor(element, above) for element in moving] == [None, *moving[:-1]]
    return ElementTree.tostring(root, encoding='unicode') if chain and len(moving) > 4 else None


def _moving_ancestor(element, above):
    """Return the next moving joint towards the base, or None."""
    while (element := above.get(element.find('parent').get('link'))) is not None:
        if element.get('type') in MOVING:
            return element
    return None


def world_files() -> list[metadata.PackagePath]:
    """Return the URDF files of the package example-robot-data; none if it is not installed."""
    try:
        files = metadata.files('example-robot-data') or ()
    except metadata.PackageNotFoundError:
        files = ()
    return [file for file in files if file.suffix == '.urdf']


@cache
def serial_arms() -> dict[str, Sample]:
    """Return the serial fixed-base arms of the package example-robot-data, by file name.

    Only its files are used: its Python module would need viewers. One arm is left out, because
    this package refuses it (a zero inertia tensor on 'wrist_left_ft_link'): talos_left_arm.
    """
    found = {}
    for file in world_files():
        if file.stem not in (*found, 'talos_left_arm'):
            text = _as_serial_arm(file.locate())
            if text is not None:
                found[file.stem] = Sample(file.stem, text)
    return dict(sorted(found.items()))


# ---- all of them --------------------------------------------------------------------------------


@cache
def shipped(name: str, **mappings: str) -> Sample:
    """Return a robot that ships with the package, its xacro file expanded."""
    return Sample(name, load_robot(shipped_robot(name), mappings=mappings).xml)


@cache
def shipped_parameters(robot: str) -> dict[str, dict[str, Any]]:
    """Return the parameters of an arm's file by node; empty if it has none."""
    path = share_directory() / 'config' / f'{robot}.yaml'
    content = read_yaml(path, robot) if path.is_file() else {}
    return {node.rpartition('/')[2]: row['ros__parameters'] for node, row in content.items()}


SAMPLES: dict[str, Callable[[], Sample]] = {
    'scara': lambda: shipped('scara'),
    'four_dof': lambda: shipped('four_dof'),
    'rp': rp,
    'prr': prr,
    'planar_2r': planar_2r,
    'rrpr': rrpr,
    'branched': branched,
    'random_chain_7': cache(lambda: random_tree(np.random.default_rng(7), 7)),
    'random_tree_7': cache(lambda: random_tree(np.random.default_rng(8), 7, branching=0.5)),
}


def sample(name: str) -> Sample:
    """Return a robot of ``SAMPLES`` by its name."""
    return SAMPLES[name]()
