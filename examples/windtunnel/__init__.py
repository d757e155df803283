"""The parts of `examples/wind_tunnel.py`: the lattice, the obstacle, the pictures."""


class TunnelError(Exception):
    """Something the user gave cannot be used. The message is one plain sentence."""
