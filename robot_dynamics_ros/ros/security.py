# SPDX-License-Identifier: Apache-2.0
"""Generate SROS2 policies that permit each node exactly the topics and services it uses.

A policy is generated from a running scene::

    ros2 launch robot_dynamics_ros simulation.launch.py ...       # in another terminal:
    python -m robot_dynamics_ros.ros.security policy.xml

``config/security`` contains the policies of the launch files. Create a keystore from a policy with
``ros2 security create_keystore``, ``create_enclave`` and ``create_permission``.
"""

from __future__ import annotations

import argparse
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import rclpy
from rclpy.node import NodeNameNonExistentError

from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError

_DISCOVERY_S = 5.0
#: What a permission is for, by the attribute that gives it.
PARTS = {'publish': 'topic', 'subscribe': 'topic', 'reply': 'service', 'request': 'service'}

#: By name and namespace of a node: its permissions, as attribute and full name.
Uses = dict[tuple[str, str], set[tuple[str, str]]]


def node_uses(observer: Any) -> Uses:
    """Return the topics of all discovered nodes, and the services that they serve and call.

    Args:
        observer: The observing node, which is left out.
    """
    queries = {
        'publish': observer.get_publisher_names_and_types_by_node,
        'subscribe': observer.get_subscriber_names_and_types_by_node,
        'reply': observer.get_service_names_and_types_by_node,
        'request': observer.get_client_names_and_types_by_node,
    }
    nodes: Uses = {}
    for key in observer.get_node_names_and_namespaces():
        with suppress(NodeNameNonExistentError):  # it has just ended
            if key[0] != observer.get_name():
                nodes[key] = {(use, x) for use, query in queries.items() for x, _ in query(*key)}
    return nodes


def policy(nodes: Uses) -> str:
    """Return the policy of nodes as XML text: one enclave with a profile for each node."""
    root = ElementTree.Element('policy', version='0.2.0')
    enclave = ElementTree.SubElement(ElementTree.SubElement(root, 'enclaves'), 'enclave', path='/')
    profiles = ElementTree.SubElement(enclave, 'profiles')
    for (name, space), permissions in sorted(nodes.items()):
        profile = ElementTree.SubElement(profiles, 'profile', node=name, ns=space)
        for attribute, kind in PARTS.items():
            if names := sorted(x for use, x in permissions if use == attribute):
                part = ElementTree.SubElement(profile, f'{kind}s', {attribute: 'ALLOW'})
                for one in names:
                    ElementTree.SubElement(part, kind).text = one
    ElementTree.indent(root)
    return f'{ElementTree.tostring(root, encoding="unicode")}\n'


def main(file: str) -> None:
    """Write the policy of the nodes that run in this domain.

    Raises:
        ConfigurationError: No node runs.
    """
    rclpy.init()
    observer = rclpy.create_node('policy_observer')
    time.sleep(_DISCOVERY_S)
    nodes = node_uses(observer)
    rclpy.shutdown()
    if not nodes:
        raise ConfigurationError('scene', 'no node runs in this domain', 'launch it first')
    Path(file).write_text(policy(nodes), encoding='utf-8')


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description='Write the policy of the nodes that run here.')
    parser.add_argument('file', help='policy file to write')
    try:
        main(parser.parse_args().file)
    except (RobotDynamicsError, OSError) as error:
        parser.exit(2, f'error: {error}\n')
