"""One Trip, Many Tokens: roofline, queueing, simulation and cost of batched LLM inference."""
