# SPDX-License-Identifier: Apache-2.0
"""Packages of a description are found where people have them; xacro wherever it stands."""

from pathlib import Path

import pytest
import tables
from urdf_text import joint, link, robot, symmetric

from robot_dynamics_ros.description.packages import give_packages, package_file, package_folder
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.errors import ConfigurationError, DescriptionError
from robot_dynamics_ros.geometry.robot_shapes import collision_shapes
from robot_dynamics_ros.model.load import check_model

MESH = 'solid s\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\n'
MESH += 'endloop\nendfacet\nendsolid s\n'
XACRO = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'


@pytest.fixture(autouse=True)
def no_ros(monkeypatch):
    for name in (
        'ROBOT_DYNAMICS_PACKAGES',
        'ROS_PACKAGE_PATH',
        'GZ_SIM_RESOURCE_PATH',
        'AMENT_PREFIX_PATH',
    ):
        monkeypatch.delenv(name, raising=False)


def package(folder: Path, name: str = 'parts') -> Path:
    """Write a package with a mesh and a xacro file of one property."""
    (folder / 'meshes').mkdir(parents=True)
    (folder / 'meshes' / 'bar.stl').write_text(MESH)
    (folder / 'mass.xacro').write_text(
        f'<robot {XACRO}><xacro:property name="m" value="2"/></robot>'
    )
    (folder / 'package.xml').write_text(f'<package format="3"><name> {name} </name></package>')
    return folder


def arm(file: Path, name: str = 'parts') -> Path:
    """Write an arm that includes a file of the package and shows a mesh of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    tensor = symmetric(0.01, 0.01, 0.01)
    mesh = f'<collision><geometry><mesh filename="package://{name}/meshes/bar.stl"/>'
    rod = link('rod', 1.0, (0.1, 0, 0), tensor).replace(
        '</link>', f'{mesh}</geometry></collision></link>'
    )
    text = robot('arm', link('base'), rod.replace('value="1.0"', 'value="${m}"'),
                 joint('j', 'base', 'rod'))  # fmt: skip
    include = f'<robot {XACRO} name="arm"><xacro:include filename="$(find {name})/mass.xacro"/>'
    file.write_text(text.replace('<robot name="arm">', include))
    return file


LAYOUTS = {
    'the package itself': ('ws/src/parts', 'ws/src/parts/urdf/arm.urdf.xacro'),
    'below its own folder': ('parts', 'parts/robots/arms/small/arm.urdf.xacro'),
    'a neighbour': ('ws/src/parts', 'ws/src/bringup/urdf/arm.urdf.xacro'),
    'in a deep repository': ('ws/src/a/b/parts', 'ws/src/mine/bringup/urdf/arm.urdf.xacro'),
    'a clone beside a clone': ('robots/vendor/parts', 'robots/mine/bringup/urdf/arm.urdf.xacro'),
    'under another folder name': ('ws/src/parts-main', 'ws/src/bringup/urdf/arm.urdf.xacro'),
}


@pytest.mark.parametrize('layout', LAYOUTS)
def test_a_cloned_package_is_found_from_the_description(layout, tmp_path, monkeypatch):
    """By $(find) and package:// alike, without ROS, also directly in the home."""
    monkeypatch.setenv('HOME', str(tmp_path))
    where, file = LAYOUTS[layout]
    if layout == 'a clone beside a clone':
        (tmp_path / 'robots' / 'vendor' / '.git').mkdir(parents=True)
        (tmp_path / 'robots' / '.git').mkdir()
    elif not layout.startswith('below') and layout != 'the package itself':
        package(tmp_path / Path(file).parents[1], 'bringup')
    folder = package(tmp_path / where)
    description = read_description(arm(tmp_path / file))
    assert description.links[1].inertial.mass == 2.0
    assert str(folder / 'meshes' / 'bar.stl') in description.xml
    shapes = collision_shapes(description.xml)
    assert (len(shapes.shapes), shapes.unread) == (1, {})


def test_a_mesh_that_a_cloned_package_lacks_is_the_file_that_is_missing(tmp_path, monkeypatch):
    folder = package(tmp_path / 'parts')
    mesh, file = folder / 'meshes' / 'bar.stl', arm(tmp_path / 'mine' / 'arm.urdf.xacro')
    mesh.unlink()
    [unread] = collision_shapes(read_description(file).xml).unread.values()
    assert f'{str(mesh)!r}: no such file; correct the path' in str(unread)
    prefix = package(tmp_path / 'prefix' / 'share' / 'parts').parents[1]
    monkeypatch.setenv('AMENT_PREFIX_PATH', str(prefix))  # an installed one has it
    shapes = collision_shapes(read_description(file).xml)
    assert (len(shapes.shapes), shapes.unread) == (1, {})


def test_a_folder_without_a_manifest_is_known_by_its_name(tmp_path):
    folder = package(tmp_path / 'parts')
    (folder / 'package.xml').unlink()
    assert package_folder('parts', arm(folder / 'urdf' / 'arm.urdf')) == folder


def test_what_lies_far_above_belongs_to_somebody_else(tmp_path):
    package(tmp_path / 'parts')
    file = arm(tmp_path / 'a' / 'b' / 'c' / 'd' / 'e' / 'arm.urdf')
    with pytest.raises(DescriptionError, match="package 'parts' not found"):
        read_description(file)


def test_given_packages_precede_neighbours_and_those_the_environment(tmp_path, monkeypatch):
    places = {
        name: package(tmp_path / name / 'parts') for name in ('option', 'ros', 'gazebo', 'ament')
    }
    prefix = package(tmp_path / 'prefix' / 'share' / 'parts').parents[1]
    monkeypatch.setenv('AMENT_PREFIX_PATH', f'/nowhere:{prefix}')
    assert package_folder('parts') == prefix / 'share' / 'parts'
    monkeypatch.setenv('GZ_SIM_RESOURCE_PATH', str(tmp_path / 'gazebo'))
    assert package_folder('parts') == places['gazebo']
    for source in (tmp_path / 'ros', places['ros']):  # a folder of packages, or a package
        monkeypatch.setenv('ROS_PACKAGE_PATH', f'/nowhere:{source}')
        assert package_folder('parts') == places['ros']
    near = package(tmp_path / 'near' / 'parts')
    assert package_folder('parts', near / 'urdf' / 'arm.urdf') == near
    monkeypatch.setenv('ROBOT_DYNAMICS_PACKAGES', '')
    monkeypatch.setenv('HOME', str(tmp_path))
    give_packages(['parts:=~/option/parts'])  # which no shell expands
    assert package_folder('parts', near / 'urdf' / 'arm.urdf') == places['option']
    # A file that the first one lacks is taken from the next.
    (places['option'] / 'meshes' / 'bar.stl').unlink()
    found = package_file('package://parts/meshes/bar.stl', near / 'urdf' / 'arm.urdf')
    assert found == near / 'meshes' / 'bar.stl'


def test_the_error_names_what_was_searched_and_the_ways_out(tmp_path, command):
    said = command('check_model', arm(tmp_path / 'mine' / 'arm.urdf.xacro'), code=2).said
    for words in (
        "xacro file arm.urdf.xacro: package 'parts' not found: clone it next to the description",
        'searched: the folders above',
        str(tmp_path / 'mine'),
        'ROS_PACKAGE_PATH (not set)',
        'GZ_SIM_RESOURCE_PATH (not set)',
        'AMENT_PREFIX_PATH (not set)',
        '--package parts:=PATH',
    ):
        assert words in said.replace('- ', '-')
    assert '<class' not in said
    with pytest.raises(DescriptionError, match='has no such file in'):
        package_file('package://parts/none.stl', package(tmp_path / 'parts'))


def test_the_option_reaches_every_reader(tmp_path, monkeypatch, command):
    folder = package(tmp_path / 'elsewhere' / 'the_parts')
    file = arm(tmp_path / 'mine' / 'arm.urdf.xacro')
    monkeypatch.setenv('ROBOT_DYNAMICS_PACKAGES', '')
    command('check_model', file, '--package', f'parts:={folder}')
    refused = command('check_model', file, '--package', 'parts', code=2)
    assert "package 'parts': has no :=" in refused.err
    with pytest.raises(ConfigurationError, match='no such folder'):
        give_packages(['parts:=/nowhere'])


# xacro -------------------------------------------------------------------------------------------


@pytest.mark.parametrize('name', ['arm.urdf', 'arm.xml', 'arm.XACRO', 'arm.urdf.xacro', 'arm'])
def test_xacro_is_expanded_by_content(name, tmp_path):
    package(tmp_path / 'parts')
    assert read_description(arm(tmp_path / name)).links[1].inertial.mass == 2.0


def test_xacro_text_is_expanded_too():
    body = link('rod', 1.0, (0, 0, 0), symmetric(1, 1, 1)).replace('"1.0"', '"${2 * 3}"', 1)
    text = f'<robot name="a" {XACRO}>{link("base")}{body}{joint("j", "base", "rod")}</robot>'
    assert read_description(text).links[1].inertial.mass == 6.0


def test_an_expanded_file_that_only_mentions_xacro_is_not_expanded_again(tmp_path, monkeypatch):
    text = robot('a', link('base')).replace('<robot', f'<robot {XACRO}')
    file = tmp_path / 'a.urdf'
    file.write_text(
        f'<!-- autogenerated by xacro from <xacro:include filename="${{x}}"/> -->{text}'
    )
    monkeypatch.setitem(__import__('sys').modules, 'xacro', None)  # not installed
    assert read_description(file).name == 'a'


def test_a_file_of_macros_says_so_and_lists_them(tmp_path):
    file = tmp_path / 'arm_macro.xacro'
    file.write_text(
        f'<robot {XACRO}><!-- <xacro:macro name="old"> -->'
        '<xacro:macro name="arm" params="prefix *origin limits:=^|wide"><link name="x"/>'
        "</xacro:macro><xacro:macro name='tool'></xacro:macro></robot>"
    )
    with pytest.raises(DescriptionError) as refusal:
        read_description(file)
    said = str(refusal.value)
    assert 'only defines macros, and no link: ' in said
    assert 'arm(prefix, *origin, limits:=^|wide), tool()' in said
    assert 'old' not in said


def test_an_argument_that_nothing_uses_is_refused(tmp_path):
    file = tmp_path / 'arm.xacro'
    used = '<xacro:arg name="tool" default="no"/><xacro:arg name="side" default="left"/>'
    file.write_text(f'<robot name="a" {XACRO}>{used}<link name="$(arg side)"/></robot>')
    assert read_description(file, {'side': 'right', 'tool': 'yes'}).links[0].name == 'right'
    with pytest.raises(DescriptionError, match=r"has no argument 'sid'; it has: .*side"):
        read_description(file, {'sid': 'right'})
    plain = tmp_path / 'arm.urdf'
    plain.write_text(robot('a', link('base')))
    with pytest.raises(DescriptionError, match='arguments side: arm.urdf contains no xacro'):
        read_description(plain, {'side': 'right'})


@tables.written("""
    '<xacro:include filename="gone.xacro"/>' | gone.xacro: No such file ... ; correct ... give the installed
    '<xacro:property name="all" value="${xacro.load_yaml(''gone.yaml'')}"/><link name="${all}"/>' | No such file ... gone.yaml ... ; correct the file, or give its
    '<link name="${side}"/>' | name 'side' is not defined ... ; correct the file
    '<xacro:tool/>' | unknown macro name: xacro:tool ... ; correct the file, or
    '<gazebo><sensor:eye/></gazebo>' | unbound prefix ... ; correct the file, or
    '<link name="$(arg side)"/>' | argument side; correct the file, or give its arguments behind it, NAME:=VALUE; ... robot.urdf
    '<link name="$(env NO_SUCH_VARIABLE)"/>' | NO_SUCH_VARIABLE ... ; correct the file
    '<link' | ; correct the file
""")  # noqa: E501
def test_errors_of_xacro_show_no_python_class(given, said, tmp_path):
    file = tmp_path / 'arm.xacro'
    file.write_text(f'<robot name="a" {XACRO}>{given}</robot>')
    with pytest.raises(DescriptionError, match=said) as refusal:
        read_description(file)
    assert check_model(file).errors[0].culprit == refusal.value.culprit == 'xacro file arm.xacro'
    assert '<class' not in str(refusal.value)
    assert 'Errno' not in str(refusal.value)
