# SPDX-License-Identifier: Apache-2.0
"""Draw the frames of the shipped arms and the cut loop of the four-bar, by forward kinematics."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from drawing import COLOURS, EDGE, Drawing, fitted

from robot_dynamics_ros import load_mechanism, load_robot
from robot_dynamics_ros.description.shipped import shipped_mechanism, shipped_robot
from robot_dynamics_ros.model.kinematics import body_poses, link_poses
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

#: Postures in which no two frames coincide, rad or m.
_POSTURES = {'scara': (0.3, 0.4, 0.12, 0.3), 'four_dof': (0.5, -0.9, 0.9, -0.6)}
_AXIS = 0.11  # m, length of a drawn axis
_SHEET = (120.0, 520.0, 75.0, 375.0)  # px: left, right, top, bottom of an arm
_ANGLE, _TURN = math.radians(25.0), -0.3  # rad, of the view: from above, and about the vertical


def scara_frames() -> str:
    """Return the frames of the SCARA."""
    return _frames('scara', 'SCARA, M. Cui 2013')


def four_dof_frames() -> str:
    """Return the frames of the four-joint arm."""
    return _frames('four_dof', 'Four-joint arm, L. Wu et al. 2009')


def _frames(name: str, title: str) -> str:
    """Return an arm with the modified Denavit-Hartenberg frame of every joint, and its table."""
    tree = load_robot(shipped_robot(name))
    poses = body_poses(tree, np.array(_POSTURES[name]))
    chain = np.array([[0.0, 0.0, 0.0], *(pose.p_WF for pose in poses)])
    ends = np.concatenate([pose.p_WF + _AXIS * pose.R_WF.T for pose in poses])
    place = fitted(_flat(np.concatenate([chain, ends])), *_SHEET)
    drawing = Drawing(640, 520, title)
    drawing.text(320, 26, f'*{title}: z (blue) is the axis of the joint, x red', size=15)
    drawing.curve(place(_flat(chain)), EDGE, dashed=False, width=8)
    names: dict[tuple[float, float], list[str]] = {}
    for joint, pose in zip(tree.joint_names, poses, strict=True):
        (x, y), *axes = place(_flat(pose.p_WF + np.array([np.zeros(3), *(_AXIS * pose.R_WF.T)])))
        for (x2, y2), colour in zip((axes[0], axes[2]), (COLOURS[1], COLOURS[0]), strict=True):
            drawing.arrow(x, y, x2, y2, colour)
        names.setdefault((round(x), round(y)), []).append(joint)
    for (x, y), joints in names.items():
        drawing.text(x + 12, y + 22, ', '.join(joints), 'start', 13)
    rows = [('', 'α, °', 'a, m', 'd, m', 'θ, rad'), *_denavit_hartenberg(tree.tree)]
    for k, row in enumerate(rows):
        for column, entry in enumerate(row):
            drawing.text(160 + 80 * column, 430 + 19 * k, entry, size=13)
    return drawing.svg()


def _denavit_hartenberg(tree: RobotTree) -> Iterator[tuple[str, ...]]:
    """Yield each joint with twist and length of the link before it, offset and angle."""
    for i, joint in enumerate(tree.joint_names):
        R, p = tree.placement(i, 0.0)
        twist = round(math.degrees(math.atan2(round(-R[1, 2], 9) + 0.0, R[2, 2])))
        own = ('q', '0') if tree.prismatic[i] else (f'{R[:, 2] @ p + 0.0:g}', 'q')
        yield (joint, str(twist), f'{p[0]:g}', *own)


def four_bar_cut() -> str:
    """Return the four-bar in a plane, with the pin at which the model cuts its loop."""
    mechanism = load_mechanism(*shipped_mechanism('four_bar'))
    points = link_poses(mechanism.tree, mechanism.positions(np.array([0.3, 1.2])))
    at = {name: pose.p_WF[[0, 2]] for name, pose in points.items()}
    chains = (
        ('frame0', 'lower_arm', 'upper_arm', 'arm_pin'),
        ('frame0', 'crank', 'rod', 'rod_pin'),
    )
    every = np.array([at[name] for name in (*chains[0], *chains[1], 'tool')])
    place = fitted(every, *_SHEET)
    drawing = Drawing(640, 420, 'A four-bar and the tree that is left when its loop is cut')
    drawing.text(320, 26, '*The loop is cut at a pin; the two halves form a tree', size=15)
    for names, colour in zip(chains, COLOURS[:2], strict=True):
        drawing.curve(place(np.array([at[name] for name in names])), colour, dashed=False, width=8)
    drawing.curve(place(np.array([at['upper_arm'], at['tool']])), COLOURS[0], False, width=8)
    words = {
        'frame0': ('base: both drives, u = (θ₁, θ₁′)', 'start', 14, 16),
        'upper_arm': ('upper arm: dependent angle', 'start', 12, -8),
        'rod': ('rod: dependent angle', 'end', -12, 18),
        'arm_pin': ('cut: arm_pin = rod_pin, 2 equations Φ(u, φ) = 0', 'start', 14, -10),
        'tool': ('tool', 'start', 10, 4),
    }
    for name, (text, anchor, dx, dy) in words.items():
        ((x, y),) = place(at[name][None])
        drawing.dot(x, y, COLOURS[1] if name == 'arm_pin' else EDGE)
        drawing.text(x + dx, y + dy, text, anchor, 13)
    return drawing.svg()


def _flat(points: Array) -> Array:
    """Return points (…, 3) as seen from the front, from the right and above: (…, 2), m."""
    x, y, z = np.moveaxis(np.asarray(points, float), -1, 0)
    cosine, sine = math.cos(_TURN), math.sin(_TURN)
    across, depth = x * cosine + y * sine, y * cosine - x * sine
    return np.stack([across, z * math.cos(_ANGLE) + depth * math.sin(_ANGLE)], axis=-1)
