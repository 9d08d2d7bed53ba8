"""What happens while nobody asks: one file a job, each a pure plan and a thin run."""
