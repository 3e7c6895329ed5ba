"""Mutants of the formulas, the tests that may kill them, and what is known of each: see scripts/mutation_report.py."""
