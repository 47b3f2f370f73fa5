# SPDX-License-Identifier: Apache-2.0
"""Estimated inertias: closed forms of solids, and the command that writes them."""

import numpy as np
import pytest
import solids
from numpy.testing import assert_allclose

from robot_dynamics_ros.errors import ModelError
from robot_dynamics_ros.geometry.estimated_inertia import estimate_inertias, second_moments
from robot_dynamics_ros.geometry.triangles import Triangles, box, joined, sphere
from robot_dynamics_ros.model import load_robot

# Two links on two joints, each a box along x with a collision or a visual shape.
LINK = (
    '<link name="{0}"><{1}><origin xyz="{2} 0 0"/><geometry><box size="{3} 0.05 0.05"/></geometry>'
    '</{1}></link><joint name="of_{0}" type="revolute"><parent link="{4}"/><child link="{0}"/>'
    '<origin xyz="{5} 0 0"/><axis xyz="0 1 0"/>'
    '<limit lower="-3" upper="3" velocity="5" effort="100"/></joint>'
)
ARM = (
    '<robot name="two"><link name="base"/>'
    + LINK.format('upper', 'collision', 0.2, 0.4, 'base', 0.0)
    + LINK.format('fore', 'visual', 0.15, 0.3, 'upper', 0.4)
    + '</robot>'
)


@pytest.mark.parametrize(
    ('given', 'mass'), [({'density': 1000.0}, 1000.0 * 0.4 * 0.05 * 0.05), ({'mass': 7.0}, 4.0)]
)
def test_boxes_have_the_inertia_of_boxes_and_of_a_total_mass_their_share_by_volume(given, mass):
    xml, names, _ = estimate_inertias(ARM, **given)
    tree = load_robot(xml)
    assert names == ['upper', 'fore']
    assert_allclose(tree.mass, [mass, 0.75 * mass], rtol=1e-5)  # six digits are written
    assert_allclose(tree.com[0], [0.2, 0.0, 0.0], atol=1e-6)
    expected = solids.cuboid(mass, 0.4, 0.05, 0.05).inertia
    assert_allclose(tree.inertia[0], expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(
    'moments', ['', '<inertia ixx="0" ixy="0" ixz="0" iyy="0.0" iyz="0" izz="0"/>']
)
def test_a_link_with_a_mass_only_keeps_it_and_gets_the_moments_of_its_shape(moments):
    whole = '<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/>'
    point = f'<inertial><origin xyz="0.1 0 0" rpy="0 0 1"/><mass value="3"/>{moments}</inertial>'
    point += f'<inertial><mass value="2"/>{whole}</inertial>'  # not used: the first one is
    text = ARM.replace('<link name="upper">', f'<link name="upper">{point}')
    text = text.replace('</robot>', '<link name="upper"/></robot>')  # likewise
    xml, *changed = estimate_inertias(text, density=1000.0)
    xml = xml.replace('<link name="upper" />', '')
    assert changed == [['fore'], ['upper']]
    tree = load_robot(xml)
    assert_allclose(tree.mass, [3.0, 0.75], rtol=1e-5)
    assert_allclose(tree.com[0], [0.1, 0.0, 0.0], atol=1e-12)
    expected = solids.cuboid(3.0, 0.4, 0.05, 0.05).inertia
    assert_allclose(tree.inertia[0], expected, rtol=1e-5, atol=1e-9)
    known = text.replace(point, f'<inertial><mass value="3"/>{whole}</inertial>')
    assert estimate_inertias(known, mass=2.0)[1:] == (['fore'], [])


@pytest.mark.parametrize(('lost', 'mass'), [(('collision',), 0.5), (('collision', 'visual'), 1.0)])
def test_a_link_counts_once_although_some_of_its_shapes_cannot_be_read(lost, mass):
    """By what it looks like if that is whole, half as large here as what it collides with."""
    missing = '<{0}><geometry><mesh filename="package://none/a.stl"/></geometry></{0}>'
    visual = '<visual><geometry><box size="0.2 0.05 0.05"/></geometry></visual>'
    more = visual + ''.join(map(missing.format, lost))
    xml, *_ = estimate_inertias(ARM.replace('</collision>', f'</collision>{more}'), density=1000.0)
    assert_allclose(load_robot(xml).mass, [mass, 0.75], rtol=1e-5)


def test_an_open_surface_is_its_convex_hull_and_its_orientation_has_no_effect():
    closed = box(np.array([0.4, 0.2, 0.1]))
    expected = second_moments(closed)
    for faces in (closed.faces[:-1], closed.faces[:, ::-1]):
        changed = second_moments(Triangles(closed.vertices, faces))
        assert_allclose(changed, expected, atol=1e-12)
    beside = closed.transformed(np.eye(3), np.array([0.4, 0.1, 0.0]))
    notched = second_moments(joined([closed, beside]))
    assert notched[3, 3] == pytest.approx(2 * 0.4 * 0.2 * 0.1)  # not its hull
    odd = closed.faces.copy()
    odd[0] = odd[0, ::-1]  # a triangle that faces inwards
    assert_allclose(second_moments(Triangles(closed.vertices, odd)), expected, atol=1e-12)
    flat = Triangles(closed.vertices * [1.0, 1.0, 0.0], closed.faces[:-1])
    assert not second_moments(flat).any()
    ball = second_moments(sphere(0.1))[3, 3]  # of a polyhedron inside of the sphere
    assert 0.9 < ball / (4.0 / 3.0 * np.pi * 1e-3) < 1.0
    with pytest.raises(ModelError, match='encloses a volume'):
        estimate_inertias('<robot name="x"><link name="a"/></robot>', density=1.0)
    absent = ARM.replace('<box size="0.3 0.05 0.05"/>', '<mesh filename="package://none/a.stl"/>')
    with pytest.raises(ModelError, match="its meshes; link 'fore'.*package 'none'.*--package"):
        estimate_inertias(absent.replace('<box size="0.4 0.05 0.05"/>', ''), density=1.0)


@pytest.mark.slow
def test_new_robot_writes_them_with_a_comment_and_the_refusal_names_the_option(command):
    point = '<link name="fore"><inertial><mass value="2"/></inertial>'
    heavy = ARM.replace('<link name="fore">', point)
    for arm, problem in ((ARM, '--estimate-inertia'), (heavy, 'has no <inertia>')):
        assert problem in command('new_robot', arm, code=2).err
    gone = '</collision><collision><geometry><mesh filename="gone.stl"/></geometry></collision>'
    partly = ARM.replace('</collision>', gone)
    printed = command('new_robot --estimate-inertia 1000', partly)
    assert "link 'upper': its inertia is not estimated, or from a part" in printed.out
    text = command('new_robot --estimate-inertia 1000 --force', heavy).text('robot.urdf')
    for how in ('1000 kg/m^3', 'of the given mass'):
        assert text.count(f'<!-- inertia estimated: homogeneous, {how} -->') == 1
    assert_allclose(load_robot(text).mass, [1.0, 2.0], rtol=1e-5)
