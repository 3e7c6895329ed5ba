"""How fast the simulator is, and how fast its public peers are at the same system. Not part of the tests."""
