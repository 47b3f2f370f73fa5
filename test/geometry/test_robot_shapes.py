# SPDX-License-Identifier: Apache-2.0
"""Robot geometry: primitives, mesh files and inertias as triangles."""

import sys
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import tables
import trimesh
from numpy.testing import assert_allclose, assert_array_equal
from samples import world_files
from solids import cuboid
from urdf_text import link, robot

from robot_dynamics_ros.description.urdf import Inertial, Pose, read_description
from robot_dynamics_ros.errors import DescriptionError, MissingDependencyError
from robot_dynamics_ros.geometry import robot_shapes, triangles
from robot_dynamics_ros.geometry.triangles import read_mesh
from robot_dynamics_ros.model.link_inertia import report_link
from robot_dynamics_ros.spatial.rotation import rotation_from_rpy


def volume(shape) -> float:
    """Return the enclosed volume, positive if the faces are counter-clockwise from outside."""
    a, b, c = shape.vertices[shape.faces.T]
    return float(np.einsum('ij,ij->i', a, np.cross(b, c)).sum() / 6.0)


@tables.rows(
    'kind sizes expected',
    """
box, [[0.1, 0.2, 0.3]], 0.006
cylinder, [0.1, 0.4], 0.0125664
sphere, [0.2], 0.0335103
capsule, [0.1, 0.3], 0.0136136
""",
)
def test_primitives_are_closed_and_face_outward(kind, sizes, expected):
    shape = getattr(triangles, kind)(*map(np.array, sizes))
    # A circle of 32 corners has 0.6 % less area; sphere and capsule lose another 1 % in height.
    assert volume(shape) == pytest.approx(expected, rel=0.02)
    a, b, c = shape.vertices[shape.faces.T]
    assert np.linalg.norm(np.cross(b - a, c - a).sum(axis=0)) < 2e-15, 'closed: no area is left'


def test_a_link_without_visual_is_the_box_of_its_inertia():
    size, rpy, com = (0.5, 0.2, 0.1), (0.3, -0.4, 0.5), (0.1, 0.0, 0.2)
    (shape,), remarks = robot_shapes(
        robot('r', link('arm', 3.0, com, cuboid(3.0, *size).inertia, rpy))
    )
    assert (remarks, shape.link) == ((), 'arm')
    assert volume(shape) == pytest.approx(np.prod(size), rel=1e-9), 'it faces outward'
    inside = (shape.vertices - com) @ rotation_from_rpy(*rpy)
    assert_allclose([inside.max(axis=0), -inside.min(axis=0)], np.tile(size, (2, 1)) / 2.0)


def test_a_point_mass_has_a_box_without_extent():
    report = report_link('point', Inertial(1.0, Pose((0.1, 0.2, 0.3)), *[0.0] * 6))
    assert not report.equivalent_box.any()
    assert np.isfinite(report.principal_axes).all()


def described(name: str) -> tuple[Path, str]:
    """Return the share directory of example-robot-data, and the text of one of its robots."""
    file = next(file.locate() for file in world_files() if file.name == name)
    xml = read_description(file, on_fault=lambda fault: None).xml
    return Path(str(file).split('/example-robot-data/')[0]), xml


@pytest.mark.slow
@pytest.mark.parametrize('name', ['panda.urdf', 'xarm7.urdf'])
def test_meshes_stand_where_an_independent_reader_puts_them(name):
    """Compare the corners' extent, link by link, with what assimp reads for Pinocchio."""
    share, xml = described(name)
    shapes, remarks = robot_shapes(xml, max_faces=10**9)
    assert remarks == ()
    model, theirs, ours = pin.buildModelFromXML(xml), {}, {}
    visual = pin.buildGeomFromUrdfString(model, xml, pin.GeometryType.VISUAL, str(share))
    for thing in visual.geometryObjects:
        frame = model.frames[thing.parentFrame]
        inside = frame.placement.inverse() * thing.placement
        corners = thing.geometry.vertices() @ inside.rotation.T + inside.translation
        theirs.setdefault(frame.name, []).extend(corners)
    for shape in shapes:
        ours.setdefault(shape.link, []).extend(shape.vertices[shape.faces].reshape(-1, 3))
    assert theirs
    for link_name, corners in theirs.items():
        for extent in (np.min, np.max):  # the files hold about six digits
            both = (extent(each, axis=0) for each in (corners, ours[link_name]))
            assert_allclose(*both, atol=2e-5)


@pytest.mark.slow
def test_a_robot_stays_within_its_budget_and_keeps_extent_and_colours():
    budget, xml = 3_000, described('panda.urdf')[1]
    (whole, _), (coarse, _) = (robot_shapes(xml, faces) for faces in (10**9, budget))
    assert 0.7 * budget < sum(len(shape.faces) for shape in coarse) <= budget
    assert len({shape.colour for shape in coarse}) > 2
    for before, after in zip(whole, coarse, strict=True):
        size = np.ptp(before.vertices[before.faces].reshape(-1, 3), axis=0)
        assert np.abs(np.ptp(after.vertices, axis=0) - size).max() < 0.35 * size.max()


def test_vertices_of_no_triangle_are_left_out(tmp_path):
    """They would lower the ground, and widen what is kept clear."""
    (tmp_path / 'a.obj').write_text('v 0 0 -9\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 2 3 4\nl 1 2\n')
    (part,) = read_mesh(tmp_path / 'a.obj')
    assert part.vertices[part.faces].tolist() == [[[0, 0, 0], [1, 0, 0], [0, 1, 0]]]
    assert len(part.vertices) == 3


def test_shapes_of_few_triangles_stay_as_they_are():
    box = '<visual><geometry><box size="1 1 1"/></geometry></visual>'
    text = robot('r', *(f'<link name="{name}">{box}</link>' for name in 'ab'))
    assert [len(shape.faces) for shape in robot_shapes(text, 10).shapes] == [12, 12]


OBJ = """mtllib arm.mtl
v 0 0 0
v 1 0 0
v 1 1 0
v 0 1 0
usemtl red paint
f 1/1/1 2/2/2 3//3 -1
"""


def test_an_obj_has_polygons_and_the_colours_of_its_library_unless_the_link_has_one(tmp_path):
    (tmp_path / 'arm.obj').write_text(OBJ)
    red, grey = (1.0, 0.0, 0.0, 1.0), (0.5, 0.5, 0.5, 1.0)
    for diffuse, colour in (('spectral a.rfl', None), ('0.5', grey), ('1 0 0', red)):
        (tmp_path / 'arm.mtl').write_text(f'newmtl red paint\nKd {diffuse}\n')
        (part,) = read_mesh(tmp_path / 'arm.obj')
        assert (part.faces.tolist(), part.colour) == ([[0, 1, 2], [0, 2, 3]], colour)
    mesh = f'<visual><geometry><mesh filename="{tmp_path}/arm.obj"/></geometry>'
    blue = '<material name="blue"><color rgba="0 0 1 1"/></material>'
    for material, colour in (
        ('', red),
        (blue, (0.0, 0.0, 1.0, 1.0)),
        ('<material name="blue"/>', (0.0, 0.0, 1.0, 1.0)),
    ):
        shown = f'{blue}<link name="a">{mesh}{material}</visual></link>'
        assert [x.colour for x in robot_shapes(robot('r', shown)).shapes] == [colour]


DAE = """<COLLADA><library_geometries><geometry id="g"><mesh>
<source id="s"><float_array>0 0 0 1 0 0 0 1 0</float_array></source>
<vertices id="v"><input semantic="POSITION" source="#s"/></vertices>
<triangles material="m"><input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2</p></triangles>
</mesh></geometry></library_geometries><library_visual_scenes><visual_scene><node>
<instance_geometry url="#g"><bind_material><technique_common>
<instance_material symbol="m" target="#missing"/>
</technique_common></bind_material></instance_geometry>
</node></visual_scene></library_visual_scenes></COLLADA>"""


def test_a_collada_whose_material_is_missing_has_no_colour(tmp_path):
    (tmp_path / 'a.dae').write_text(DAE)
    (part,) = read_mesh(tmp_path / 'a.dae')
    assert (part.faces.tolist(), part.colour) == ([[0, 1, 2]], None)


def test_an_stl_may_be_written_as_text(tmp_path):
    corners = 'vertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\n'
    (tmp_path / 'a.stl').write_text(f'solid a\nfacet normal 0 0 1\nouter loop\n{corners}')
    (part,) = read_mesh(tmp_path / 'a.stl')
    assert part.vertices[part.faces[0]].tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]


def test_a_gltf_has_its_scene_s_transforms_and_colours(tmp_path, monkeypatch):
    cube, at = trimesh.creation.box((1.0, 2.0, 3.0)), np.eye(4)
    red = trimesh.visual.material.PBRMaterial(baseColorFactor=[255, 0, 0, 255])
    cube.visual = trimesh.visual.TextureVisuals(material=red)
    at[:3, 3] = 1.0, 0.0, -2.0
    scene = trimesh.Scene()
    scene.add_geometry(cube, transform=at)
    scene.export(tmp_path / 'a.glb')
    (part,) = read_mesh(tmp_path / 'a.glb')
    assert_array_equal(part.vertices.max(axis=0), [1.5, 1.0, -0.5])
    assert_array_equal(part.vertices.min(axis=0), [0.5, -1.0, -3.5])
    assert volume(part) == pytest.approx(6.0, rel=1e-12)
    assert part.colour == (1.0, 0.0, 0.0, 1.0)
    monkeypatch.setitem(sys.modules, 'trimesh', None)
    with pytest.raises(MissingDependencyError, match=r"mesh 'a.glb' needs trimesh, .* as STL"):
        read_mesh(tmp_path / 'a.glb')


ENDLESS = '<node id="a{}"><instance_node url="#a{}"/><instance_node url="#a{}"/></node>'


@pytest.mark.parametrize('depth', [1, 60], ids=['of itself', 'doubled 60 times'])
def test_instances_of_instances_end(tmp_path, monkeypatch, depth):
    monkeypatch.setattr(triangles, '_MAX_SIZE', 10_000)  # the time of its default is not needed
    nodes = ''.join(ENDLESS.format(k, (k + 1) % depth, (k + 1) % depth) for k in range(depth))
    scene = '<visual_scene><node><instance_node url="#a0"/></node></visual_scene>'
    (tmp_path / 'a.dae').write_text(
        f'<COLLADA><library_nodes>{nodes}</library_nodes>'
        f'<library_visual_scenes>{scene}</library_visual_scenes></COLLADA>'
    )
    with pytest.raises(DescriptionError, match=r'malformed \((maximum rec|more than)'):
        read_mesh(tmp_path / 'a.dae')


@tables.written(r"""
    {a.stl: vertex} | mesh 'a.stl' ... has no triangles
    {a.gltf: '{'} | mesh 'a.gltf' ... malformed
    {a.stl: ''} | mesh 'a.stl' ... has no triangles; export it again
    {a.dae: "version https://git-lfs.github.com/spec/v1\n"} | mesh 'a.dae' ... run git lfs pull
    {a.stl: "solid\nvertex 1 2\n"} | mesh 'a.stl' ... malformed
    {a.stl: "vertex 0 0 0\nvertex 1 0 0\nvertex nan 1 0\n"} | mesh 'a.stl' ... invalid vertices
    {a.obj: "v 0 0 0\nf 1 2 3\n"} | mesh 'a.obj' ... invalid vertices
    {a.obj: "f one\n"} | mesh 'a.obj' ... malformed
    {a.dae: <COLLADA>} | mesh 'a.dae': malformed XML (no element found
    {a.dae: HUGE} | mesh 'a.dae' ... malformed
    {a.dae: <COLLADA/>} | mesh 'a.dae' ... has no triangles
    {a.step: ''} | mesh 'a.step' ... unknown format
""")
def test_a_faulty_mesh_is_named(tmp_path, given, said):
    ((file, content),) = given.items()
    (tmp_path / file).write_text(content.replace('HUGE', DAE.replace('<p>0', f'<p>{"9" * 30}')))
    with pytest.raises(DescriptionError, match=said):
        read_mesh(tmp_path / file)


@pytest.mark.parametrize(
    ('geometry', 'said'),
    [
        ('<mesh filename="package://nowhere/a.stl"/>', "package 'nowhere': not found"),
        ('<mesh filename="package://$(arg parts)/a.stl"/>', 'has a variable in its name'),
        ('<torus/>', '<torus>: unknown geometry'),
        ('<cylinder radius="0" length="0.1"/>', '<cylinder>: has no surface'),
    ],
)
def test_what_cannot_be_shown_is_said_and_replaced_by_the_inertia(geometry, said):
    text = link('arm', 1.0, inertia=cuboid(1.0, 0.1, 0.1, 0.1).inertia)
    visual = f'<visual><geometry>{geometry}</geometry></visual></link>'
    (shape,), (remark,) = robot_shapes(robot('r', text.replace('</link>', visual)))
    assert shape.vertices.max() == pytest.approx(0.05)
    assert "link 'arm' <visual>" in remark
    assert said in remark


def test_a_mesh_is_found_beside_the_file_that_names_it(tmp_path, monkeypatch):
    folder, part, written = tmp_path / "R&D <'a'>", 'a&b', 'a&amp;b'
    (folder / 'meshes').mkdir(parents=True)
    (folder / 'meshes' / f'{part}.obj').write_text('v 0 0 0\nv 2 0 0\nv 0 3 0\nf 1 2 3')
    there = f"file://{tmp_path}/R&amp;D &lt;'a'&gt;/meshes/{written}.obj"
    monkeypatch.chdir(tmp_path)
    for name, mesh, size in (
        ('there.urdf', f'filename="{there}"', [2.0, 3.0]),
        ('arm.urdf', f'filename="meshes/{written}.obj" scale="0.5 0.001 1"', [1.0, 0.003]),
        ('arm.urdf.xacro', f'filename="meshes/{written}.obj"', [2.0, 3.0]),
    ):
        file = folder / name
        visual = f'<visual><geometry><mesh {mesh}/></geometry></visual>'
        file.write_text(f'<robot name="arm"><link name="base">{visual}</link></robot>')
        [shape] = robot_shapes(read_description(f'{folder.name}/{name}').xml).shapes
        assert_array_equal(np.ptp(shape.vertices, axis=0), [*size, 0.0])
    file.write_text(file.read_text().replace(written, 'no such'))
    assert 'relative to the file' in robot_shapes(read_description(file).xml).remarks[0]
