"""What libraries take and do within an op: scratch memory, and copies of their own."""
