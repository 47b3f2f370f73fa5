# SPDX-License-Identifier: Apache-2.0
"""Small closed-loop mechanisms as text, each with a feature missing in the shipped ones."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from urdf_text import follow, joint, link, robot, symmetric

from robot_dynamics_ros.description.shipped import MECHANISMS, shipped_mechanism
from robot_dynamics_ros.spatial.jet import cos_sin, dot, shifted, signed_angle, square_root

SLENDER = symmetric(0.004, 0.02, 0.021, 0.0006, -0.0008, 0.0005)
TILT = (0.4, -0.3, 0.9)  # no axis of a tilted plane is along an axis of the base


def bar(name, mass=1.5, com=(0.15, 0.02, 0.01)):
    """Return a link of a given mass."""
    return link(name, mass, com, SLENDER)


def scotch_yoke(radius: float) -> tuple[str, str]:
    """Return a pin of a crank in a straight slot that slides across: x = radius cos(theta)."""
    urdf = robot(
        'scotch_yoke',
        link('base'),
        bar('crank'),
        bar('yoke'),
        link('pin'),
        joint('crank_joint', 'base', 'crank'),
        joint('pin_joint', 'crank', 'pin', 'fixed', xyz=(radius, 0, 0)),
        joint('yoke_joint', 'base', 'yoke', 'prismatic', axis=(1, 0, 0), effort=0.0),
    )
    loops = """
    loops: {slot: {frames: [yoke, pin], position: x}}
    coordinates: [crank_joint]
    assembly: {at: {crank_joint: 0.7}, guess: {yoke_joint: 0.1}}
    """
    return urdf, loops


def slider_crank(radius: float, rod: float) -> tuple[str, str]:
    """Return a piston on a crank, in a tilted plane; the loop is closed by a pin in space."""
    urdf = robot(
        'slider_crank',
        link('floor'),
        link('base'),
        bar('crank'),
        bar('rod'),
        bar('piston'),
        link('rod_end'),
        joint('mount', 'floor', 'base', 'fixed', xyz=(0.1, 0.2, 0.3), rpy=TILT),
        joint('crank_joint', 'base', 'crank'),
        joint('rod_joint', 'crank', 'rod', xyz=(radius, 0, 0), effort=0.0),
        joint('rod_end_joint', 'rod', 'rod_end', 'fixed', xyz=(rod, 0, 0)),
        joint('piston_joint', 'base', 'piston', 'prismatic', axis=(1, 0, 0), effort=0.0),
    )
    loops = f"""
    loops: {{wrist_pin: {{frames: [piston, rod_end], position: xyz, rotation: xy}}}}
    coordinates: [crank_joint]
    assembly: {{guess: {{rod_joint: 0.0, piston_joint: {radius + rod}}}}}
    """
    return urdf, loops


def slider_crank_form(radius: float, rod: float):
    """Return the textbook formula of the slider-crank, on jets."""

    def form(u):
        c, s = cos_sin(u[0])
        root = square_root(shifted(-(radius**2) * dot(s, s), np.array([rod**2])))
        angle = signed_angle(-(radius / rod) * s, (1.0 / rod) * root)
        return {'rod_joint': angle - u[0], 'piston_joint': radius * c + root}

    return form


def double_five_bar() -> tuple[str, str]:
    """Return two cranks whose ends two pairs of rods join: two loops, four assemblies."""
    parts = [link('base'), bar('a'), bar('b')]
    parts += [joint('a_joint', 'base', 'a'), joint('b_joint', 'base', 'b', xyz=(0.4, 0, 0))]
    for k, length in ((1, 0.35), (2, 0.37)):
        for side in 'ab':
            rod = f'{side}{k}'
            parts += [bar(rod), link(f'{rod}_end')]
            parts.append(joint(f'{rod}_joint', side, rod, xyz=(0.2, 0, 0), effort=0.0))
            parts.append(joint(f'{rod}_fix', rod, f'{rod}_end', 'fixed', xyz=(length, 0, 0)))
    loops = """
    loops:
      one: {frames: [a1_end, b1_end], position: xy}
      two: {frames: [a2_end, b2_end], position: xy}
    coordinates: [a_joint, b_joint]
    assembly:
      at: {a_joint: 4.65, b_joint: 1.51}
      guess: {a1_joint: -3.3, b1_joint: 1.8, a2_joint: -3.2, b2_joint: 1.7}
    """
    return robot('double_five_bar', *parts), loops


def ball_linkage() -> tuple[str, str]:
    """Return two cranks in different planes with a rod between two ball joints (RSSR)."""
    urdf = robot(
        'ball_linkage',
        link('base'),
        bar('crank'),
        bar('cross', 0.2, (0.001, 0.002, 0.0)),
        bar('rod'),
        bar('rocker'),
        link('rod_end'),
        link('rocker_end'),
        joint('crank_joint', 'base', 'crank'),
        joint('swing', 'crank', 'cross', xyz=(0.12, 0.01, 0.02), axis=(0, 0, 1), effort=0.0),
        joint('lift', 'cross', 'rod', axis=(0, 1, 0), effort=0.0),
        joint('rod_end_joint', 'rod', 'rod_end', 'fixed', xyz=(0.55, 0.02, -0.01)),
        joint(
            'rocker_joint',
            'base',
            'rocker',
            xyz=(0.45, 0.3, 0.05),
            axis=(-0.6, 0.8, 0),
            effort=0.0,
        ),
        joint('rocker_end_joint', 'rocker', 'rocker_end', 'fixed', xyz=(0.05, -0.02, 0.28)),
    )
    loops = """
    loops: {ball: {frames: [rocker_end, rod_end]}}
    coordinates: [crank_joint]
    assembly: {guess: {rocker_joint: 0.0, swing: 0.6, lift: -0.6}}
    """
    return urdf, loops


def welded_chain(l1: float, rear: float, rod: float, crank: float) -> tuple[str, str]:
    """Return the four-bar as one chain, its last link welded to the base: all six equations."""
    quarter = math.pi / 2
    urdf = robot(
        'welded_chain',
        link('floor'),
        link('base'),
        bar('lower'),
        bar('upper'),
        bar('rod'),
        bar('crank'),
        bar('block'),
        joint('mount', 'floor', 'base', 'fixed', xyz=(0.1, 0.2, 0.3), rpy=TILT),
        joint('theta1', 'base', 'lower'),
        joint('theta2', 'lower', 'upper', xyz=(l1, 0, 0), rpy=(0, 0, quarter), effort=0.0),
        joint('rear_pin', 'upper', 'rod', xyz=(-rear, 0, 0), rpy=(0, 0, quarter), effort=0.0),
        joint('crank_pin', 'rod', 'crank', xyz=(rod, 0, 0), rpy=(0, 0, -quarter), effort=0.0),
        joint('crank_joint', 'crank', 'block', xyz=(crank, 0, 0), rpy=(0, 0, -quarter)),
    )
    loops = """
    loops: {weld: {frames: [base, block], position: xyz, rotation: xyz}}
    coordinates: [theta1, crank_joint]
    """
    return urdf, loops


def cardan(bend: float) -> tuple[str, str]:
    """Return a universal joint between shafts at an angle: two equations of rotation alone."""
    urdf = robot(
        'cardan',
        link('floor'),
        link('base'),
        bar('input'),
        bar('cross', 0.4),
        bar('output'),
        joint('mount', 'floor', 'base', 'fixed', xyz=(0.1, 0.2, 0.3), rpy=TILT),
        joint('input_joint', 'base', 'input'),
        joint('cross_joint', 'input', 'cross', axis=(1, 0, 0), effort=0.0),
        joint('output_joint', 'base', 'output', rpy=(bend, 0, 0), effort=0.0),
    )
    loops = """
    loops: {fork: {frames: [output, cross], position: none, rotation: xz}}
    coordinates: [input_joint]
    assembly: {guess: {cross_joint: 0.5}}
    """
    return urdf, loops


def pointer() -> tuple[str, str]:
    """Return a slot on a body with two crossed joints, through which a crank's pin slides."""
    urdf = robot(
        'pointer',
        link('base'),
        bar('crank'),
        bar('yaw'),
        bar('barrel'),
        link('pin'),
        joint('crank_joint', 'base', 'crank', xyz=(0.6, 0.1, 0.2), rpy=(0.3, 0.5, 0.1)),
        joint('pin_joint', 'crank', 'pin', 'fixed', xyz=(0.2, 0, 0.02)),
        joint('yaw_joint', 'base', 'yaw', axis=(0, 0, 1), effort=0.0),
        joint('pitch_joint', 'yaw', 'barrel', xyz=(0.02, 0.03, 0.04), axis=(0, 1, 0), effort=0.0),
    )
    loops = """
    loops: {slot: {frames: [barrel, pin], position: yz}}
    coordinates: [crank_joint]
    """
    return urdf, loops


def two_wrists() -> tuple[str, str]:
    """Return two wrists of three joints that hold one body: three equations of rotation."""
    urdf = robot(
        'two_wrists',
        link('base'),
        *(bar(f'{side}{i}', 0.5) for side in 'ab' for i in (1, 2, 3)),
        joint('a1_joint', 'base', 'a1', rpy=(0.2, 0.1, 0.3)),
        joint('a2_joint', 'a1', 'a2', axis=(0, 1, 0)),
        joint('a3_joint', 'a2', 'a3', axis=(1, 0, 0)),
        joint('b1_joint', 'base', 'b1', axis=(1, 0, 0), effort=0.0),
        joint('b2_joint', 'b1', 'b2', axis=(0, 1, 0), effort=0.0),
        joint('b3_joint', 'b2', 'b3', axis=(0, 0, 1), effort=0.0),
    )
    loops = """
    loops: {hold: {frames: [a3, b3], position: none, rotation: xyz}}
    coordinates: [a1_joint, a2_joint, a3_joint]
    assembly: {guess: {b1_joint: 0.2, b2_joint: 0.1, b3_joint: 0.3}}
    """
    return urdf, loops


def spin_lock() -> tuple[str, str]:
    """Return two crossed pairs of joints of which one component of rotation agrees: one row."""
    urdf = robot(
        'spin_lock',
        link('base'),
        *(bar(name, 0.5) for name in ('a1', 'a2', 'b1', 'b2')),
        joint('a1_joint', 'base', 'a1', rpy=(0.2, 0.1, 0.3)),
        joint('a2_joint', 'a1', 'a2', axis=(1, 0, 0)),
        joint('b1_joint', 'base', 'b1', axis=(0, 1, 0)),
        joint('b2_joint', 'b1', 'b2', axis=(0, 0, 1), effort=0.0),
    )
    loops = """
    loops: {spin: {frames: [a2, b2], position: none, rotation: z}}
    coordinates: [a1_joint, a2_joint, b1_joint]
    """
    return urdf, loops


#: The follower, the joint it follows, multiplier and offset of the gripper's mimic joints.
FINGERS = (
    ('left_joint', 'grip_joint', 3.0, 0.1),
    ('right_joint', 'grip_joint', -2.5, -0.2),
    ('flap_joint', 'upper_joint', 0.5, 0.3),
)


def gripper(form: str = '') -> tuple[str, str]:
    """Return a parallelogram that carries a gripper: a slide that two mimic fingers follow.

    A third mimic joint follows a joint of the loop.
    """
    quarter = math.pi / 2
    mimic = {name: relation for name, *relation in FINGERS}
    end = {'xyz': (0.3, 0, 0), 'effort': 0.0}
    urdf = robot(
        'gripper',
        link('base'),
        *(bar(name) for name in ('lower', 'upper', 'crank', 'rod')),
        *(bar(name, 0.4, (0.05, 0.02, 0.01)) for name in ('screw', 'left', 'right', 'flap')),
        *(link(name) for name in ('arm_pin', 'rod_pin')),
        joint('lower_joint', 'base', 'lower'),
        joint('upper_joint', 'lower', 'upper', xyz=(0.5, 0, 0), rpy=(0, 0, quarter), effort=0.0),
        joint('arm_pin_joint', 'upper', 'arm_pin', 'fixed', xyz=(-0.2, 0, 0)),
        joint('crank_joint', 'base', 'crank', rpy=(0, 0, -quarter)),
        joint('rod_joint', 'crank', 'rod', xyz=(0.2, 0, 0), rpy=(0, 0, quarter), effort=0.0),
        joint('rod_pin_joint', 'rod', 'rod_pin', 'fixed', xyz=(0.5, 0, 0)),
        joint('grip_joint', 'upper', 'screw', 'prismatic', xyz=(0.3, 0, 0), axis=(1, 0, 0)),
        follow(joint('left_joint', 'upper', 'left', axis=(0, 1, 0), **end), *mimic['left_joint']),
        follow(joint('right_joint', 'upper', 'right', **end), *mimic['right_joint']),
        follow(joint('flap_joint', 'left', 'flap', **end), *mimic['flap_joint']),
    )
    loops = """
    loops: {pin: {frames: [arm_pin, rod_pin], position: xy}}
    coordinates: [lower_joint, crank_joint, grip_joint]
    """
    return urdf, loops + form


#: The dependent joints of the gripper's loop as linear functions.
GRIPPER_FORM = """
    closed_form:
      upper_joint: {rate: {crank_joint: 1, lower_joint: -1}}
      rod_joint: {rate: {lower_joint: 1, crank_joint: -1}}
"""


#: The gear of the five-bar linkage, as ``FINGERS``.
GEAR = (('geared_joint', 'crank_joint', -0.7, 2.0),)


def geared_five_bar() -> tuple[str, str]:
    """Return a five-bar linkage whose second crank follows the first one: a gear in a loop."""
    urdf = robot(
        'geared_five_bar',
        link('base'),
        *(bar(name) for name in ('crank', 'geared', 'rod', 'other')),
        *(link(name) for name in ('rod_end', 'other_end')),
        joint('crank_joint', 'base', 'crank'),
        joint('rod_joint', 'crank', 'rod', xyz=(0.2, 0, 0), effort=0.0),
        joint('rod_end_joint', 'rod', 'rod_end', 'fixed', xyz=(0.4, 0, 0)),
        follow(joint('geared_joint', 'base', 'geared', xyz=(0.4, 0, 0)), *GEAR[0][1:]),
        joint('other_joint', 'geared', 'other', xyz=(0.2, 0, 0), effort=0.0),
        joint('other_end_joint', 'other', 'other_end', 'fixed', xyz=(0.4, 0, 0)),
    )
    loops = """
    loops: {pin: {frames: [rod_end, other_end], position: xy}}
    coordinates: [crank_joint]
    assembly: {at: {crank_joint: 1.0}, guess: {rod_joint: 0.4, other_joint: 0.4}}
    """
    return urdf, loops


#: Every linkage of this module and every shipped one by its name.
LINKAGES = {
    'gripper': gripper,
    'geared_five_bar': geared_five_bar,
    'scotch_yoke': lambda: scotch_yoke(0.2),
    'slider_crank': lambda: slider_crank(0.2, 0.6),
    'ball_linkage': ball_linkage,
    'welded_chain': lambda: welded_chain(0.55, 0.27, 0.50, 0.21),
    'cardan': lambda: cardan(0.5),
    'pointer': pointer,
    'two_wrists': two_wrists,
    'spin_lock': spin_lock,
    **{name: partial(shipped_mechanism, name) for name in MECHANISMS},
}
