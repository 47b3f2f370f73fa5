# SPDX-License-Identifier: Apache-2.0
"""A whole controller without ROS: laws, trajectories, safety, drivers; loop, session, setup.

``loop`` is the tick, ``session`` the modes around it, ``setup`` makes both from parameters.
``laws`` compute efforts, ``trajectories`` references, ``safety`` surrounds the law, ``drivers``
stand between model and arm, ``design`` finds gains and motions.
"""
