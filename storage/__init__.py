"""What is kept, and how it is found: the stores over Qdrant, the write gate, recall. No clock, no LLM, no schedule."""
