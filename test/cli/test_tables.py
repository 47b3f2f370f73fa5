# SPDX-License-Identifier: Apache-2.0
"""Terminal output of commands, as a pipe gets it."""

import pytest

from robot_dynamics_ros.cli import tables
from robot_dynamics_ros.cli.tables import print_lines, print_table, say
from robot_dynamics_ros.recordings.report.toolkit import ReportTable


def test_a_line_stays_one_and_names_in_brackets_stay_names(capsys):
    text = 'written: out/[red]/run' + 60 * ' word'
    say(text, 'bold')
    print_lines('red', '[arm]', [text])
    assert capsys.readouterr().out == f'{text}\n[arm] {text}\n'


@pytest.mark.parametrize(('width', 'parts'), [(50, 5), (51, 3), (79, 2), (134, 2), (135, 1)])
def test_no_number_breaks_in_a_narrow_terminal_and_each_part_names_its_rows(
    capsys, monkeypatch, width, parts
):
    head = ['joint', *(f'RMS of column {k}' for k in range(9))]
    rows = [[name, *(f'{k}.12345 N m' for k in range(9))] for name in ('pan', 'lift')]
    monkeypatch.setattr(tables, '_WIDTH_IN_FILES', width)
    print_table(ReportTable(head, rows))
    said = capsys.readouterr().out
    assert all(said.count(f'{k}.12345 N m') == 2 for k in range(9))
    assert said.count('lift') == said.count('joint') == parts
    assert max(map(len, said.splitlines())) <= width


@pytest.mark.parametrize('width', [20, 60, 90])
def test_no_column_is_cut_beside_cells_that_fold(capsys, monkeypatch, width):
    head = ['moved by', 'moments', 'least eigenvalue of pseudo-inertia', 'density at least']
    row = ['shoulder_lift_joint', '0.004433 0.004433 0.00720', '0.0008333', '6575']
    monkeypatch.setattr(tables, '_WIDTH_IN_FILES', width)
    print_table(ReportTable(head, [row]))
    said = capsys.readouterr().out
    assert '6575 │' in said
    assert {line[-1] for line in said.splitlines()} <= set('┓┃┩│┘')
