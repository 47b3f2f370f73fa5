# SPDX-License-Identifier: Apache-2.0
"""A ROS domain, processes and a peer for every test with several processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from launches import Launches
from peer import Peer
from processes import Processes, free_domain


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Yield a starter of nodes in their own domain; all end with the test."""
    with free_domain() as domain, Processes(tmp_path, domain) as started:
        yield started


@pytest.fixture
def launches(tmp_path: Path) -> Iterator[Launches]:
    """Yield a starter of launches in their own domain; all end with the test."""
    with free_domain() as domain, Launches(tmp_path, domain) as started:
        yield started


@pytest.fixture
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    """Yield the test's own node in the domain of its processes or launches."""
    name = 'launches' if 'launches' in request.fixturenames else 'processes'
    with Peer(request.getfixturevalue(name)) as node:
        yield node


@pytest.fixture(scope='module')
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Processes, Peer]]:
    """Yield processes that live through the tests of a file, and the tests' node."""
    folder = tmp_path_factory.mktemp('lasting')
    with (
        free_domain() as domain,
        Processes(folder, domain) as started,
        Peer(started) as node,
    ):
        yield started, node
