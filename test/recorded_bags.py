# SPDX-License-Identifier: Apache-2.0
"""The recordings of the folder ``data``; its README.md says where they come from."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).resolve().parent / 'data'
NOMINAL = DATA / 'gazebo_scara_nominal'
UNKNOWN = DATA / 'gazebo_scara_unknown_plant'
STAUBLI = DATA / 'staubli_tx40'
