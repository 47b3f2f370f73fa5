# SPDX-License-Identifier: Apache-2.0
"""Generated code on disk: reused, regenerated if damaged, shared by processes."""

import logging
import os
import re
import shutil
import sys
from subprocess import PIPE, Popen

import numpy as np
import pytest
from checkout import ROOT
from samples import sample

from robot_dynamics_ros import disk_cache
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.errors import DescriptionError
from robot_dynamics_ros.symbolic import kernel
from robot_dynamics_ros.symbolic.kernel import compile_kernel, fingerprint, generated_source
from robot_dynamics_ros.symbolic.machine_code import machine
from robot_dynamics_ros.symbolic.outputs import KernelSpec

# Run in a separate process: get kernels, check a result, print how they run and whether the
# code that writes LLVM instructions was loaded, which a warm start has no use for.
PROGRAM = """
import sys
import numpy as np
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import load_robot
tree = load_robot(shipped_robot('scara'))
from robot_dynamics_ros.symbolic.kernel import compile_kernel
kernels = compile_kernel(tree)
tau = np.zeros(4)
kernels.inverse_dynamics(np.zeros(4), np.zeros(4), np.zeros(4), tau)
assert abs(tau[2] + (1.15 + 0.72) * 9.81) < 1e-12, tau
print(kernels.kind, 'robot_dynamics_ros.symbolic.llvm_functions' in sys.modules, sep=';')
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv(disk_cache.LOCATION, str(tmp_path / 'kernels'))
    return tmp_path / 'kernels'


@pytest.fixture
def compilations(monkeypatch):
    """Count how often the recursion is traced."""
    traced, original = [], kernel.trace_output

    def counting(name, subject):
        traced.append(name)
        return original(name, subject)

    monkeypatch.setattr(kernel, 'trace_output', counting)
    return traced


def process(place):
    environment = {**os.environ, disk_cache.LOCATION: str(place), 'PYTHONPATH': str(ROOT)}
    return Popen(
        [sys.executable, '-c', PROGRAM], env=environment, stdout=PIPE, stderr=PIPE, text=True
    )


def gravity(kernels):
    g = np.zeros(4)
    kernels.gravity_forces(np.zeros(4), g)
    return g


def test_source_and_binary_are_kept_and_found_again(place, compilations):
    tree = sample('scara').tree
    compile_kernel(tree)
    names = sorted(re.sub('-[0-9a-f]+', '', file.name) for file in place.glob('*.*'))
    assert names == ['scara-newton_euler.o', 'scara-newton_euler.py']
    assert len(compilations) == 2
    compile_kernel(tree)
    assert len(compilations) == 2
    (source,) = place.glob('*.py')
    text = source.read_text()
    assert "Dynamics of robot 'scara', from newton_euler." in text
    assert 'def inverse_dynamics(q, v, a, tau):' in text


def object_code(tree, outputs):
    return gravity(compile_kernel(tree, outputs=outputs)).tolist()


def source_code(tree, outputs):
    return generated_source(KernelSpec(tree, 'newton_euler', 'tool'), outputs)


@pytest.mark.slow
@pytest.mark.parametrize(('ending', 'build'), [('o', object_code), ('py', source_code)])
def test_a_broken_file_is_made_anew(place, compilations, ending, build):
    given = sample('scara').tree, ('inverse_dynamics', 'gravity_forces')
    expected = build(*given)
    (file,) = place.glob(f'*.{ending}')
    whole = file.read_bytes()
    for broken in (whole[: len(whole) // 2], whole[:-1] + bytes([whole[-1] ^ 1])):
        file.write_bytes(broken)
        compilations.clear()
        assert build(*given) == expected
        assert len(compilations) == 2
        assert file.read_bytes() == whole


def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path, monkeypatch, caplog):
    occupied = tmp_path / 'file'
    occupied.write_text('not a directory')
    monkeypatch.setenv(disk_cache.LOCATION, str(occupied))
    with caplog.at_level(logging.WARNING):
        kernels = compile_kernel(sample('scara').tree)
    assert kernels.kind == 'machine code'
    assert 'generated content not cached' in caplog.text


def test_the_cache_moves_with_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv(disk_cache.LOCATION)
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'xdg'))
    assert disk_cache.cache_directory() == tmp_path / 'xdg' / 'robot_dynamics_ros'
    monkeypatch.delenv('XDG_CACHE_HOME')
    monkeypatch.setenv('HOME', str(tmp_path))
    assert disk_cache.cache_directory() == tmp_path / '.cache' / 'robot_dynamics_ros'
    monkeypatch.setenv(disk_cache.LOCATION, '~/elsewhere')
    assert disk_cache.cache_directory() == tmp_path / 'elsewhere'


def test_old_files_are_deleted(place, monkeypatch, caplog):
    monkeypatch.setattr(disk_cache, '_MAX_FILES', 3)
    for k in range(5):
        disk_cache.store(f'{k}.py', b'x')
        os.utime(place / f'{k}.py', (k, k))
    disk_cache.store('5.py', b'x')
    assert sorted(file.name for file in place.glob('*.*')) == ['3.py', '4.py', '5.py']
    listed = [*os.scandir(place), *os.scandir(place)]
    (place / '3.py').unlink()  # by another process
    monkeypatch.setattr(os, 'scandir', lambda _: listed)
    disk_cache.store('6.py', b'x')
    assert not caplog.records


@pytest.mark.slow
def test_several_processes_at_once_fill_an_empty_cache_or_repair_one_for_later_ones(place):
    for _ in ('empty', 'broken'):
        first = [process(place) for _ in range(3)]
        printed = [started.communicate(timeout=60) for started in first]
        assert {error for _, error in printed} == {''}
        assert {out.split(';')[0] for out, _ in printed} == {'machine code'}
        # The last process left complete files; no temporary ones remain.
        assert sorted(file.suffix for file in place.glob('*.*')) == ['.o', '.py']
        assert all(disk_cache.load(file.name) is not None for file in place.glob('*.*'))
        out, _ = process(place).communicate(timeout=60)
        assert out == 'machine code;False\n', 'compiles nothing'
        for file in place.glob('*.*'):
            file.write_bytes(file.read_bytes()[:1000])


def test_the_fingerprint_changes_with_all_that_generated_code_depends_on(monkeypatch):
    tree, outputs = sample('scara').tree, ('inverse_dynamics',)

    def of(tree=tree, formulation='newton_euler', outputs=outputs, machine='', frame='tool'):
        return fingerprint(KernelSpec(tree, formulation, frame), outputs, machine)

    motion, names = ('frame_motion',), [of(tree.with_changes(parent=(-1, 0, 1, 1)))]
    names += [of(formulation='kane'), of(outputs=('mass_matrix',)), of(machine=machine())]
    names += [of(outputs=motion), of(outputs=motion, frame='link1')]
    for name in ('axis', 'R_PJ', 'p_PJ', 'mass', 'com', 'inertia', 'gravity'):
        changed = np.array(getattr(tree, name))
        changed.flat[-1] = np.nextafter(changed.flat[-1], np.inf)
        names.append(of(tree.with_changes(**{name: changed})))
    names.append(of())
    assert of(tree.with_changes(effort_limit=2 * tree.effort_limit, xml='')) == names[-1]
    monkeypatch.setattr(kernel, 'source_digest', lambda: b'other sources')
    assert len({*names, of()}) == len(names) + 1


def test_what_is_compiled_is_said_once_and_not_when_it_is_kept(place, caplog):
    caplog.set_level('INFO', logger='robot_dynamics_ros')
    tree = sample('scara').tree
    for _ in range(2):
        compile_kernel(tree, outputs=('gravity_forces',))
    assert caplog.messages == [f'compiling gravity_forces of {tree.name}']


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """Return the file of a robot in a copy of the folder of shipped ones."""
    shutil.copytree(ROOT / 'urdf', tmp_path / 'urdf')
    monkeypatch.setattr('robot_dynamics_ros.description.shipped.share_directory', lambda: tmp_path)
    return tmp_path / 'urdf' / 'four_dof.urdf.xacro'


def test_a_description_that_ships_is_expanded_once_for_the_same_arguments(
    place, shipped, monkeypatch
):
    wide = {'limits_profile': 'wide'}
    first = read_description(shipped, wide)
    monkeypatch.setattr('xacro.process_file', lambda *_, **__: 1 / 0)
    assert read_description(shipped, wide) == first
    with pytest.raises(DescriptionError, match='division by zero'):
        read_description(shipped)


def test_a_description_that_ships_is_expanded_anew_after_a_change_of_what_it_includes(
    place, shipped
):
    before = read_description(shipped).xml
    part = shipped.with_name('materials.xacro')
    part.write_text(part.read_text('utf-8').replace('rgba="0', 'rgba="1'), 'utf-8')
    assert read_description(shipped).xml != before


def test_descriptions_that_ship_depend_only_on_what_stands_beside_them():
    for file in (ROOT / 'urdf').glob('*.xacro'):
        text = file.read_text('utf-8')
        for included in re.findall(r'xacro:include\s+filename="([^"]*)"', text):
            assert included in {other.name for other in file.parent.iterdir()}
        assert text.count('xacro:include') == len(re.findall(r'xacro:include\s+filename="', text))
        assert not re.search(r'\$\((find|env|optenv|dirname|cwd)\b|load_yaml', text)
