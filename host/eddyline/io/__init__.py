"""Files, pipes and Arrow objects as streams of batches, and back."""
