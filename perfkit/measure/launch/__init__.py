"""Starting workers."""
