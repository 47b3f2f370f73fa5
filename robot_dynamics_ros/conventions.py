# SPDX-License-Identifier: Apache-2.0
r"""Notation page: symbols, signs, frames, orders, units. There is no code here.

Units
    SI throughout (REP-103): m, rad, s, kg, N, N m. A joint coordinate is in rad (revolute,
    continuous) or m (prismatic), its effort in N m or N.

Joint space
    ``q v a tau``: position, velocity, acceleration, effort, each of shape (n,), in the order of
    ``RobotTree.joint_names`` (parents first). The ROS words position, velocity, effort appear only
    where messages are converted. Kane's generalized speeds ``u`` appear only in ``kane.py``.

Equation of motion
    ``M(q) a + c(q, v) + g(q) = tau + J^T F``

    M mass matrix; c centrifugal and Coriolis force; g gravity force; b = c + g bias force.
    F is a wrench applied *by the environment to the robot*, so it enters inverse dynamics as
    ``tau = M a + c + g - J^T F``. Joint friction and the armature of the drives are separate terms
    (``dynamics/joint_terms.py``): ``tau_motor = tau + armature * a + friction(v)``.

Indices
    A derivative has the indices of what is differentiated first, and the joint it is
    differentiated by last: ``dM[i, j, s]`` is the derivative of ``M[i, j]`` by ``q[s]``, so that
    ``dM @ v`` is the rate of M. Christoffel symbols have the row of C first. In a batch the states
    come before all other indices.

Spatial vectors
    **Linear part first, angular part second**: motion ``[v; w]``, wrench ``[F; M]``. A wrench on
    body i is written in the axes of body frame i with its moment about the origin of frame i,
    unless a name says otherwise.

Frames and names
    Body i is what moves with joint i; its frame has its origin on the joint axis and moves with
    the body: it is the URDF frame of the joint's child link. Index -1 is the base.
    ``R_AB`` maps components in B to components in A; ``p_AB_E`` is the vector from the origin of
    A to the origin of B in the axes of E (E = A if omitted). W is the base (world) frame, P the
    parent body, J the joint frame before the joint moves, B the body, C the centre of mass.

Constraints
    A task or virtual constraint is ``f(q, t) = 0`` with m rows: ``Gamma = df/dq`` (m, n),
    ``f'' = Gamma a + beta``. A reaction or multiplier N acts as ``Gamma^T N`` on the joints. The
    object that holds constraints with gains is called a program.

Coordinates
    Controlled joints are those that a law commands; locked and mimic joints follow from them.
    Of a closed-loop mechanism, u are the independent coordinates, phi the dependent joints.

Time
    s, as float, in laws and trajectories; ns, as integers, wherever stamps are compared. A state
    has two times: its stamp, and the steady time of its arrival.

Friction and armature
    Viscous coefficient in N m s/rad or N s/m, Coulomb level in N m or N. Armature is rotor inertia
    times gear ratio squared, kg m^2 or kg at the joint.

Errors
    ``error = reference - measured`` everywhere.

Gains
    Computed torque has acceleration gains: ``Kp`` in 1/s^2, ``Kd`` in 1/s, offered as natural
    frequency ``w0`` (rad/s) and damping ratio ``zeta``: ``Kp = w0^2``, ``Kd = 2 zeta w0``.

Scalars
    Formulations, kinematics and spatial algebra run over floats, complex numbers, mpmath numbers,
    SymPy expressions and traced scalars alike; arrays of anything but floats have dtype object.
"""
