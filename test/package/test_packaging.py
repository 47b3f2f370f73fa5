# SPDX-License-Identifier: Apache-2.0
"""Packaging for pip: metadata and files of the wheel, all extras, one version everywhere."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from checkout import ROOT

import robot_dynamics_ros

# What can be imported once an extra is installed, and without it cannot.
PROVIDED = {
    'kernels': {'llvmlite'},
    'equations': {'sympy'},
    'pinocchio': {'pinocchio'},
    'ros': {'rclpy', 'trajectory_msgs', 'rosgraph_msgs'},
    'sim': {'mujoco'},
    'recordings': {'rosbags', 'plotly'},
    'view': {'viser'},
    'meshes': {'trimesh'},
    'cluster': {'distributed', 'pyarrow'},
}
EVERYTHING = set().union(*PROVIDED.values())
# Run in a folder outside of the checkout: the shipped robot is found nevertheless.
TRIAL = f"""
import sys
from importlib.util import find_spec
from robot_dynamics_ros.__main__ import main
assert main(['check_model', 'scara']) == 0
print('importable', *[name for name in {sorted(EVERYTHING)!r} if find_spec(name)])
"""


def run(*command: object, cwd: Path) -> str:
    clean = {name: text for name, text in os.environ.items() if name != 'PYTHONPATH'}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=clean, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope='module')
def wheel(tmp_path_factory) -> Path:
    """Return the wheel of a copy of the sources: building leaves files next to them."""
    folder = tmp_path_factory.mktemp('wheel')
    source = folder / 'source'
    kept = shutil.ignore_patterns('.*', 'build', 'install', 'log', 'out', '*.egg-info')
    shutil.copytree(ROOT, source, ignore=kept)
    pip = (sys.executable, '-m', 'pip', '--disable-pip-version-check', 'wheel', '--quiet')
    run(*pip, '--no-deps', '--no-build-isolation', '--wheel-dir', folder, source, cwd=folder)
    return next(folder.glob('*.whl'))


@pytest.fixture(scope='module')
def metadata(wheel):
    with zipfile.ZipFile(wheel) as file:
        name = next(name for name in file.namelist() if name.endswith('.dist-info/METADATA'))
        return message_from_bytes(file.read(name))


def required(metadata, *extras: str) -> set[str]:
    """Return the packages of extras, or of the base, in lower case."""
    names = set()
    for line in metadata.get_all('Requires-Dist'):
        requirement, _, condition = line.partition(';')
        named = re.search(r"""extra == ['"]([\w-]+)""", condition)
        if (named[1] if named else '') in (extras or ('',)):
            names.add(re.match(r'[\w-]+', requirement)[0].lower())
    return names


@pytest.mark.slow
def test_the_page_lists_every_dependency_with_its_size(metadata):
    tool = runpy.run_path(str(ROOT / 'docs' / 'site_code' / 'installation.py'))
    rows, extras = tool['listed'](), ['', *metadata.get_all('Provides-Extra')]
    named = [name.lower() for packages, *_ in rows for name in packages]
    assert sorted(named) == sorted(required(metadata, *extras))
    # Wheels of other versions of Python differ by some percent.
    told = [size for _, size, _ in rows]
    assert told == [pytest.approx(size, rel=0.1, abs=1.0) for size in tool['measured']()]


@pytest.mark.slow
def test_the_base_holds_neither_ros_nor_pinocchio_and_all_every_extra(metadata):
    assert required(metadata) == {'numpy', 'scipy', 'pyyaml', 'xacro', 'rich'}
    assert set(metadata.get_all('Provides-Extra')) == {*PROVIDED, 'all', 'test', 'docs'}
    assert required(metadata, 'all') == required(metadata, *PROVIDED)


@pytest.mark.slow
def test_one_version_is_told_everywhere(metadata):
    version = robot_dynamics_ros.__version__
    citation = yaml.safe_load((ROOT / 'CITATION.cff').read_text(encoding='utf-8'))
    package = ElementTree.parse(ROOT / 'package.xml')
    changes = (ROOT / 'CHANGELOG.rst').read_text(encoding='utf-8')
    latest = re.search(r'^(\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)\n-+$', changes, re.MULTILINE)
    assert metadata['Version'] == package.findtext('version') == version
    assert (citation['version'], str(citation['date-released'])) == latest.groups()
    assert latest[1] == version


def locked(name: str) -> dict[str, str]:
    """Return the versions that a lock file names."""
    text = (ROOT / name).read_text(encoding='utf-8')
    return dict(re.findall(r'^([\w-]+)==(\S+)', text, re.MULTILINE))


@pytest.mark.slow
def test_every_dependency_is_locked_and_the_same_for_the_demo_as_for_the_tests(metadata):
    demo, tests = locked('requirements.txt'), locked('requirements-dev.txt')
    assert demo.items() <= tests.items()
    assert required(metadata, '', *metadata.get_all('Provides-Extra')) <= tests.keys()
    of_the_demo = required(metadata, '', 'kernels', 'ros', 'sim', 'recordings', 'view')
    assert of_the_demo <= demo.keys()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_install_of_each_extra_brings_its_libraries_and_no_others(wheel, tmp_path):
    """In one environment, to which the next extra is added."""
    uv = (sys.executable, '-m', 'uv')
    run(*uv, 'venv', '--quiet', '--python', sys.executable, tmp_path / 'venv', cwd=tmp_path)
    python = tmp_path / 'venv' / 'bin' / 'python'
    locked = ('--constraint', ROOT / 'requirements-dev.txt')
    install = (*uv, 'pip', 'install', '--python', python, *locked)
    for extra, expected in (('', set()), ('ros', PROVIDED['ros']), ('all', EVERYTHING)):
        run(*install, f'{wheel}[{extra}]', cwd=tmp_path)
        output = run(python, '-c', TRIAL, cwd=tmp_path)
        assert set(output.splitlines()[-1].split()[1:]) == expected
    command = python.with_name('robot-dynamics')
    module = run(python, '-m', 'robot_dynamics_ros', 'check_model', 'four_dof', cwd=tmp_path)
    assert run(command, 'check_model', 'four_dof', cwd=tmp_path) == module


@pytest.mark.slow
def test_scripts_in_any_folder_import_the_clone_of_their_environment(tmp_path):
    clone = tmp_path / 'a clone'
    clone.mkdir()
    for name in ('Makefile', 'requirements.txt', 'robot_dynamics_ros'):
        (clone / name).symlink_to(ROOT / name)
    # Everything but the installation of the dependencies and the demo itself.
    run('make', 'demo', 'install=true', 'RUN=true', f'PYTHON={sys.executable}', cwd=clone)
    show = 'import robot_dynamics_ros as package; print(package.__file__)'
    found = run(clone / '.venv' / 'bin' / 'python', '-c', show, cwd=tmp_path)
    assert found.startswith(f'{clone}/')
