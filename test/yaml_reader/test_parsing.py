# SPDX-License-Identifier: Apache-2.0
"""Any YAML text or argument gives plain values, or one clear error line with its location."""

import os
import time

import numpy as np
import pytest
import yaml
from samples import sample

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.trajectories.points import trajectory_of_file
from robot_dynamics_ros.errors import (
    ConfigurationError,
    MechanismError,
    ParameterError,
    ProgramError,
    TrajectoryError,
    UnknownNameError,
)
from robot_dynamics_ros.model.mechanism_file import read_mechanism_file
from robot_dynamics_ros.yaml_reader import Section, number, written
from robot_dynamics_ros.yaml_reader.parsing import (
    MAX_BYTES,
    MAX_LEVELS,
    file_text,
    parse_yaml,
    plain,
    read_yaml,
    yaml_mapping,
)

#: Texts, their errors, and the lines.
HOSTILE = {
    'a: 0b_': "line 1: '0b_' is not a number",
    'a: 1\nb: 0x_\n': "line 2: '0x_' is not a number",
    'a: 1\nb: 010': "line 2: '010' of b is 8 in YAML 1.1; give a decimal number",
    'a: [0.5, 1:30.0]': "line 1: '1:30.0' of a is 90.0 in YAML 1.1",
    'a: !!int ""': "line 1: has the tag '!!int'",
    'a: !!timestamp x': "line 1: has the tag '!!timestamp'",
    'a: !!python/object:os.system x': "has the tag '!!python/object:os.system'",
    'a: !mine x': "has the tag '!mine'",
    'a: "\\U00110000"': 'line 1: is not valid YAML: found invalid Unicode',
    'a: "\\ud800"': 'is not valid YAML',
    'a: \x00': 'is not valid YAML',
    'a: ' + '9' * 10_000: 'line 1: has a number of 10000 digits',
    'a: ' + '[' * 900 + ']' * 900: 'line 1: is nested too deeply',
    '\n'.join(' ' * k + 'a:' for k in range(900)): f'line {MAX_LEVELS + 1}: is nested too',
    'a: 1\na: 2': "line 2: key 'a' is given twice",
    'a:\n  b: 1\n  "b": 2': "line 3: key 'b' is given twice",
    '1: 2': 'line 1: key 1 is not a name',
    '? [1]\n: 2': 'key of several values is not a name',
    'a: *b': r'\*b is undefined',
    'a: &a [*a]': r'\*a is undefined',
    'a: 1\n---\nb: 2': 'line 2: has a second document',
}


@pytest.mark.parametrize('text', HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_text_is_refused_in_one_line_that_says_where(text):
    with pytest.raises(ConfigurationError, match=HOSTILE[text]) as caught:
        parse_yaml(text, 'file')
    assert '\n' not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_each_kind_of_file_refuses_it_as_its_own_error(tmp_path):
    tree, path = sample('scara').tree, tmp_path / 'motion.yaml'
    text = 'a: 0b_'
    path.write_text(text, encoding='utf-8')
    for kind, read in (
        (ProgramError, lambda word: load_program(word, tree)),
        (MechanismError, read_mechanism_file),
        (ConfigurationError, load_driver_profile),
    ):
        with pytest.raises(kind, match=HOSTILE[text]):
            read(f'{text}\n')
    with pytest.raises(TrajectoryError, match=HOSTILE[text]):
        trajectory_of_file(path, tree.joint_names)


def test_plain_values_are_those_of_the_yaml_library():
    text = (
        'a: [1, -2.5, 1.0e+3, .inf, 0x1F, 1_000]\n'
        'b: {c: true, d: no, e: ~, f: "1", g: text, h: }\n'
        'i: |\n  lines\n  of text\n'
        'j: &x [1, {k: 2}]\nl: *x\nm: 1e3\n'
    )
    found = parse_yaml(text, 'file')
    assert found == yaml.safe_load(text)
    assert found.lines == {'a': 1, 'b': 2, 'i': 3, 'j': 6, 'l': 7, 'm': 8}
    assert parse_yaml('a: 2001-99-99\nb: 2001-01-01', 'file') == {
        'a': '2001-99-99',
        'b': '2001-01-01',  # what looks like a date stays a text
    }
    assert yaml_mapping('metadata: {custom: 017, at: 190:20:30}') == {
        'metadata': {'custom': 15, 'at': 685230}  # by another program, as of a bag
    }
    assert np.isnan(parse_yaml('.nan', 'file'))
    assert parse_yaml('', 'file') is None
    assert parse_yaml('\ufeffa: 1', 'file') == {'a': 1}


def test_a_number_of_a_word_is_finite_and_need_not_be_of_yaml():
    assert [written('x', word) for word in ('1e3', '-.5', '010')] == [1000.0, -0.5, 10.0]
    for word in ('nan', '1e99', 'ten', '0,5', ''):
        with pytest.raises(ConfigurationError, match='^x: is .*; give a finite number'):
            written('x', word)


def test_a_bomb_of_aliases_is_refused_at_once():
    text = 'a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1]\n' + '\n'.join(
        f'a{k}: &a{k} [{", ".join([f"*a{k - 1}"] * 8)}]' for k in range(1, 40)
    )
    begin = time.perf_counter()
    with pytest.raises(ConfigurationError, match='has too many values'):
        parse_yaml(text, 'file')
    assert time.perf_counter() - begin < 5.0  # milliseconds, on a busy machine


def test_every_key_and_value_counts(monkeypatch):
    monkeypatch.setattr('robot_dynamics_ros.yaml_reader.parsing.MAX_VALUES', 5)
    assert parse_yaml('a: [1, 2]', 'file') == {'a': [1, 2]}
    with pytest.raises(ConfigurationError, match='line 2: has too many values; give at most 5'):
        parse_yaml('a: [1, 2,\n3]', 'file')


def test_a_place_in_a_file_has_its_line():
    section = Section('file', parse_yaml('a: 1\nb:\n  c: x\n  d: 2\n', 'file'))
    inner = Section('part', section.take('b', lambda _, value: value))
    with pytest.raises(ConfigurationError, match=r"part, c \(line 3\): is 'x'; give a finite"):
        inner.take('c', number)
    with pytest.raises(ConfigurationError, match=r"part \(line 4\): unknown key 'd'; known: c"):
        inner.close()


def test_what_is_built_gets_the_keys_that_are_given():
    section = Section('part', {'a': 1, 'b': 2})
    built = section.build(lambda a, **more: (a, more), {'a': number}, dict.fromkeys('bc', number))
    assert built == (1, {'b': 2})


WORDS = ['a/' * 2500, 'y' * 300, '~nosuchuser/program', 'nul\0byte', '/dev/zero', '/', '']


@pytest.mark.parametrize('word', [*WORDS, '/proc/self/mem'], ids=range(8))
def test_a_word_that_names_no_readable_text_is_refused(word):
    said = 'cannot be read: ' if word == '/proc/self/mem' else 'is not a file'
    with pytest.raises(ConfigurationError, match=said) as caught:
        read_yaml(word, 'file')
    assert len(str(caught.value)) < 300


def test_a_file_in_another_encoding_too_large_or_forbidden_is_refused(tmp_path):
    path = tmp_path / 'program.yaml'
    path.write_bytes('name: k\xf6rper'.encode('latin-1'))
    with pytest.raises(ProgramError, match=r'program .*not UTF-8 text \(byte 0xf6 at 7\); save'):
        load_program(path, sample('scara').tree)
    path.write_bytes(b'#' * (MAX_BYTES + 1))
    os.mkfifo(tmp_path / 'pipe')
    for file, said in ((path, 'is too large'), (tmp_path / 'pipe', 'is not a file')):
        with pytest.raises(ConfigurationError, match=said):
            file_text(str(file), 'program')


def test_a_shipped_name_and_a_home_folder_are_understood(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    (tmp_path / 'mine.yaml').write_text('a: 1', encoding='utf-8')
    assert read_yaml('~/mine.yaml', 'file') == {'a': 1}
    shipped = {'known': tmp_path / 'mine.yaml'}
    for name in ('known', 'known.yaml'):
        assert read_yaml(name, 'file', shipped) == {'a': 1}
    with pytest.raises(ConfigurationError, match='or the name of a shipped one: known'):
        read_yaml('other', 'file', shipped)
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'known.yaml').write_text('a: own', encoding='utf-8')
    assert read_yaml('known.yaml', 'file', shipped) == {'a': 'own'}
    assert read_yaml('known', 'file', shipped) == {'a': 1}


@pytest.mark.parametrize('word', ['a\0b', 'a\ud800'])
def test_a_word_of_the_command_line_that_is_no_text_is_refused(word, capsys):
    assert main(['analyze', word]) == 2
    error = capsys.readouterr().err
    assert error.startswith('error: argument ')
    assert error.count('\n') == 1


def test_values_of_megabytes_are_cut_short_in_messages():
    huge = 'x' * 5_000_000
    for error in (
        ParameterError('law', huge, 'must be short'),
        UnknownNameError('law', huge, ['a']),
        ConfigurationError(huge, huge, 'shorten it'),
        UnknownNameError('law', 'x', [f'law{k}' for k in range(100_000)]),
        ParameterError('n', 10**5000, 'must be small'),
    ):
        assert len(str(error)) < 4000
        assert '\n' not in str(error)


def test_a_missing_key_beside_a_huge_one_is_told_shortly():
    with pytest.raises(ConfigurationError) as told:
        Section('file', {'x' * 5000: 1}).take('a', number)
    assert len(str(told.value)) < 1200


def test_written_numbers_are_without_rounding_and_exact_to_twelve_digits():
    """An arm's folder had amplitudes as 0.07070000000000001."""
    values = [0.1 + 0.2, 1.0 / 3.0, 1e-17 / 3.0, 7.0, 2]
    assert repr(plain(values)) == '[0.3, 0.3333333333333, 3.333333333333e-18, 7.0, 2]'
    np.testing.assert_allclose(plain(values), values, rtol=1e-12)
