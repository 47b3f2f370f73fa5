# SPDX-License-Identifier: Apache-2.0
"""Planned motions are free of collisions, checked by Pinocchio and geometry."""

import math
import re
import sys

import numpy as np
import pinocchio as pin
import pytest
import tables
from samples import world_files

from robot_dynamics_ros.cli.excite import excitation_trajectory
from robot_dynamics_ros.errors import (
    ModelError,
    NonFiniteError,
    ParameterError,
    ShapeError,
    TrajectoryError,
)
from robot_dynamics_ros.geometry import triangles
from robot_dynamics_ros.geometry.collisions import (
    GROUND,
    LINK_CLEARANCE,
    CollisionChecker,
    Obstacles,
    make_checker,
    random_postures,
)
from robot_dynamics_ros.geometry.containment import winding_number
from robot_dynamics_ros.geometry.triangles import Triangles, box, joined, sphere
from robot_dynamics_ros.identification.excitation import design_excitation
from robot_dynamics_ros.model import load_mechanism, load_robot
from robot_dynamics_ros.model.kinematics import FramePose, frame_pose
from robot_dynamics_ros.parameters import defaults
from robot_dynamics_ros.planning.default_motion import default_motion
from robot_dynamics_ros.planning.trajectory_plan import MOTION, make_plan

UR5 = next(file.locate() for file in world_files() if file.name == 'ur5_robot.urdf')
BAR = """<link name="{}"><inertial><origin xyz="0.5 0 0"/><mass value="1"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><origin xyz="0.5 0 0"/><geometry><box size="1 0.1 0.1"/></geometry></collision>
  </link>"""
SHAPE_OF_BAR = BAR[BAR.index('<collision>') : BAR.index('</collision>') + len('</collision>')]
# Two links of 1 m on a turning base; a lid of the base is 0.3 m above the ground.
ELBOW = f"""<robot name="elbow">
  <link name="base"><visual><origin xyz="0 0 0.25"/><geometry><box size="0.1 0.1 0.1"/></geometry>
  </visual></link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <origin xyz="0 0 0.5"/><axis xyz="0 0 1"/>
    <limit lower="-2.5" upper="2.5" velocity="2" effort="100"/></joint>
  {BAR.format('upper')}
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="fore"/>
    <origin xyz="1 0 0"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" velocity="2" effort="100"/></joint>
  {BAR.format('fore')}
  <joint name="tip" type="fixed"><parent link="fore"/><child link="tool"/>
    <origin xyz="1 0 0"/></joint>
  <link name="tool"/>
</robot>"""


def test_distances_are_those_of_closed_forms():
    distance = triangles.distance_between([box(np.array([0.2, 0.4, 0.6])), sphere(0.1)])
    turned = FramePose(np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]), np.array([0.0, 0.0, 0.1]))
    here, away = (FramePose(np.eye(3), np.array(p)) for p in ([0.0, 0, 0], [1.0, 0, 0.1]))
    # After the quarter turn the box reaches 0.2 m along x; the sphere has corners at its equator.
    assert distance(0, turned, 1, away) == pytest.approx(1.0 - 0.2 - 0.1, abs=1e-6)
    assert distance(0, here, 1, away) == pytest.approx(1.0 - 0.1 - 0.1, abs=1e-6)
    assert distance(0, here, 1, here) <= 0.0


@pytest.mark.slow
def test_what_touches_is_what_pinocchio_says():
    tree = load_robot(UR5, effort_limit=100.0)
    checker, model = CollisionChecker(tree), pin.buildModelFromXML(tree.xml)
    shares = str(UR5).split('/example-robot-data/')[0]
    geometry = pin.buildGeomFromUrdfString(
        model, tree.xml, pin.GeometryType.COLLISION, None, [shares]
    )
    geometry.addAllCollisionPairs()
    data, found = model.createData(), geometry.createData()
    names = [thing.name[:-2] for thing in geometry.geometryObjects]
    excluded, seen = {frozenset(pair) for pair in checker.excluded}, [0, 0]
    for q in random_postures(tree, 40):
        pin.updateGeometryPlacements(model, data, geometry, found, q)
        expected = any(
            pin.computeDistance(geometry, found, k).min_distance < LINK_CLEARANCE
            for k, pair in enumerate(geometry.collisionPairs)
            if frozenset([names[pair.first], names[pair.second]]) not in excluded
            and names[pair.first] != names[pair.second]
        )
        near = checker.find_close_pair(q)
        own = near is not None and GROUND not in (near.first, near.second)
        assert expected or not own
        assert own or not expected or near is not None  # the ground may be seen first
        seen[expected] += 1
    assert min(seen) >= 5


def test_neighbours_and_what_always_touches_are_left_out_and_said():
    assert CollisionChecker(load_robot(ELBOW)).excluded == (('base', 'upper'), ('fore', 'upper'))
    bare = ELBOW.replace('<parent link="base"/>', '<parent link="mount"/>', 1)
    bare = bare.replace('</robot>', '<link name="mount"/><joint name="m" type="fixed"><parent '
                        'link="base"/><child link="mount"/></joint></robot>')  # fmt: skip
    low = ELBOW.replace('0 0 0.25', '0 0 0.47')  # the lid reaches the upper arm, which carries
    for text in (bare, low):
        assert ('base', 'upper') in CollisionChecker(load_robot(text)).excluded


def walled(*numbers):
    """Return the checker of the arm and of a box."""
    return CollisionChecker(load_robot(ELBOW), Obstacles.of(numbers))


def test_a_box_in_the_way_is_named_with_posture_and_distance():
    """Closed form: at 0 the forearm ends at x = 2; the box begins 3 mm beyond."""
    checker = walled(2.103, 0.0, 0.5, 0.2, 1.0, 1.0)
    near = checker.find_close_pair(np.zeros(2))
    assert near[:2] == ('fore', 'box 1')
    assert near.distance == pytest.approx(0.003, abs=1e-6)
    assert walled().find_close_pair(np.zeros(2)) is None
    with pytest.raises(TrajectoryError, match=r"sweep: leaves \d\.?\d* mm between 'fore'"):
        checker.require_free('sweep', np.array([[-1.0, 0.05], [1.0, 0.05]]))
    with pytest.raises(TrajectoryError, match=r'leaves 4\.99 mm .* 5 mm elsewhere'):  # not 5 mm
        walled(2.104996, 0.0, 0.5, 0.2, 1.0, 1.0).require_free('rest', [np.zeros(2)])
    thin = walled(1.5, 0.0, 0.5, 1.0, 0.002, 1.0)
    assert thin.is_free(np.array([[0.4, 0.4], [0.5, 0.4]]))
    assert not thin.is_free(np.array([[0.4, 0.4], [-0.8, -0.4]]))  # through it between the two
    for numbers in ([1.0] * 5, [0.0, 0.0, 0.0, 1.0, -1.0, 1.0], [math.nan] * 6, ['a'] * 6):
        with pytest.raises(ParameterError, match='six numbers each, no size 0 or less'):
            Obstacles([numbers])
    with pytest.raises(NonFiniteError, match='ground_below'):
        Obstacles(ground_below=math.nan)


def test_the_ground_is_where_the_base_stands_unless_gravity_says_nothing():
    flat = load_robot(ELBOW.replace('0 0 0.5"/><axis xyz="0 0 1"', '0 0 0.5"/><axis xyz="0 1 0"'))
    down = np.array([0.6, 0.0])  # the tip would be 0.63 m below the ground
    assert CollisionChecker(flat).find_close_pair(down).second == GROUND
    assert CollisionChecker(flat, Obstacles(ground_below=2.0)).find_close_pair(down) is None
    far = load_robot(flat.xml.replace('0 0 0.5', '4e6 -9e6 0.5'))  # from the origin of its map
    assert CollisionChecker(far).find_close_pair(down).second == GROUND
    hung = load_robot(flat.xml.replace('0 0 0.25', '0 0 -0.7'))  # what is fixed is above it, too
    assert CollisionChecker(hung).find_close_pair(down) is None
    for gravity in ((0.0, 0.0, 9.81), (9.81, 0.0, 0.0), (0.0, 0.0, 0.0)):
        assert CollisionChecker(flat.with_gravity(gravity)).find_close_pair(down) is None


def sliding_cube(parent, axis, name, size):
    """Return the text of a cube that slides on another one."""
    return f"""<joint name="{axis}" type="prismatic"><parent link="{parent}"/>
      <child link="{name}"/><axis xyz="{axis}"/>
      <limit lower="-9" upper="2" velocity="1" effort="99"/></joint>
    <link name="{name}"><inertial><mass value="1"/>
      <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
      <collision><geometry><box size="{size} {size} {size}"/></geometry></collision></link>"""


# Three cubes that slide along z, x and y; the first and the third are no neighbours.
SLIDES = f"""<robot name="slides"><link name="base"/>{sliding_cube('base', '0 0 1', 'big', 1.0)}
  {sliding_cube('big', '1 0 0', 'middle', 0.1)}{sliding_cube('middle', '0 1 0', 'small', 0.2)}
</robot>"""


def test_solids_are_checked_not_surfaces():
    """Wholly inside a box, around a box, below the ground, inside another link."""
    tree = load_robot(SLIDES)
    cases = {
        (1.0, 1.5, 1.5): ([], None),
        (-7.0, 1.5, 1.5): ([], ('big', GROUND)),  # its surface is 6.5 m away
        (1.0, 0.0, 0.1): ([], ('big', 'small')),
        (1.0, 1.5, 1.7): ([1.5, 1.7, 1.0, 0.5, 0.5, 0.5], ('small', 'box 1')),
        (1.0, 1.5, 1.8): ([0.2, 0.0, 1.2, 0.1, 0.1, 0.1], ('big', 'box 1')),
    }
    for q, (numbers, pair) in cases.items():
        near = CollisionChecker(tree, Obstacles.of(numbers)).find_close_pair(np.array(q))
        assert (near and {near.first, near.second}) == (pair and set(pair))
        assert near is None or near.distance <= 0.0


@pytest.mark.parametrize('hollow', [False, True])
def test_a_point_is_inside_by_its_winding_number(hollow):
    """Of a box, whole or hollow, and with a hole of one triangle; closed form: 0 or 1."""
    surface, inner = box(np.full(3, 2.0)), box(np.ones(3))
    if hollow:
        surface = joined([surface, Triangles(inner.vertices, inner.faces[:, ::-1])])
    holed = Triangles(surface.vertices, surface.faces[1:])
    for point, number in (
        ([0.7, 0.6, 0.5], 1.0),
        ([0.1, 0, 0], float(not hollow)),
        ([1.2, 0, 0.3], 0.0),
    ):
        assert winding_number(surface, np.array(point)) == pytest.approx(number, abs=1e-12)
        assert abs(winding_number(holed, np.array(point)) - number) < 0.4


MESH = '<geometry><mesh filename="package://nowhere/{}.stl"/></geometry>'


@pytest.mark.parametrize(
    ('given', 'reason'),
    [
        (f'<collision>{MESH}</collision>{SHAPE_OF_BAR.replace("collision", "visual")}', ''),
        (f'{SHAPE_OF_BAR}<collision>{MESH}</collision>', "'nowhere'"),
        (f'<visual>{MESH}</visual>', "'nowhere'"),
        ('', 'no <collision> or <visual> element'),
    ],
)
def test_what_cannot_be_read_is_replaced_or_said(given, reason):
    xml = ELBOW.replace(BAR.format('fore'), BAR.format('fore').replace(SHAPE_OF_BAR, given))
    wall = Obstacles(boxes=[[2.103, 0.0, 0.5, 0.2, 1.0, 1.0]])
    checker = CollisionChecker(load_robot(xml), wall)
    said = f"NOT CHECKED FOR COLLISIONS: 1 of 4 links \\('fore'\\): .*{reason}"
    assert [bool(re.match(said, remark)) for remark in checker.remarks] == [True] * bool(reason)
    assert [*checker.unchecked] == ['fore'] * bool(reason)
    assert reason or checker.find_close_pair(np.zeros(2)) is not None


def test_a_posture_that_is_none_is_refused():
    """NaN moved no pair nearer, and so was free."""
    checker = CollisionChecker(load_robot(ELBOW))
    for posture, error in (([np.nan, 0.0], NonFiniteError), ([0.0] * 3, ShapeError)):
        with pytest.raises(error, match='positions'):
            checker.is_free([posture])
    assert checker.is_free([])


def test_a_link_whose_place_is_unknown_is_left_out_and_said():
    camera = f'<link name="camera">{SHAPE_OF_BAR}</link><joint name="stand" type="fixed">'
    stand = '<origin xyz="0 0 up"/><parent link="base"/><child link="camera"/></joint></robot>'
    checker = CollisionChecker(load_robot(ELBOW.replace('</robot>', camera + stand)))
    assert [*checker.unchecked] == ['camera']
    assert "('camera'): its place is not" in checker.remarks[0]
    assert checker.find_close_pair(np.zeros(2)) is None


def test_many_links_without_meshes_are_one_line(command):
    xml = UR5.read_text().replace('package://', 'package://nowhere_')
    (remark,) = CollisionChecker(load_robot(xml, effort_limit=100.0)).remarks
    assert len(remark.splitlines()) == 1
    assert len(remark) < 400
    assert 'other reasons' not in remark
    assert '--package nowhere_' in remark
    assert "7 of 11 links ('base_link', 'shoulder_link', " in remark
    assert "'wrist_2_link', …)" in remark  # others are only counted
    assert 'are not checked for collisions: package' in command('check_model', xml).said


@tables.rows(
    'turned gravity boxes says',
    """
0 0 1, [0, 0, -9.81], [], false
3.14159 0 0, [0, 0, -9.81], [], true
0 0.5 0, [0, 0, -9.81], [], true
0 0 0, [9.81, 0, 0], [], true
3.14159 0 0, [0, 0, 9.81], [], false
3.14159 0 0, [0, 0, 0], [], false
3.14159 0 0, [0, 0, -9.81], [[0, 0, 2.2, 3, 3, 0.2]], false
""",
)
def test_an_unknown_mounting_is_told(turned, gravity, boxes, says):
    """Of a ceiling, a slope and, by the option, a wall."""
    world = f"""<link name="world"/><joint name="mount" type="fixed"><parent link="world"/>
      <child link="base"/><origin xyz="0 0 2.1" rpy="{turned}"/></joint><link name="base">"""
    arm = load_robot(ELBOW.replace('<link name="base">', world), gravity=gravity)
    told = [each for each in CollisionChecker(arm, Obstacles(boxes)).remarks if 'mounted' in each]
    assert ['if it hangs or is tilted' in each for each in told] == [True] * says


def test_a_height_that_is_none_is_refused(command):
    error = command('excite scara --ground-below nan', code=2).err
    assert error.startswith('error: --ground-below: is nan')


def test_without_a_library_it_is_said(monkeypatch):
    for name in triangles.COAL:
        monkeypatch.setitem(sys.modules, name, None)
    checker, remarks = make_checker(load_robot(ELBOW))
    assert checker is None
    assert remarks[0].startswith('NOT CHECKED FOR COLLISIONS: ')


# ---- planning -----------------------------------------------------------------------------------


def hits(tree, positions, box):
    """Return whether a link is inside a box, by points on the links: no library."""
    centre, size = np.split(np.array(box), 2)
    along = np.outer(np.linspace(0.0, 1.0, 41), [1.0, 0.0, 0.0])
    poses = (frame_pose(tree, q, link) for q in positions for link in ('upper', 'fore'))
    return any((np.abs(p + along @ R.T - centre) < size / 2.0).all(1).any() for R, p in poses)


def settings(**changes):
    return {**defaults(MOTION), 'kind': 'circle', 'tool_frame': 'tool', **changes}


@pytest.mark.slow
def test_a_path_goes_by_another_elbow_where_a_box_is_in_the_way():
    """The elbow goes from 0.6 to 0.9 rad along the path, or from -0.6 to -0.9 rad."""
    tree, q = load_robot(ELBOW), np.array([0.6, -1.2])
    centre = frame_pose(tree, q).p_WF - [0.2, 0.0, 0.0]
    circle = {'center': centre.tolist(), 'radius': 0.2, 'speed': 0.2}
    block = [1.08 * math.cos(0.8), 1.08 * math.sin(0.8), 0.5, 0.1, 0.1, 1.0]
    led = make_plan(tree, settings(**circle, boxes=block), q)
    assert led.approach > 0.0
    assert led.position[-1, 0] == pytest.approx(-0.6, abs=1e-9)
    assert not hits(tree, led.position, block)
    below = [block[0], -block[1], *block[2:]]
    with pytest.raises(TrajectoryError, match="mm between '(upper|fore)' and 'box 1' at q = "):
        make_plan(tree, settings(**circle, boxes=[*block, *below]), q)
    blind = settings(**circle, boxes=block, avoid_collisions=False)
    assert make_plan(tree, blind, q).approach == 0.0


BARE = BAR.replace(SHAPE_OF_BAR, '')
SLIDES_X = '<axis xyz="1 0 0"/><limit lower="-2" upper="2" velocity="2" effort="100"/>'
# The elbow slides. So do two links on the upper arm: the bar follows one and is carried back by
# the other.
CARRIED = ELBOW.replace('elbow" type="revolute', 'elbow" type="prismatic').replace(
    'xyz="1 0 0"/><axis xyz="0 0 1"/>', 'xyz="0 0 0"/><axis xyz="1 0 0"/>'
).replace('</robot>', f"""{BARE.format('of_out')}{BARE.format('of_back')}{BARE.format('of_again')}
  <joint name="out" type="prismatic"><parent link="upper"/><child link="of_out"/>{SLIDES_X}</joint>
  <joint name="back" type="prismatic"><parent link="upper"/><child link="of_back"/>{SLIDES_X}
  </joint>
  <joint name="again" type="prismatic"><parent link="fore"/><child link="of_again"/>{SLIDES_X}
    <mimic joint="back"/></joint></robot>""")  # fmt: skip


def test_a_slide_without_limits_sweeps_as_wide_a_circle_as_it_is_out():
    """The bar of 9 m to 10 m crosses a thin box; a slide of 1 m is what samples assume."""
    sliding = CARRIED.partition('<link name="of_out"')[0].replace('lower="-3" upper="3"', '')
    tree = load_robot(f'{sliding}</robot>')
    checker = CollisionChecker(tree, Obstacles([[9.5, 0.0, 0.5, 0.1, 0.01, 0.1]]))
    assert [checker.is_free([[-0.5, out], [0.5, out]]) for out in (9.0, 3.0)] == [False, True]


DIFFERENCE = """{coordinates: [shoulder, out, back],
    loops: {carried: {frames: [of_out, of_again], position: x}},
    closed_form: {elbow: {rate: {out: 1, back: -1}}}}"""


def test_a_bar_that_sliders_carry_far_out_sweeps_as_wide_a_circle():
    """From 0.5 rad before a box to 0.5 rad behind it, which the bar of 3.6 m to 4.6 m hits."""
    box, tree = [4.5, 0.0, 0.5, 0.1, 0.1, 0.1], load_mechanism(CARRIED, DIFFERENCE)
    checker = CollisionChecker(tree, Obstacles([box]))
    for way, free in ((0.9, True), (1.8, False)):
        assert checker.is_free([[-0.5, way, -way], [0.5, way, -way]]) == free


@pytest.mark.slow
def test_a_default_motion_keeps_clear_of_a_box():
    """The box is where the motion is planned without it."""
    tree = load_robot(ELBOW)
    box = [*default_motion(tree, 'tool').settings['center'], 0.2, 0.2, 1.0]
    path = default_motion(tree, 'tool', Obstacles(boxes=[box])).path(tree)
    assert not hits(tree, path.table(np.linspace(0.0, path.duration, 200))[0], box)
    with pytest.raises(ModelError, match='are in collision, .* of them between'):
        default_motion(tree, 'tool', Obstacles(boxes=[[0.5, 0.0, 0.5, 0.9, 9.0, 0.5]]))


@pytest.mark.slow
def test_an_excitation_keeps_clear():
    box, tree = [1.2, 1.2, 0.5, 0.5, 0.5, 1.0], load_robot(ELBOW)
    for checker in (None, walled(*box)):
        found = design_excitation(tree, iterations=3, checker=checker)
        q, _, _ = excitation_trajectory(found).table(np.linspace(0.0, found.period, 300))
        assert hits(tree, q, box) is (checker is None)
