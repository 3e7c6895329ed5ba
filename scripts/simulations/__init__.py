"""What is simulated for the chapters: see ``scripts/simulate_batching.py``."""
