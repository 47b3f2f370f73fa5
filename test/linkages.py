# SPDX-License-Identifier: Apache-2.0
"""Small closed-loop mechanisms as text, each with a feature missing in the shipped ones."""

from functools import partial
from typing import Any

import numpy as np
import yaml
from urdf_text import described

from robot_dynamics_ros.description.shipped import MECHANISMS, shipped_mechanism
from robot_dynamics_ros.spatial.jet import cos_sin, dot, shifted, signed_angle, square_root

#: Elements as :func:`urdf_text.described` reads them, and loops. The plane of a tilted linkage is
#: along no axis of the base.
_DESCRIBED = yaml.safe_load("""
# A pin of a crank in a straight slot that slides across: x = 0.2 cos(theta).
scotch_yoke:
  base: []
  crank: &bar [1.5, [0.15, 0.02, 0.01], [0.004, 0.02, 0.021, 0.0006, -0.0008, 0.0005]]
  yoke: *bar
  pin: []
  crank_joint: {of: [base, crank]}
  pin_joint: {of: [crank, pin, fixed], xyz: [0.2, 0, 0]}
  yoke_joint: {of: [base, yoke, prismatic], axis: [1, 0, 0], effort: 0.0}
  loops: |
    loops: {slot: {frames: [yoke, pin], position: x}}
    coordinates: [crank_joint]
    assembly: {at: {crank_joint: 0.7}, guess: {yoke_joint: 0.1}}
# A piston on a crank, in a tilted plane; the loop is closed by a pin in space.
slider_crank:
  floor: []
  base: []
  crank: *bar
  rod: *bar
  piston: *bar
  rod_end: []
  mount: {of: [floor, base, fixed], xyz: [0.1, 0.2, 0.3], rpy: [0.4, -0.3, 0.9]}
  crank_joint: {of: [base, crank]}
  rod_joint: {of: [crank, rod], xyz: [0.2, 0, 0], effort: 0.0}
  rod_end_joint: {of: [rod, rod_end, fixed], xyz: [0.6, 0, 0]}
  piston_joint: {of: [base, piston, prismatic], axis: [1, 0, 0], effort: 0.0}
  loops: |
    loops: {wrist_pin: {frames: [piston, rod_end], position: xyz, rotation: xy}}
    coordinates: [crank_joint]
    assembly: {guess: {rod_joint: 0.0, piston_joint: 0.8}}
# Two cranks whose ends two pairs of rods join: two loops, four assemblies.
double_five_bar:
  base: []
  a: *bar
  b: *bar
  a_joint: {of: [base, a]}
  b_joint: {of: [base, b], xyz: [0.4, 0, 0]}
  a1: *bar
  a1_end: []
  a1_joint: {of: [a, a1], xyz: [0.2, 0, 0], effort: 0.0}
  a1_fix: {of: [a1, a1_end, fixed], xyz: [0.35, 0, 0]}
  b1: *bar
  b1_end: []
  b1_joint: {of: [b, b1], xyz: [0.2, 0, 0], effort: 0.0}
  b1_fix: {of: [b1, b1_end, fixed], xyz: [0.35, 0, 0]}
  a2: *bar
  a2_end: []
  a2_joint: {of: [a, a2], xyz: [0.2, 0, 0], effort: 0.0}
  a2_fix: {of: [a2, a2_end, fixed], xyz: [0.37, 0, 0]}
  b2: *bar
  b2_end: []
  b2_joint: {of: [b, b2], xyz: [0.2, 0, 0], effort: 0.0}
  b2_fix: {of: [b2, b2_end, fixed], xyz: [0.37, 0, 0]}
  loops: |
    loops:
      one: {frames: [a1_end, b1_end], position: xy}
      two: {frames: [a2_end, b2_end], position: xy}
    coordinates: [a_joint, b_joint]
    assembly:
      at: {a_joint: 4.65, b_joint: 1.51}
      guess: {a1_joint: -3.3, b1_joint: 1.8, a2_joint: -3.2, b2_joint: 1.7}
# Two cranks in different planes with a rod between two ball joints (RSSR).
ball_linkage:
  base: []
  crank: *bar
  cross: [0.2, [0.001, 0.002, 0], [0.004, 0.02, 0.021, 0.0006, -0.0008, 0.0005]]
  rod: *bar
  rocker: *bar
  rod_end: []
  rocker_end: []
  crank_joint: {of: [base, crank]}
  swing: {of: [crank, cross], xyz: [0.12, 0.01, 0.02], effort: 0.0}
  lift: {of: [cross, rod], axis: [0, 1, 0], effort: 0.0}
  rod_end_joint: {of: [rod, rod_end, fixed], xyz: [0.55, 0.02, -0.01]}
  rocker_joint: {of: [base, rocker], xyz: [0.45, 0.3, 0.05], axis: [-0.6, 0.8, 0], effort: 0.0}
  rocker_end_joint: {of: [rocker, rocker_end, fixed], xyz: [0.05, -0.02, 0.28]}
  loops: |
    loops: {ball: {frames: [rocker_end, rod_end]}}
    coordinates: [crank_joint]
    assembly: {guess: {rocker_joint: 0.0, swing: 0.6, lift: -0.6}}
# The four-bar as one chain, its last link welded to the base: all six equations.
welded_chain:
  floor: []
  base: []
  lower: *bar
  upper: *bar
  rod: *bar
  crank: *bar
  block: *bar
  mount: {of: [floor, base, fixed], xyz: [0.1, 0.2, 0.3], rpy: [0.4, -0.3, 0.9]}
  theta1: {of: [base, lower]}
  theta2: {of: [lower, upper], xyz: [0.55, 0, 0], rpy: [0, 0, &quarter 1.5707963267948966],
    effort: 0.0}
  rear_pin: {of: [upper, rod], xyz: [-0.27, 0, 0], rpy: [0, 0, *quarter], effort: 0.0}
  crank_pin: {of: [rod, crank], xyz: [0.5, 0, 0], rpy: [0, 0, -1.5707963267948966], effort: 0.0}
  crank_joint: {of: [crank, block], xyz: [0.21, 0, 0], rpy: [0, 0, -1.5707963267948966]}
  loops: |
    loops: {weld: {frames: [base, block], position: xyz, rotation: xyz}}
    coordinates: [theta1, crank_joint]
# A universal joint between shafts at an angle: two equations of rotation alone.
cardan:
  floor: []
  base: []
  input: *bar
  cross: [0.4, [0.15, 0.02, 0.01], [0.004, 0.02, 0.021, 0.0006, -0.0008, 0.0005]]
  output: *bar
  mount: {of: [floor, base, fixed], xyz: [0.1, 0.2, 0.3], rpy: [0.4, -0.3, 0.9]}
  input_joint: {of: [base, input]}
  cross_joint: {of: [input, cross], axis: [1, 0, 0], effort: 0.0}
  output_joint: {of: [base, output], rpy: [0.5, 0, 0], effort: 0.0}
  loops: |
    loops: {fork: {frames: [output, cross], position: none, rotation: xz}}
    coordinates: [input_joint]
    assembly: {guess: {cross_joint: 0.5}}
# A slot on a body with two crossed joints, through which a crank's pin slides.
pointer:
  base: []
  crank: *bar
  yaw: *bar
  barrel: *bar
  pin: []
  crank_joint: {of: [base, crank], xyz: [0.6, 0.1, 0.2], rpy: [0.3, 0.5, 0.1]}
  pin_joint: {of: [crank, pin, fixed], xyz: [0.2, 0, 0.02]}
  yaw_joint: {of: [base, yaw], effort: 0.0}
  pitch_joint: {of: [yaw, barrel], xyz: [0.02, 0.03, 0.04], axis: [0, 1, 0], effort: 0.0}
  loops: |
    loops: {slot: {frames: [barrel, pin], position: yz}}
    coordinates: [crank_joint]
# Two wrists of three joints that hold one body: three equations of rotation.
two_wrists:
  base: []
  a1: &slim [0.5, [0.15, 0.02, 0.01], [0.004, 0.02, 0.021, 0.0006, -0.0008, 0.0005]]
  a2: *slim
  a3: *slim
  b1: *slim
  b2: *slim
  b3: *slim
  a1_joint: {of: [base, a1], rpy: [0.2, 0.1, 0.3]}
  a2_joint: {of: [a1, a2], axis: [0, 1, 0]}
  a3_joint: {of: [a2, a3], axis: [1, 0, 0]}
  b1_joint: {of: [base, b1], axis: [1, 0, 0], effort: 0.0}
  b2_joint: {of: [b1, b2], axis: [0, 1, 0], effort: 0.0}
  b3_joint: {of: [b2, b3], effort: 0.0}
  loops: |
    loops: {hold: {frames: [a3, b3], position: none, rotation: xyz}}
    coordinates: [a1_joint, a2_joint, a3_joint]
    assembly: {guess: {b1_joint: 0.2, b2_joint: 0.1, b3_joint: 0.3}}
# Two crossed pairs of joints of which one component of rotation agrees: one row.
spin_lock:
  base: []
  a1: *slim
  a2: *slim
  b1: *slim
  b2: *slim
  a1_joint: {of: [base, a1], rpy: [0.2, 0.1, 0.3]}
  a2_joint: {of: [a1, a2], axis: [1, 0, 0]}
  b1_joint: {of: [base, b1], axis: [0, 1, 0]}
  b2_joint: {of: [b1, b2], effort: 0.0}
  loops: |
    loops: {spin: {frames: [a2, b2], position: none, rotation: z}}
    coordinates: [a1_joint, a2_joint, b1_joint]
# A parallelogram that carries a gripper: a slide that two mimic fingers follow. A third mimic
# joint follows a joint of the loop.
gripper:
  base: []
  lower: *bar
  upper: *bar
  crank: *bar
  rod: *bar
  screw: &finger [0.4, [0.05, 0.02, 0.01], [0.004, 0.02, 0.021, 0.0006, -0.0008, 0.0005]]
  left: *finger
  right: *finger
  flap: *finger
  arm_pin: []
  rod_pin: []
  lower_joint: {of: [base, lower]}
  upper_joint: {of: [lower, upper], xyz: [0.5, 0, 0], rpy: [0, 0, *quarter],
    effort: 0.0}
  arm_pin_joint: {of: [upper, arm_pin, fixed], xyz: [-0.2, 0, 0]}
  crank_joint: {of: [base, crank], rpy: [0, 0, -1.5707963267948966]}
  rod_joint: {of: [crank, rod], xyz: [0.2, 0, 0], rpy: [0, 0, *quarter], effort: 0.0}
  rod_pin_joint: {of: [rod, rod_pin, fixed], xyz: [0.5, 0, 0]}
  grip_joint: {of: [upper, screw, prismatic], xyz: [0.3, 0, 0], axis: [1, 0, 0]}
  left_joint: {of: [upper, left], xyz: [0.3, 0, 0], axis: [0, 1, 0], effort: 0.0,
    follows: [grip_joint, 3.0, 0.1]}
  right_joint: {of: [upper, right], xyz: [0.3, 0, 0], effort: 0.0,
    follows: [grip_joint, -2.5, -0.2]}
  flap_joint: {of: [left, flap], xyz: [0.3, 0, 0], effort: 0.0, follows: [upper_joint, 0.5, 0.3]}
  loops: |
    loops: {pin: {frames: [arm_pin, rod_pin], position: xy}}
    coordinates: [lower_joint, crank_joint, grip_joint]
# A five-bar linkage whose second crank follows the first one: a gear in a loop. A flap follows a
# joint of the loop, whose rate changes with the position.
geared_five_bar:
  base: []
  crank: *bar
  geared: *bar
  rod: *bar
  other: *bar
  flap: [0.4, [0.05, 0, 0], [0.004, 0.02, 0.021, 0.0006, -0.0008, 0.0005]]
  rod_end: []
  other_end: []
  crank_joint: {of: [base, crank]}
  rod_joint: {of: [crank, rod], xyz: [0.2, 0, 0], effort: 0.0}
  rod_end_joint: {of: [rod, rod_end, fixed], xyz: [0.4, 0, 0]}
  flap_joint: {of: [rod, flap], effort: 0.0, follows: [rod_joint, 0.5, 0.3]}
  geared_joint: {of: [base, geared], xyz: [0.4, 0, 0], follows: [crank_joint, -0.7, 2.0]}
  other_joint: {of: [geared, other], xyz: [0.2, 0, 0], effort: 0.0}
  other_end_joint: {of: [other, other_end, fixed], xyz: [0.4, 0, 0]}
  loops: |
    loops: {pin: {frames: [rod_end, other_end], position: xy}}
    coordinates: [crank_joint]
    assembly: {at: {crank_joint: 1.0}, guess: {rod_joint: 0.4, other_joint: 0.4}}
""")


def linkage(name: str) -> tuple[str, str]:
    """Return description and loops of a linkage."""
    elements = dict(_DESCRIBED[name])
    loops = elements.pop('loops')
    return described(name, elements), loops


def short_rod() -> tuple[str, str]:
    """Return the slider-crank with a rod of half the crank's length.

    Its loop closes where the sine of the crank's angle is below a half: far from the middle of the
    joint's limits, 1.2 rad, and for one in six positions within them.
    """
    text, loops = linkage('slider_crank')
    crank = '<child link="crank"/><origin xyz="0.0 0.0 0.0" rpy="0.0 0.0 '
    text = text.replace('xyz="0.6 0.0 0.0"', 'xyz="0.1 0.0 0.0"').replace(
        f'{crank}0.0', f'{crank}1.2'
    )
    assembly = 'assembly: {at: {crank_joint: -1.1}, guess: {rod_joint: -0.3, piston_joint: 0.3}}'
    return text, f'{loops.partition("assembly")[0]}{assembly}'


def followers(name: str) -> list[tuple[Any, ...]]:
    """Return the mimic joints of a linkage, each with the joint it follows, factor and offset."""
    rows = _DESCRIBED.get(name, {}).items()
    return [(joint, *row['follows']) for joint, row in rows if 'follows' in row]


def slider_crank_form(radius: float, rod: float):
    """Return the textbook formula of the slider-crank, on jets."""

    def form(u):
        c, s = cos_sin(u[0])
        root = square_root(shifted(-(radius**2) * dot(s, s), np.array([rod**2])))
        angle = signed_angle(-(radius / rod) * s, (1.0 / rod) * root)
        return {'rod_joint': angle - u[0], 'piston_joint': radius * c + root}

    return form


#: The dependent joints of the gripper's loop as linear functions.
GRIPPER_FORM = """
closed_form:
  upper_joint: {rate: {crank_joint: 1, lower_joint: -1}}
  rod_joint: {rate: {lower_joint: 1, crank_joint: -1}}
"""


#: Every linkage of this module with one assembly and every shipped one by its name.
LINKAGES = {
    **{name: partial(linkage, name) for name in _DESCRIBED if name != 'double_five_bar'},
    **{name: partial(shipped_mechanism, name) for name in MECHANISMS},
}
