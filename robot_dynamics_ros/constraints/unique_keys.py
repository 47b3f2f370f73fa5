# SPDX-License-Identifier: Apache-2.0
"""YAML in which a key given twice is an error; plain YAML would silently drop the first."""

from __future__ import annotations

from typing import Any

import yaml


class UniqueKeyLoader(yaml.SafeLoader):
    """Builds plain values only, and refuses a mapping that names a key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping.

        Raises:
            yaml.YAMLError: A key is given twice; says where.
        """
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f'key {key.value!r} is given twice', problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)
