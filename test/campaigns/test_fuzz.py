# SPDX-License-Identifier: Apache-2.0
"""A sample of the mutated inputs: accepted, or rejected in one clear line; and the evaluation."""

import time

import numpy as np
import pytest
from campaigns import fuzz
from campaigns.fuzz import InputKind

from robot_dynamics_ros.errors import ConfigurationError


@pytest.mark.slow
@pytest.mark.parametrize('kind', fuzz.KINDS)
def test_a_mutated_input_is_taken_or_refused_in_one_clear_line(kind):
    results = fuzz.run_chunk((kind, range(50)), seed=7)
    assert [one for one in results if one.verdict not in ('accepted', 'refused')] == []
    assert [one.index for one in results] == [*range(50)]


@pytest.mark.slow
@pytest.mark.parametrize('kind', [kind for kind in fuzz.KINDS if kind != 'command_line'])
def test_what_is_mutated_is_taken_as_it_is_and_nothing_is_written_elsewhere(
    kind, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    fuzz.run_chunk((kind, range(1)), seed=7)
    assert list(tmp_path.iterdir()) == []
    for origin, text in enumerate(fuzz.KINDS[kind].seeds()):
        assert fuzz.evaluate(kind, text, origin) == ('accepted', '')


def test_an_input_can_be_made_again_and_differs_from_its_neighbours():
    texts = [fuzz.text_of('profile', index, seed=3) for index in range(40)]
    assert texts == [fuzz.text_of('profile', index, seed=3) for index in range(40)]
    assert len(set(texts)) > 35
    assert texts != [fuzz.text_of('profile', index, seed=4) for index in range(40)]


@pytest.mark.slow
def test_bombs_and_ways_outside_are_among_the_mutations():
    texts = ''.join(
        fuzz.text_of(kind, i, 3)[0] for kind in ('urdf', 'profile') for i in range(400)
    )
    for part in ('&lol9;', 'SYSTEM "file:', '*a10', '!!python/object/apply', '../../etc/passwd'):
        assert part in texts


def test_a_bag_of_which_positions_are_not_finite_is_a_breach(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    text = fuzz.KINDS['bag'].seeds()[0]
    run = fuzz.read_recording(fuzz.write_input('bag', text, 0, tmp_path))
    run.position[3, 1] = np.nan
    monkeypatch.setattr(fuzz, 'read_recording', lambda path: run)
    assert fuzz.evaluate('bag', text, 0)[0] == 'breach'


def _raise(error):
    raise error


@pytest.mark.slow
@pytest.mark.parametrize(
    ('read', 'said'),
    [
        (lambda text, origin: _raise(KeyError('x')), "KeyError: 'x'"),
        (lambda text, origin: _raise(MemoryError()), 'MemoryError'),
        (lambda text, origin: [0] * 10**6 and time.sleep(0.6), 'TimeoutError'),
    ],
)
def test_the_judge_sees_what_it_looks_for(monkeypatch, read, said):
    monkeypatch.setattr(fuzz, 'LONGEST_S', 0.05)
    monkeypatch.setitem(fuzz.KINDS, 'bad', InputKind(lambda: [''], read))
    verdict, found = fuzz.evaluate('bad', '', 0)
    assert verdict == 'breach'
    assert said in found


def test_a_refusal_must_be_one_short_line(monkeypatch):
    class LongError(ConfigurationError):
        def __str__(self):
            return self.problem

    for problem, verdict in (('one', 'refused'), ('two\nlines', 'breach'), ('x' * 6000, 'breach')):
        kind = InputKind(lambda: [''], lambda *_: _raise(LongError('', problem, '')))  # noqa: B023
        monkeypatch.setitem(fuzz.KINDS, 'bad', kind)
        assert fuzz.evaluate('bad', '', 0)[0] == verdict
