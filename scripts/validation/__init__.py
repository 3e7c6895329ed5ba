"""Experiments that hold the queueing formulas against simulation; see ``scripts/validate_theory.py``."""
