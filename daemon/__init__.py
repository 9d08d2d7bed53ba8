"""Who may ask, and when things happen: the only room with a clock, a socket and an environment."""

__version__ = "0.1.0"
