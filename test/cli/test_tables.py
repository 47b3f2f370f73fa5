# SPDX-License-Identifier: Apache-2.0
"""Terminal output of commands, as a pipe gets it."""

from __future__ import annotations

from robot_dynamics_ros.cli.tables import print_lines, say


def test_a_line_stays_one_and_names_in_brackets_stay_names(capsys):
    text = 'written: out/[red]/run ' + 60 * 'word '
    say(text, 'bold')
    print_lines('red', '[arm]', [text])
    assert capsys.readouterr().out == f'{text}\n[arm] {text}\n'
