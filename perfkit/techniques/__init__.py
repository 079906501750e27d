"""What is changed."""
