# SPDX-License-Identifier: Apache-2.0
"""A sample of the mutated inputs: accepted, or rejected in one clear line; and the evaluation."""

import tempfile
import time

import numpy as np
import pytest
from campaigns import fuzz
from campaigns.__main__ import main
from campaigns.fuzz import Chunk, InputKind
from hypothesis import Phase, find, settings
from hypothesis import strategies as st

from robot_dynamics_ros.errors import ConfigurationError


@pytest.mark.slow
@pytest.mark.parametrize('kind', fuzz.KINDS)
def test_a_mutated_input_is_taken_or_refused_in_one_clear_line(kind, tmp_path, monkeypatch):
    """What is mutated is taken as it is."""
    monkeypatch.chdir(tmp_path)
    result = fuzz.run_chunk(Chunk(kind, 30, seed=7))
    assert result.violation == ''
    assert result.verdicts.keys() <= {'accepted', 'refused'}
    assert result.verdicts.total() == 30
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('words', ['faults -n 0', 'fuzz -n -1', 'touch --seeds 0'])
def test_a_campaign_without_inputs_is_refused(words, capsys):
    assert main(words.split()) == 2
    assert 'must be positive' in capsys.readouterr().err


def test_bombs_are_among_the_mutations():
    often = settings(max_examples=3000, phases=[Phase.generate])
    for text, part in (('<robot name="a"/>', '&lol9;'), ('a: 1', '*a10')):
        assert part in find(fuzz.mutated(text), lambda one, part=part: part in one, settings=often)


def test_a_bag_of_which_positions_are_not_finite_is_a_violation(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    text = fuzz.KINDS['bag'].seeds()[0]
    run = fuzz.read_recording(fuzz.write_input('bag', text, 0, tmp_path))
    run.position[3, 1] = np.nan
    monkeypatch.setattr(fuzz, 'read_recording', lambda path: run)
    with pytest.raises(ArithmeticError, match='not finite'):
        fuzz.evaluate('bag', text, 0)


def test_an_input_that_leaves_a_temporary_file_is_a_violation(monkeypatch):
    kind = InputKind(lambda: [''], lambda *_: tempfile.mkstemp(), mutate=lambda _: st.just(''))
    monkeypatch.setitem(fuzz.KINDS, 'bad', kind)
    assert 'temporary files remain' in fuzz.run_chunk(Chunk('bad', 1, seed=1)).violation


class VerbatimError(ConfigurationError):
    """An error whose message is not shortened to one line."""

    def __str__(self):
        return self.problem


@pytest.mark.slow
@pytest.mark.parametrize(
    ('wrong', 'said'),
    [
        (lambda: KeyError('x'), "KeyError: 'x'"),
        (MemoryError, 'MemoryError'),
        (lambda: time.sleep(0.6), 'TimeoutError'),
        (lambda: VerbatimError('', 'two\nlines', ''), 'not one short line'),
        (lambda: VerbatimError('', 'x' * 6000, ''), 'not one short line'),
    ],
)
def test_a_violation_is_found_and_its_input_reduced(monkeypatch, wrong, said):
    def fails(text, origin):
        if '7' in text:
            raise wrong()

    monkeypatch.setattr(fuzz, 'LONGEST_S', 0.05)
    kind = InputKind(lambda: [''], fails, mutate=lambda _: st.text('0123456789'))
    monkeypatch.setitem(fuzz.KINDS, 'bad', kind)
    first, again = (fuzz.search(Chunk('bad', 100, seed=1)) for _ in range(2))
    assert said in first.violation
    assert "one=('7', 0)" in first.violation
    assert again[:3] == first[:3]
