# SPDX-License-Identifier: Apache-2.0
"""An invalid parameter file or ROS argument ends a node with one clear line."""

import pytest

CONTENTS = {
    'is not UTF-8 text': 'name: k\xf6rper'.encode('latin-1'),
    "Couldn't parse params file": b'/**:\n  ros__parameters:\n    x: [1, a]\n',
}


@pytest.mark.parametrize('reason', CONTENTS)
def test_a_parameter_file_that_cannot_be_read_is_told_in_one_line(processes, tmp_path, reason):
    file = tmp_path / 'own.yaml'
    file.write_bytes(CONTENTS[reason])
    node = processes.start('recorder', None, '--params-file', str(file))
    assert node.wait() == 2
    assert 'error: ' in node.output
    assert reason in node.output
    assert 'Traceback' not in node.output


@pytest.mark.parametrize(
    ('arguments', 'reason'),
    [
        (['--params-file', '/proc/self/mem'], 'cannot be read'),
        (['--params-file', 'x' * 5000], 'is not a file'),
        (['-p', 'bag'], "Couldn't parse parameter override rule"),
        (['--nonsense'], 'nonsense'),
    ],
)
def test_a_wrong_ros_argument_is_told_in_one_line(processes, arguments, reason):
    node = processes.start('recorder', None, *arguments)
    assert node.wait() == 2
    assert 'error: ' in node.output
    assert reason in node.output
    assert 'Traceback' not in node.output
